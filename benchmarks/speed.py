"""Cold speed and peak memory on real code, beside TorchFix in the same run.

    python benchmarks/speed.py CORPUS [--torchfix BIN] [--only NAME ...] [--rounds N] [--keep NAME]

CORPUS is a folder of unpacked packages; --only takes some of its folders. Every command runs as a whole process,
one after the other (A B A B …), on exactly the same files; its CPU seconds (children included) are divided by the
lines of those files. Peak memory is that of the largest single process. Exit codes and the number of findings are
printed, so that a tool that fell over is not taken for a fast one. Prints a table; --keep writes
``benchmarks/results/NAME.json``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_MEASURE = """
import json, os, resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[2:], stdout=open(sys.argv[1] + ".out", "w"), stderr=open(sys.argv[1] + ".err", "w"))
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"wall": time.monotonic() - start, "cpu": used.ru_utime + used.ru_stime,
                  "peak_mib": used.ru_maxrss / 1024, "exit": done.returncode}))
"""


def measure(command: list[str], folder: str) -> dict[str, float]:
    """Run a command below a fresh parent, so that its children's usage is its own; return what it took."""
    out = os.path.join(folder, "run")
    done = subprocess.run([sys.executable, "-c", _MEASURE, out, *command], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    result["output_lines"] = Path(out + ".out").read_bytes().count(b"\n")
    return result


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--torchfix", default="", help="the torchfix executable, from a venv of its own")
    parser.add_argument("--only", nargs="*", default=[], help="folders of the corpus to take")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", metavar="NAME")
    args = parser.parse_args()

    roots = [args.corpus / name for name in args.only] or [args.corpus]
    files = sorted(p for root in roots for p in root.rglob("*.py") if p.is_file())
    lines = sum(p.read_bytes().count(b"\n") for p in files)
    paths = [str(root) for root in roots]
    options = ["--isolated", "-j", "1", "--output-format", "concise"]
    tools = {"torchlint": ["torchlint", "check", *options, *paths]}
    if args.torchfix:
        tools["torchfix"] = [args.torchfix, "-j", "1", "--select", "ALL", *paths]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in tools}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for name, command in tools.items():
                runs[name].append(measure(command, folder))
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    print(f"{len(files)} files, {lines} lines; {machine}; n={args.rounds}")
    summary = {}
    for name, each in runs.items():
        per = [run["cpu"] / lines * 100_000 for run in each]
        peak = max(run["peak_mib"] for run in each)
        summary[name] = {"cpu_s_per_100k_lines": per, "median": statistics.median(per), "peak_mib": peak, "runs": each}
        codes = sorted({int(run["exit"]) for run in each})
        print(
            f"{name:10} CPU {min(per):.2f}/{statistics.median(per):.2f}/{max(per):.2f} s per 100k lines "
            "(min/median/max), "
            f"peak {peak:.0f} MiB, exit {codes}, {int(each[0]['output_lines'])} lines of output"
        )
    if args.torchfix:
        ratios = [b["cpu"] / a["cpu"] for a, b in zip(runs["torchlint"], runs["torchfix"], strict=True)]
        print(f"torchfix / torchlint, paired: {min(ratios):.1f}/{statistics.median(ratios):.1f}/{max(ratios):.1f}")
    if args.keep:
        kept = {
            "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "packages": [root.name for root in roots] if args.only else sorted(p.name for p in args.corpus.iterdir()),
            "files": len(files),
            "lines": lines,
            "tools": summary,
        }
        target = Path(__file__).parent / "results" / f"{args.keep}.json"
        target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
