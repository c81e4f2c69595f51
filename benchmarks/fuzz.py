"""Feeds torchlint with programs that nobody would write, and says where it breaks a promise.

    python benchmarks/fuzz.py [FOLDER] [--seconds N] [--seed S] [--jobs N] [--only GENERATOR]
    python benchmarks/fuzz.py --target guard|edits|suppress|decode|globs [--seconds N] [--seed S]
    python benchmarks/fuzz.py --target fixes|surroundings [--programs N] [--only RULE] [FOLDER]
    python benchmarks/fuzz.py --target names [--programs N]
    python benchmarks/fuzz.py --program GENERATOR:SEED [FOLDER]

All take --seed S, --jobs N and --keep NAME. Three generators take turns (``fuzz_programs.py``);
each program is checked and fixed inside a worker with the usual limits, and the invariants of
``fuzz_trial.py`` must hold. A file that libcst alone cannot take (it crashes, hangs or runs out of
memory there too) counts as not analysed, not as a failure. FOLDER holds real torch files to mutate.
Failures are cut down and printed. ``--target`` runs the byte-level parts under atheris
(coverage-guided; pip install atheris). ``--target fixes`` makes programs that try to make a safe
fix unsafe and executes them before and after it (``fuzz_fixes.py``; needs torch and numpy);
``--program RULE:SEED`` makes one again, and FOLDER gets those that differ. ``--target
surroundings`` moves the examples of all rules with a fix into other surroundings, and executes them
before and after safe and unsafe fixes (``fuzz_surroundings.py``); what an unsafe fix changes must
be what its note says. ``--target names`` checks all fixtures, and N programs of the generators,
with short and with long names (``fuzz_names.py``), which must not matter. With --keep, the counts
and the failures go to ``benchmarks/results/NAME.json``. Exit code 1 on failures.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import fuzz_bytes, fuzz_fixes, fuzz_names, fuzz_surroundings  # noqa: E402
from benchmarks.fuzz_programs import (  # noqa: E402
    Material,
    Program,
    generated,
    hypothesmith_programs,
    material,
    mutated,
    parses,
    spliced,
)
from benchmarks.fuzz_trial import failures, parse_alone, trial  # noqa: E402
from benchmarks.measuring import keep  # noqa: E402
from torchlint.base.errors import SourceError  # noqa: E402
from torchlint.base.finding import UNUSED_SUPPRESSION, FileReport, NoteKind  # noqa: E402
from torchlint.catalog.rules import load_catalog, load_rules  # noqa: E402
from torchlint.engine.job import Job  # noqa: E402
from torchlint.run.run import RunOptions, run  # noqa: E402
from torchlint.source.document import decode  # noqa: E402

LIMITS = RunOptions(jobs=1, timeout=120.0, quarantine_timeout=60.0)
MAKERS: dict[str, Callable[[str, Material], Program]] = {
    "generated": generated,
    "mutated": mutated,
    "spliced": spliced,
}
_BATCH = 60
_SMALLEST = 60.0
"""Seconds that one failure may be cut down for."""
_PER_KIND = 2
"""Failures of one kind that are cut down and kept; more are only counted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A broken promise: its kind (the note without its numbers), the note, and the program cut
    down."""

    kind: str
    note: str
    program: Program
    smallest: bytes


@dataclass(slots=True)
class Tally:
    """What was seen."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    limits: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def count(self, generator: str, **numbers: int) -> None:
        self.counts.setdefault(generator, Counter()).update(numbers)


def job_of(program: Program) -> Job | None:
    """Return the job of a program, its settings drawn from its seed; None where it cannot be
    decoded."""
    chance = random.Random(program.seed)
    name = chance.choice(
        ("train.py", "src/model.py", "tests/test_net.py", "bench/benchmark_ops.py")
    )
    try:
        document = decode(program.data, f"/project/{name}", name)
    except SourceError:
        return None
    codes = frozenset(info.code for info in load_catalog().rules)
    if chance.random() < 0.15:
        codes = frozenset(chance.sample(sorted(codes), 8))
    return Job(
        document,
        name,
        codes | {UNUSED_SUPPRESSION},
        target_torch=chance.choice(((1, 9), (2, 4), (2, 4), (2, 9))),
        accelerator=chance.choice(("auto", "auto", "cuda", "mps", "cpu")),
        assume_hot=chance.choice(((), (), ("*",))),
        fix=chance.choice(("unsafe", "unsafe", "unsafe", "safe")),
        show_source=chance.random() < 0.2,
    )


def kind_of(message: str) -> str:
    """Return what failures of one cause have in common."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|changed: .*|\d+(?![\d:]*\))", "_", message)[:160]


def verdicts(program: Program, report: FileReport, job: Job) -> tuple[list[str], str]:
    """Return the messages of our failures, and instead the parser's own limit where it is to
    blame."""
    messages = [note.message for note in failures(report)]
    if not messages:
        skipped = [note.message for note in report.notes if note.kind is NoteKind.UNSUPPORTED]
        return [], skipped[0].partition(" (")[0] if skipped else ""
    if messages == ["nested too deeply for Python's own parser"]:
        return [], messages[0]
    alone = failures(next(iter(run([job], LIMITS, parse_alone))))
    return ([], f"libcst alone: {kind_of(alone[0].message)}") if alone else (messages, "")


def try_all(programs: Iterator[Program], tally: Tally, jobs: int, cut: bool = True) -> None:
    """Put programs to trial and count what comes of them; with `cut`, cut down and print those that
    fail."""
    tried: list[tuple[Program, Job]] = []

    def wanted() -> Iterator[Job]:
        for program in programs:
            job = job_of(program)
            tally.count(program.generator, programs=1, undecodable=job is None)
            if job is not None:
                tried.append((program, job))
                yield job

    limits = RunOptions(jobs, LIMITS.timeout, LIMITS.quarantine_timeout)
    for number, report in enumerate(run(wanted(), limits, trial)):
        program, job = tried[number]
        tally.count(
            program.generator,
            valid=not any(found.code == "invalid-syntax" for found in report.findings),
            findings=len(report.findings),
            fixes=report.applied,
        )
        messages, limit = verdicts(program, report, job)
        if limit:
            tally.limits[limit] += 1
            tally.count(program.generator, not_analysed=1)
        for message in messages:
            fail(program, message, tally, cut)


def fail(program: Program, message: str, tally: Tally, cut: bool) -> None:
    """Count a failure; keep it, with `cut` smaller and in print, where it is one of the first of
    its kind."""
    kind = kind_of(message)
    tally.count(program.generator, failures=1)
    tally.kinds[kind] += 1
    if tally.kinds[kind] > _PER_KIND:
        return
    smallest = cut_down(program, kind) if cut else program.data
    tally.failures.append(Failure(kind, message, program, smallest))
    if cut:
        words = smallest.decode("utf-8", "replace")
        print(f"\n== {message}\n   ({program.generator}:{program.seed})\n{words}", flush=True)


def cut_down(program: Program, kind: str) -> bytes:
    """Return the smallest program found that fails in the same way."""
    end = time.monotonic() + _SMALLEST

    def fails(data: bytes) -> bool:
        job = job_of(Program(program.generator, program.seed, data))
        if job is None or time.monotonic() > end:
            return False
        report = next(iter(run([job], LIMITS, trial)))
        return any(kind_of(note.message) == kind for note in failures(report))

    data = fewer_lines(program.data, fails)
    text = data.decode("utf-8", "replace")
    if data.isascii() and b"\r" not in data and parses(text) and time.monotonic() < end:
        try:
            import pysource_minimize
        except ImportError:
            return data
        try:
            small = pysource_minimize.minimize(
                text, lambda source: fails(source.encode()), compilable=False
            ).encode()
        except Exception:  # it refuses what does not print back
            return data
        return small if len(small) < len(data) else data
    return data


def fewer_lines(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Return `data` without the lines that it can do without, by halving chunks."""
    lines = data.splitlines(keepends=True)
    size = max(len(lines) // 2, 1)
    while size:
        at = 0
        while at < len(lines):
            fewer = lines[:at] + lines[at + size :]
            if fails(b"".join(fewer)):
                lines = fewer
            else:
                at += size
        size //= 2
    return b"".join(lines)


def endless(seed: int, stuff: Material, only: str, until: float) -> Iterator[Program]:
    """Yield programs of the generators in turn until the time is up."""
    number = 0
    while time.monotonic() < until:
        for generator, make in MAKERS.items():
            if only in ("", generator):
                for _ in range(_BATCH):
                    number += 1
                    yield make(f"{seed}:{number}", stuff)
        if only in ("", "generated"):
            number += 1
            yield from hypothesmith_programs(seed + number, _BATCH // 2, stuff)


def result(tally: Tally, seconds: float, seed: int) -> dict[str, Any]:
    """Return the counts and failures as plain values."""
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "python": platform.python_version(),
        "seed": seed,
        "seconds": round(seconds),
        "generators": {
            name: dict(sorted(counts.items())) for name, counts in sorted(tally.counts.items())
        },
        "not_analysed": dict(tally.limits.most_common()),
        "failures": dict(tally.kinds.most_common()),
        "snippets": [
            {
                "note": each.note,
                "program": f"{each.program.generator}:{each.program.seed}",
                "smallest": each.smallest.decode("utf-8", "backslashreplace"),
            }
            for each in tally.failures
        ],
    }


def one(name: str, stuff: Material) -> int:
    """Print one program and what fails on it."""
    generator, _, seed = name.partition(":")
    if seed.startswith("hypothesmith:"):
        _, start, number = seed.split(":")
        program = hypothesmith_programs(int(start), _BATCH // 2, stuff)[int(number)]
    else:
        program = MAKERS[generator](seed, stuff)
    tally = Tally()
    print(program.data.decode("utf-8", "replace"))
    try_all(iter([program]), tally, 1)
    return 1 if tally.kinds else 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help=(
            "real torch files to mutate (default: fixtures only); for --target fixes, where "
            "failures are written"
        ),
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="use one generator, or the examples of one rule"
    )
    targets = [*fuzz_bytes.TARGETS, "fixes", "surroundings", "names"]
    parser.add_argument(
        "--target", choices=targets, help="fuzz one byte-level part with atheris, or execute fixes"
    )
    parser.add_argument(
        "--programs",
        type=int,
        default=1000,
        metavar="N",
        help="with --target fixes, surroundings or names: how many",
    )
    parser.add_argument(
        "--program", metavar="GENERATOR:SEED", help="make one program again and try it"
    )
    parser.add_argument("--keep", metavar="NAME", help="write benchmarks/results/NAME.json")
    args = parser.parse_args()
    known = [*MAKERS, *fuzz_fixes.SHAPES]
    if args.target == "surroundings":
        known = sorted({each.code for each in fuzz_surroundings.examples()})
    if args.only and args.only not in known:
        parser.error(f"--only: {args.only} is none of {', '.join(known)}")
    return args


def fixes(args: argparse.Namespace) -> int:
    """Execute programs before and after their safe fixes; print and keep the counts."""
    counts = fuzz_fixes.fuzz(args.seed, args.programs, args.jobs, args.only, args.folder)
    kept = {"date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(), **counts}
    print(json.dumps({key: value for key, value in kept.items() if key != "causes"}, indent=1))
    if args.keep:
        keep(args.keep, kept)
    return 1 if counts["differing"] or counts["timed_out"] or counts["without_a_safe_fix"] else 0


def surroundings(args: argparse.Namespace) -> int:
    """Execute examples in other surroundings before and after their fixes; print and keep the
    counts."""
    counts = fuzz_surroundings.fuzz(args.seed, args.programs, args.jobs, args.only, args.folder)
    print(json.dumps(counts, indent=1))
    if args.keep:
        today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
        keep(args.keep, {"date": today, **counts})
    return 1 if counts["differing"] else 0


def names(args: argparse.Namespace, stuff: Material) -> int:
    """Check programs with short and with long names; print and keep the counts."""
    drawn = fuzz_names.drawn(args.seed, args.programs, stuff, MAKERS)
    counts = fuzz_names.fuzz([*fuzz_names.fixed_programs(), *drawn], args.jobs)
    print(json.dumps(counts, indent=1))
    if args.keep:
        today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
        keep(args.keep, {"date": today, "seed": args.seed, **counts})
    return 1 if counts["differing"] else 0


def main() -> int:
    """Fuzz, print and keep."""
    args = arguments()
    if args.target == "surroundings":
        return surroundings(args)
    if args.target == "fixes":
        return fixes(args)
    if args.program and args.program.partition(":")[0] in fuzz_fixes.SHAPES:
        return fuzz_fixes.again(args.program)
    if args.target in fuzz_bytes.TARGETS:
        return fuzz_bytes.guided(args.target, args.seconds, args.seed)
    load_rules(sorted(info.code for info in load_catalog().rules))  # here, so that no worker has to
    stuff = material(args.folder)
    if args.target == "names":
        return names(args, stuff)
    if args.program:
        return one(args.program, stuff)
    tally = Tally()
    start = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):  # what was counted until then is worth having
        try_all(endless(args.seed, stuff, args.only, start + args.seconds), tally, args.jobs)
    kept = result(tally, time.monotonic() - start, args.seed)
    print(json.dumps({key: value for key, value in kept.items() if key != "snippets"}, indent=1))
    if args.keep:
        keep(args.keep, kept)
    return 1 if tally.kinds else 0


if __name__ == "__main__":
    raise SystemExit(main())
