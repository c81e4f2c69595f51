"""Runs torchlint over millions of lines of real code, and compares two such runs finding by
finding.

    python benchmarks/primer.py run FOLDER... [--keep FILE] [--jobs N] [--result NAME]
    python benchmarks/primer.py diff OLD NEW [--show N]

Each folder inside a FOLDER is a package, checked by itself with the default rules and no
configuration; loose files of a FOLDER are one more. A package that was met before with the same
Python files is left out. For each are kept: files, lines, wall and CPU seconds, exit code, files
not analysed with the reason, findings per rule. With --keep the findings themselves are written to
FILE (gzip where it ends in ``.gz``) as [path, code, line, fingerprint], which ``diff`` reads: it
says per rule what NEW has that OLD lacks, and the other way round. With --result the counts go to
``benchmarks/results/NAME.json``. Exit code 1 where torchlint crashed, or where the runs differ.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gzip
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchlint.base.finding import NOT_ANALYSED

RESULTS = Path(__file__).parent / "results"
SKIPPED = {"__pycache__", "dl", "_downloads"}
SUFFIXES = (".py", ".pyi")
SHOWN = 20
TIMEOUT = 30.0
"""Seconds of wall time for one file, torchlint's own default; a busy machine needs more."""

Package = dict[str, Any]
Difference = dict[str, tuple[list[str], list[str]]]


@dataclass(frozen=True, slots=True)
class Target:
    """A package to check: what to name on the command line, and the Python files that lie in it."""

    name: str
    paths: list[Path]
    base: Path
    files: list[Path]


def sources(folder: Path) -> list[Path]:
    """Return the Python files below a folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def packages(folders: Iterable[Path]) -> Iterator[Target]:
    """Yield each package: the folders in `folders`, and the loose files of each."""
    for folder in folders:
        inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        for path in inside:
            if path.is_dir() and path.name not in SKIPPED:
                yield Target(path.name, [path], path, sources(path))
        loose = [path for path in inside if path.is_file() and path.suffix in SUFFIXES]
        if loose:
            yield Target(f"{folder.name}/*.py", loose, folder, loose)


def digest(base: Path, files: list[Path]) -> tuple[str, int]:
    """Return what identifies the Python files, and how many lines they have."""
    seen = hashlib.sha256()
    lines = 0
    for path in files:
        data = path.read_bytes()
        lines += data.count(b"\n")
        seen.update(
            f"{path.relative_to(base).as_posix()}\0{len(data)}\0".encode("utf-8", "surrogateescape")
        )
        seen.update(data)
    return seen.hexdigest(), lines


def torchlint(
    paths: list[Path], jobs: int, timeout: float
) -> tuple[subprocess.CompletedProcess[bytes], float, float]:
    """Check `paths`; return the finished process with wall and CPU seconds, its workers'
    included."""
    command = [
        sys.executable,
        "-m",
        "torchlint",
        "check",
        "--isolated",
        "--output-format",
        "json",
        "--quiet",
    ]
    command += ["--no-cache"] * has_cache() + [
        "--jobs",
        str(jobs),
        "--timeout",
        f"{timeout:g}",
        "--",
        *map(str, paths),
    ]
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    wall, after = time.perf_counter() - start, os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return done, wall, cpu


@functools.cache
def has_cache() -> bool:
    """Say whether this torchlint has a cache, which must not answer here."""
    help_page = subprocess.run(
        [sys.executable, "-m", "torchlint", "check", "--help"], capture_output=True, check=True
    )
    return b"--no-cache" in help_page.stdout


def check(target: Target, lines: int, jobs: int, timeout: float = TIMEOUT) -> Package:
    """Check one package and return all that is recorded of it."""
    base, paths = target.base, target.paths
    done, wall, cpu = torchlint(paths, jobs, timeout)
    try:
        entries, readable = json.loads(done.stdout), True
    except ValueError:
        entries, readable = [], False
    report = [_entry(entry, base) for entry in entries if entry["code"] != NOT_ANALYSED]
    crashed = done.returncode not in (0, 1, 2) or b"Traceback" in done.stderr or not readable
    return {
        "name": target.name,
        "files": len(target.files),
        "lines": lines,
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "exit": done.returncode,
        "crash": (done.stderr.decode(errors="replace")[-2000:] or "no words") if crashed else "",
        "not_analysed": [
            [_inside(entry["filename"], base), entry["severity"], entry["message"]]
            for entry in entries
            if entry["code"] == NOT_ANALYSED
        ],
        "rules": dict(sorted(Counter(code for _, code, _, _ in report).items())),
        "findings": report,
    }


def _entry(entry: dict[str, Any], base: Path) -> list[Any]:
    return [
        _inside(entry["filename"], base),
        entry["code"],
        entry["location"]["row"],
        entry["fingerprint"],
    ]


def _inside(filename: str, base: Path) -> str:
    path = Path(filename)
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else filename


def run(folders: list[Path], jobs: int, timeout: float = TIMEOUT) -> dict[str, Any]:
    """Check all packages in `folders`; return them with the sums."""
    done: list[Package] = []
    seen: set[str] = set()
    for target in packages(folders):
        identity, lines = digest(target.base, target.files)
        if not target.files or identity in seen:
            continue
        seen.add(identity)
        done.append(check(target, lines, jobs, timeout))
        print("\n".join(told(done[-1])), flush=True)
    return {**summary(done), "packages": done}


def told(package: Package) -> Iterator[str]:
    """Yield the lines that say how a package went."""
    yield (
        f"{package['name']}: {package['files']} files, {package['lines']} lines, "
        f"{package['cpu_s']} CPU s, "
        f"exit {package['exit']}, {sum(package['rules'].values())} findings, "
        f"{len(package['not_analysed'])} not analysed"
    )
    yield from (
        f"  {severity}: {path}: {message}" for path, severity, message in package["not_analysed"]
    )
    if package["crash"]:
        yield package["crash"]


def summary(done: list[Package]) -> dict[str, Any]:
    """Return the sums over packages."""
    rules: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for package in done:
        rules.update(package["rules"])
        reasons.update(f"{severity}: {message}" for _, severity, message in package["not_analysed"])
    lines, cpu = sum(each["lines"] for each in done), sum(each["cpu_s"] for each in done)
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "python": platform.python_version(),
        "files": sum(each["files"] for each in done),
        "lines": lines,
        "wall_s": round(sum(each["wall_s"] for each in done), 1),
        "cpu_s": round(cpu, 1),
        "cpu_s_per_100k_lines": round(cpu / max(lines, 1) * 100_000, 2),
        "crashes": sum(bool(each["crash"]) for each in done),
        "exit_codes": dict(sorted(Counter(str(each["exit"]) for each in done).items())),
        "not_analysed": dict(sorted(reasons.items())),
        "findings_per_rule": dict(sorted(rules.items())),
    }


def difference(old: dict[str, Any], new: dict[str, Any]) -> Difference:
    """Return per rule the findings that only `new` has and those that only `old` has, as
    ``package/path:line``.

    Findings are told apart by fingerprint, so one that only moved to another line is none. What
    could not be analysed, or crashed, counts as a rule of that name. Only packages that both have
    are compared.
    """
    shared = set(names(old)) & set(names(new))
    ours, theirs = _identities(old, shared), _identities(new, shared)
    out: Difference = {}
    for side, mine, other in ((0, theirs, ours), (1, ours, theirs)):
        for (code, *identity), places in mine.items():
            known = len(other.get((code, *identity), ()))
            if len(places) > known:
                out.setdefault(code, ([], []))[side].extend(places[known:])
    return dict(sorted(out.items()))


def names(kept: dict[str, Any]) -> list[str]:
    """Return the names of a run's packages."""
    return [package["name"] for package in kept["packages"]]


def _identities(kept: dict[str, Any], shared: set[str]) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for package in kept["packages"]:
        name = package["name"]
        if name not in shared:
            continue
        for path, code, line, fingerprint in package["findings"]:
            key = (code, name, path, fingerprint or str(line))
            found.setdefault(key, []).append(f"{name}/{path}:{line}")
        for path, _, message in package["not_analysed"]:
            found.setdefault((NOT_ANALYSED, name, path, message), []).append(
                f"{name}/{path}: {message}"
            )
        if package["crash"]:
            found.setdefault(("crash", name), []).append(name)
    return found


def words(changes: Difference, show: int = SHOWN) -> Iterator[str]:
    """Yield the lines that say what changed."""
    for code, (added, removed) in changes.items():
        yield f"{code}: +{len(added)} -{len(removed)}"
        yield from (f"  + {place}" for place in added[:show])
        yield from (f"  - {place}" for place in removed[:show])


def write(path: Path, kept: dict[str, Any]) -> None:
    """Write a run for `diff`."""
    data = json.dumps(kept, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def read(path: Path) -> dict[str, Any]:
    """Read what `write` wrote."""
    data = path.read_bytes()
    kept: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return kept


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="check packages")
    runner.add_argument("folders", nargs="+", type=lambda text: Path(text).resolve())
    runner.add_argument("--keep", type=Path, metavar="FILE", help="write all findings to FILE")
    runner.add_argument(
        "--result", metavar="NAME", help="write the counts to benchmarks/results/NAME.json"
    )
    runner.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="worker processes (default: 1)"
    )
    runner.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        metavar="N",
        help="seconds for one file (default: 30)",
    )
    differ = commands.add_parser("diff", help="compare two kept runs")
    differ.add_argument("old", type=Path)
    differ.add_argument("new", type=Path)
    differ.add_argument(
        "--show", type=int, default=SHOWN, metavar="N", help="places per rule (default: 20)"
    )
    return parser.parse_args()


def main() -> int:
    """Run or compare; return the exit code."""
    args = arguments()
    if args.command == "diff":
        old, new = read(args.old), read(args.new)
        alone = sorted(set(names(old)) ^ set(names(new)))
        if alone:
            print(f"not compared, as only one run has them: {', '.join(alone)}")
        changes = difference(old, new)
        print("\n".join(words(changes, args.show)) or "no difference")
        return 1 if changes else 0
    kept = run(args.folders, args.jobs, args.timeout)
    sums = {key: value for key, value in kept.items() if key != "packages"}
    print(json.dumps(sums, indent=1))
    if args.keep:
        write(args.keep, kept)
    if args.result:
        shown = ("name", "files", "lines", "wall_s", "cpu_s", "exit", "not_analysed", "rules")
        each = [{key: package[key] for key in shown} for package in kept["packages"]]
        text = json.dumps({**sums, "packages": each}, indent=1)
        (RESULTS / f"{args.result}.json").write_text(text + "\n", encoding="utf-8")
    return 1 if kept["crashes"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
