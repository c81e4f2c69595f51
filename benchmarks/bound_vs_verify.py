"""What `torchlint profile` promises of findings, against what `torchlint verify` measures of their
fixes.

    python benchmarks/bound_vs_verify.py [--keep NAME | --json] [--pairs N] [--budget S] [PROGRAM]

Profiles a program (``fixtures/bounds/train.py``) and verifies each of its fixes alone. A bound
holds where it is not below what the fix surely saves, the lower end of the 95 % interval. On a GPU
the waits of each line that the profile saw are compared with those that verify's ledger predicts.
Prints both, with --json as JSON; --keep writes them to ``benchmarks/results/NAME.json``, with the
GPU's name. Without a GPU only findings whose rule's effect costs a CPU something have a bound.

The exit code is 1 where a bound does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measuring import environment, keep

PROGRAM = Path(__file__).parents[1] / "fixtures" / "bounds" / "train.py"
Place = tuple[str, int]


def report(folder: str, *words: str) -> dict[str, Any]:
    """Run torchlint in a folder; return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "torchlint", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def saved(speed: dict[str, Any]) -> tuple[float, float] | None:
    """Return the 95 % interval of the share of a step that a fix saves; None where too few pairs
    were timed."""
    ends = speed["ci95"]
    if not ends or None in ends:
        return None
    return 1 - 1 / ends[0], 1 - 1 / ends[1]


def compared(profile: dict[str, Any], verify: dict[str, Any]) -> list[dict[str, Any]]:
    """Return for each fix that was timed alone the bound of its findings, and what it saves."""
    rows = []
    for variant in verify["variants"]:
        measured = saved(variant["speed"]) if variant["kind"] == "single" else None
        if measured is None:
            continue
        code, _, where = variant["fixes"][0].partition("@")
        file, line = where.split(" ")[0].split(":")[:2]
        bounds = [
            each["bound"]["share"]
            for each in profile["findings"]
            if (each["code"], each["filename"], each["line"]) == (code, file, int(line))
            and each["bound"] is not None
        ]
        rows.append(
            {
                "fix": variant["fixes"][0],
                "bound": max(bounds, default=None),
                "saves": measured,
                "holds": max(bounds) >= measured[0] if bounds else None,
            }
        )
    return rows


def waits(profile: dict[str, Any], verify: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return by line how often a step waits for the device, seen and predicted."""
    seen: Counter[Place] = Counter()
    steps = len(profile["steps"])
    for each in (profile["waits"] or {"places": []})["places"]:
        if each["file"]:
            seen[each["file"], each["line"]] += each["calls"] / max(steps, 1)
    predicted: Counter[Place] = Counter()
    counts = next((each["counts"] for each in verify["variants"] if each["counts"]), None)
    for each in counts["before"] if counts is not None else ():
        if each["kind"] == "sync":
            predicted[each["file"], each["line"]] += each["count"] / counts["steps"]
    return {
        f"{file}:{line}": {"seen": seen[file, line], "predicted": predicted[file, line]}
        for file, line in sorted({*seen, *predicted})
    }


def main() -> int:
    """Compare; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", type=Path, nargs="?", default=PROGRAM)
    parser.add_argument("--keep", metavar="NAME", help="write the figures to results/NAME.json")
    parser.add_argument("--pairs", default="48", help="blocks of each fix that are timed")
    parser.add_argument("--steps", default="20", help="steps that are profiled")
    parser.add_argument("--budget", default="900", help="seconds for the timing")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(args.program, folder)
        shared = ["--isolated", "-q", "--output-format", "json"]
        run = ["--", args.program.name]
        here = ["--device", args.device]
        profile = report(folder, "profile", ".", *shared, *here, "--steps", args.steps, *run)
        each = ["--unsafe-fixes", "--ablation", "each", "--fail-on", "never"]
        timed = [*here, "--pairs", args.pairs, "--budget", args.budget]
        verify = report(folder, "verify", ".", *shared, *each, *timed, *run)
        counted = report(
            folder, "verify", ".", *shared, *each, "--device", "virtual-cuda", *run
        )  # fmt: skip
    rows, counts = compared(profile, verify), waits(profile, counted)
    if args.json:
        print(json.dumps({"bounds": rows, "waits": counts}))
    else:
        print(*rows, *counts.items(), sep="\n")
    device = verify["env"]["device_name"] or "CPU"
    if args.keep:
        versions = {"torch": version("torch"), "torchlint": version("torchlint")}
        found = {"environment": environment(versions), "device": device, "n": int(args.pairs)}
        keep(args.keep, {**found, "bounds": rows, "waits": counts})
    return int(any(row["holds"] is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
