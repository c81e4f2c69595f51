"""What torchlint says of whole projects, written down before a change and compared after it.

    python benchmarks/oracle.py OUT PROJECT...          write OUT/PROJECT.json for each project
    python benchmarks/oracle.py --compare BEFORE AFTER  print what differs; exit code 1 if it does

Run it from each of two checkouts; the torchlint beside this file is the one that speaks. A project
is one repository, or the folder of an unpacked package. Kept are the findings of all rules with
their fixes, why hot and messages, the patch of ``fix --unsafe-fixes``, and ``--explain`` at lines
drawn at random: half of them lines of findings, half any others (--lines, 20 a project; the seed is
the project's name, so that both sides draw alike). A change that is meant to keep what is printed
keeps all of it; what differs otherwise is read, line by line.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CHECK = ("check", "--isolated", "--no-cache", "--jobs", "1", "--exit-zero")
LINES = 20


def says(project: Path, *words: str) -> str:
    """Return what a command of torchlint's prints in a project's folder.

    Raises:
        SystemExit: the command failed for another reason than findings.
    """
    command = [sys.executable, "-m", "torchlint", *words]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    surroundings.pop("FORCE_COLOR", None)
    done = subprocess.run(command, capture_output=True, text=True, env=surroundings, cwd=project)
    if done.returncode not in (0, 1):
        raise SystemExit(f"exit code {done.returncode} in {project}: {done.stderr[-1000:]}")
    return done.stdout


def drawn(project: Path, findings: list[dict[str, Any]], count: int) -> list[str]:
    """Return places to explain as ``FILE:LINE``: half of findings, half of any other line."""
    draw = random.Random(project.name)
    flagged = sorted({f"{each['filename']}:{each['location']['row']}" for each in findings})
    chosen = draw.sample(flagged, min(count // 2, len(flagged)))
    files = sorted(path.relative_to(project) for path in project.rglob("*.py") if path.is_file())
    lines = [
        f"{file}:{number}"
        for file in draw.sample(files, min(count, len(files)))
        for number, line in enumerate((project / file).read_bytes().splitlines(), 1)
        if line.strip()
    ]
    return chosen + draw.sample(lines, min(count - len(chosen), len(lines)))


def written(project: Path, count: int) -> dict[str, Any]:
    """Return all that torchlint says of a project."""
    found = says(project, *CHECK, "--select", "ALL", "--output-format", "json", ".")
    findings: list[dict[str, Any]] = json.loads(found.replace(f"{project}{os.sep}", ""))
    patch = says(project, "fix", "--unsafe-fixes", "--isolated", "--no-cache", "--jobs", "1", ".")
    reasons = {
        place: says(project, "check", "--isolated", "--explain", place)
        for place in drawn(project, findings, count)
    }
    return {"findings": findings, "patch": patch, "explained": reasons}


def lines_of(value: dict[str, Any]) -> list[str]:
    """Return what was written as lines: one a finding, and those of the patch and the reasons."""
    lines = [json.dumps(each, sort_keys=True) for each in value["findings"]]
    lines += value["patch"].splitlines()
    for place, reason in value["explained"].items():
        lines += [f"{place} {line}" for line in reason.splitlines()]
    return lines


def compare(before: Path, after: Path) -> int:
    """Print what differs, project by project; return how many projects differ.

    Raises:
        SystemExit: the two folders don't hold the same projects, or none.
    """
    names = [{path.name for path in folder.glob("*.json")} for folder in (before, after)]
    if not names[0] or names[0] != names[1]:
        others = sorted(names[0] ^ names[1])
        raise SystemExit(f"not the same projects: {others or 'there are none'}")
    differing = 0
    for name in sorted(names[0]):
        old, new = (json.loads((folder / name).read_text()) for folder in (before, after))
        if old == new:
            continue
        differing += 1
        print(f"== {name.removesuffix('.json')}")
        for line in difflib.unified_diff(lines_of(old), lines_of(new), lineterm="", n=0):
            if line[:1] in "+-" and line[:3] not in ("+++", "---"):
                print(line)
    print(f"{differing} of {len(names[0])} projects differ")
    return differing


def main() -> None:
    """Write, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder for what is written; or BEFORE")
    parser.add_argument("projects", type=Path, nargs="+", metavar="PROJECT", help="or AFTER")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--lines", type=int, default=LINES, metavar="N", help="to explain")
    args = parser.parse_args()
    if args.compare:
        sys.exit(bool(compare(args.out, *args.projects)))
    args.out.mkdir(parents=True, exist_ok=True)
    for project in args.projects:
        if not project.is_dir():
            parser.error(f"{project} is no folder")
        told = written(project.resolve(), args.lines)
        (args.out / f"{project.resolve().name}.json").write_text(json.dumps(told, indent=1))
        print(f"{project.resolve().name}: {len(told['findings'])} findings", flush=True)


if __name__ == "__main__":
    main()
