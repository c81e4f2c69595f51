"""Counts how many findings come with a fix that is applied, per rule and class of safety.

    python benchmarks/fixes.py TREE... [--severity LEVEL] [--show CODE] [--keep NAME] [--again]

Each TREE is a folder; every folder directly in it that holds Python files is one project and is
checked by itself, as its users would: other programs beside it would keep fixes from being safe.
Needs torchlint installed.

=========  ========================================================================================
safe       applied by ``torchlint fix --apply``
unsafe     applied with ``--unsafe-fixes``
shown      a suggestion, which is shown and never applied
none       no fix
=========  ========================================================================================

The share of findings with a fix that can be applied (safe and unsafe) is what to drive up.
``--show CODE`` prints the places of that rule without one.

``--again`` applies all fixes, unsafe ones too, to a copy of each project, checks the copy and
prints the new findings at lines that a fix wrote. There should be none.

``benchmarks/fix_review.jsonl`` holds what people who had no part in the rules said of hunks drawn
at random: ``right``, ``breaks`` or ``hides`` (something that the fix's note does not tell), and
whether they would merge it.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
CLASSES = ("safe", "unsafe", "shown", "none")
_SHOWN = {"safe": "safe", "unsafe": "unsafe", "display": "shown"}


def projects(trees: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders that are checked by themselves."""
    for tree in trees:
        inside = sorted(path for path in tree.iterdir() if path.is_dir())
        loose = any(path.suffix == ".py" for path in tree.iterdir())
        yield from [tree] if loose else inside


def findings(project: Path) -> list[dict[str, Any]]:
    """Return torchlint's JSON findings on a project, default rules, no configuration.

    Raises:
        SystemExit: torchlint itself failed.
    """
    options = ["--isolated", "--no-cache", "--output-format", "json", "--exit-zero"]
    command = ["torchlint", "check", *options, str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("["):
        raise SystemExit(f"torchlint failed on {project}: {done.stderr[-2000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def found_again(project: Path) -> list[dict[str, Any]]:
    """Return the new findings at the lines that the fixes of a project write, in a copy of it.

    Raises:
        SystemExit: torchlint itself failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / project.name
        shutil.copytree(project, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        texts = {str(path): text_of(path) for path in copy.rglob("*.py") if path.is_file()}
        before = _by_file(findings(copy))
        options = ["--isolated", "--no-cache", "--apply", "--unsafe-fixes"]
        command = ["torchlint", "fix", *options, str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"torchlint failed on {project}: {done.stderr[-2000:]}")
        return [
            {**finding, "line": after.splitlines()[finding["location"]["row"] - 1].strip()}
            for name, found in _by_file(findings(copy)).items()
            if name in texts
            for after in [text_of(Path(name))]
            for finding in new_at_written(texts[name], after, before.get(name, []), found)
        ]


def text_of(path: Path) -> str:
    """Return a file's text; bytes that are not UTF-8 are replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


def _by_file(found: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    files: dict[str, list[dict[str, Any]]] = {}
    for finding in found:
        files.setdefault(finding["filename"], []).append(finding)
    return files


def new_at_written(
    before: str,
    after: str,
    old: Iterable[Mapping[str, Any]],
    new: Iterable[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    """Yield those findings of a fixed text that stand at a line that a fix wrote, and whose cause
    was not there before.

    A line is written where the text before has none like it, whatever its indentation. A cause was
    there where the lines that were replaced have a finding of the same rule that no fix fixes.

    Args:
        before: the text as it was.
        after: what the fixes made of it.
        old: the findings of `before`.
        new: the findings of `after`.
    """
    old, new = list(old), list(new)
    olds, news = before.splitlines(), after.splitlines()
    known = {line.strip() for line in olds}
    matcher = difflib.SequenceMatcher(
        None, [line.strip() for line in olds], [line.strip() for line in news], autojunk=False
    )
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal":
            continue
        kept = Counter(
            finding["code"]
            for finding in old
            if start < finding["location"]["row"] <= end and class_of(finding) in ("shown", "none")
        )
        for finding in new:
            row = finding["location"]["row"]
            if not first < row <= last or news[row - 1].strip() in known:
                continue
            kept[finding["code"]] -= 1
            if kept[finding["code"]] < 0:
                yield finding


def class_of(finding: Mapping[str, Any]) -> str:
    """Return the class of a finding's fix, one of `CLASSES`."""
    fix = finding["fix"]
    return "none" if fix is None else _SHOWN[fix["applicability"]]


def table(found: Iterable[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Return how many findings of each rule have a fix of each class; ``all`` comes last."""
    counts: dict[str, Counter[str]] = {}
    for finding in found:
        counts.setdefault(finding["code"], Counter())[class_of(finding)] += 1
    ordered = dict(sorted(counts.items(), key=lambda item: -item[1].total()))
    return {**ordered, "all": sum(counts.values(), Counter())}


def share(counts: Counter[str], *classes: str) -> float:
    """Return the share of findings whose fix is of one of the classes; 0 where there are none."""
    total = counts.total()
    return sum(counts[each] for each in classes) / total if total else 0.0


def main() -> None:
    """Count, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--severity", default="warning", choices=("info", "warning", "all"))
    parser.add_argument("--show", metavar="CODE", help="print what has no fix of this rule")
    parser.add_argument("--keep", metavar="NAME", help="write benchmarks/results/NAME.json")
    parser.add_argument(
        "--again", action="store_true", help="print the new findings at lines that a fix wrote"
    )
    args = parser.parse_args()
    found = [
        finding
        for project in projects(args.trees)
        for finding in findings(project)
        if finding["code"].startswith("TL") and args.severity in (finding["severity"], "all")
    ]
    counts = table(found)
    print(f"{'':6}" + "".join(f"{each:>8}" for each in (*CLASSES, "all")) + f"{'applied':>9}")
    for code, row in counts.items():
        cells = "".join(f"{each:8}" for each in (*(row[name] for name in CLASSES), row.total()))
        print(f"{code:6}{cells}{share(row, 'safe', 'unsafe'):9.0%}")
    for finding in found:
        if finding["code"] == args.show and class_of(finding) in ("shown", "none"):
            print(f"{finding['filename']}:{finding['location']['row']}: {finding['message']}")
    again = [
        finding
        for project in (projects(args.trees) if args.again else ())
        for finding in found_again(project)
        if finding["code"].startswith("TL") and args.severity in (finding["severity"], "all")
    ]
    for finding in again:
        place = f"{finding['filename']}:{finding['location']['row']}"
        print(f"{place}: {finding['code']} {finding['severity']}: {finding['line']}")
    if args.again:
        print(f"findings at lines that a fix wrote: {len(again)}")
    if args.keep:
        version = subprocess.run(
            ["torchlint", "--version"], capture_output=True, text=True, check=True
        )
        kept = {
            "torchlint": version.stdout.strip(),
            "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
            "python": sys.version.split()[0],
            "severity": args.severity,
            "projects": len(list(projects(args.trees))),
            "fixes": {code: dict(row) for code, row in counts.items()},
            "share_safe": round(share(counts["all"], "safe"), 4),
            "share_applied": round(share(counts["all"], "safe", "unsafe"), 4),
            **({"found_again": len(again)} if args.again else {}),
        }
        target = RESULTS / f"{args.keep}.json"
        target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
