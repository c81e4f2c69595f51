"""Which rank `torchlint profile -- PROGRAM` gives the line that makes a program slow.

    python benchmarks/planted.py [--keep NAME] [PROGRAM ...]

Runs the programs of ``fixtures/planted``, each of which has one bottleneck, its lines marked
``# PLANTED``, and says at which place the first of these stands among the lines, in the order of
the report, and among the findings with a bound. Prints both; --keep writes them to
``benchmarks/results/NAME.json``.

Without a GPU these are ranks of a CPU's times: what a read costs that waits for a device, or a
kernel that is too small, is not in them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parents[1] / "fixtures" / "planted"
RESULTS = Path(__file__).with_name("results")
WORD = "# PLANTED"


def profiled(program: Path) -> dict[str, Any]:
    """Return the report of a run in a folder of its own, on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(program, folder)
        command = [sys.executable, "-m", "torchlint", "profile", ".", "-q", "--isolated"]
        command += ["--output-format", "json", "--", program.name]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"{program.name}: exit code {done.returncode}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rank(lines: Iterable[int | None], planted: set[int]) -> int | None:
    """Return the place of the first planted line, from 1; None where there is none."""
    return next((at for at, line in enumerate(lines, 1) if line in planted), None)


def judged(program: Path) -> dict[str, Any]:
    """Run a program, and say where its planted line stands."""
    text = program.read_text(encoding="utf-8").splitlines()
    planted = {number for number, line in enumerate(text, 1) if line.endswith(WORD)}
    found = profiled(program)
    lines = found["lines"]
    bounded = [each for each in found["findings"] if each["bound"] is not None]
    first = lines[0]
    whole = sum(map(cost, lines))
    return {
        "program": program.stem,
        "planted": sorted(planted),
        "rank_among_lines": rank((line["line"] for line in lines), planted),
        "of_lines": len(lines),
        "share": sum(cost(line) for line in lines if line["line"] in planted) / whole,
        "first": {"line": first["line"], "text": text[first["line"] - 1].strip()}
        if first["line"]
        else {"line": None, "text": first["function"]},
        "rank_among_findings": rank((each["line"] for each in bounded), planted),
        "findings": len(found["findings"]),
    }


def cost(line: Mapping[str, Any]) -> int:
    """Return the time of a line on a CPU: of the host and in its backward."""
    return int(line["host_ns"]) + int(line["backward_ns"])


def main() -> int:
    """Run, print and keep."""
    parser = argparse.ArgumentParser(description="Ranks of planted bottlenecks.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--keep", metavar="NAME")
    asked = parser.parse_args()
    wanted = sorted(PROGRAMS.glob("*.py"))
    if asked.programs:
        wanted = [each for each in wanted if each.stem in asked.programs]
    found = []
    for program in wanted:
        each = judged(program)
        found.append(each)
        print(
            f"{each['program']:20} line: {each['rank_among_lines']} of {each['of_lines']} "
            f"({100 * each['share']:.0f} % of the time), finding: {each['rank_among_findings']} of "
            f"{each['findings']}; first: {each['first']['line']} {each['first']['text']}",
            flush=True,
        )
    first = sum(1 in (each["rank_among_lines"], each["rank_among_findings"]) for each in found)
    print(f"first in {first} of {len(found)}")
    if asked.keep:
        kept = {
            "date": datetime.date.today().isoformat(),
            "device": "CPU: no figure of a GPU was measured",
            "python": platform.python_version(),
            "first": first,
            "programs": found,
        }
        path = RESULTS / f"{asked.keep}.json"
        path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
