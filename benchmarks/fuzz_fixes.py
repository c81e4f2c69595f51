"""Runs generated programs before and after their safe fixes: nothing may differ but the code.

`fuzz.py --target fixes` calls this; what the programs are made of is in ``fuzz_shapes.py``, and
``fuzz_execution.py`` runs them. Programs are made, checked and fixed in batches; those that a safe
fix has changed are executed twice. Where their outputs differ, choices are set back to the plain
ones as long as the difference stays.
"""

from __future__ import annotations

import ast
import difflib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.fuzz_shapes import SHAPES, Made, make
from torchlint.base.finding import FileReport, NoteKind, Safety
from torchlint.catalog.rules import load_catalog, load_rules
from torchlint.engine.job import Job
from torchlint.run.run import RunOptions, run
from torchlint.run.worker import analyse_job
from torchlint.source.document import decode

_BATCH = 300
_ROUNDS = 12
_CAUSES = 60
"""Causes that are cut down at most."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a program: the codes of its safe fixes, the patch, and how the outputs differ
    ("": not)."""

    program: Made
    codes: tuple[str, ...] = ()
    patch: str = ""
    difference: str = ""
    timed_out: bool = False
    guarded: bool = False
    """Whether the rule of the shape offers a fix that is not safe."""


@dataclass(slots=True)
class Tally:
    """What was seen."""

    programs: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)
    """Safe fixes by the code of the rule, whatever the shape of their program."""
    guarded: Counter[str] = field(default_factory=Counter)
    invalid: int = 0
    timed_out: int = 0
    differing: list[Verdict] = field(default_factory=list)
    causes: list[tuple[Verdict, int]] = field(default_factory=list)
    """Each cause as the smallest program found, and how many programs have all of its strange
    choices."""

    @property
    def dead(self) -> list[str]:
        """Return the shapes that were made and never got a safe fix of their own rule, though it
        has one."""
        safe = {info.code for info in load_catalog().rules if Safety.SAFE in info.fixes}
        return [
            code
            for code in SHAPES
            if self.programs[code] and not self.exercised[code] and code in safe
        ]


class Executors:
    """Processes that have imported torch, each of which takes a share of the programs."""

    def __init__(self, jobs: int) -> None:
        command = [sys.executable, str(Path(__file__).with_name("fuzz_execution.py"))]
        pipe = subprocess.PIPE
        self.processes = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(jobs)
        ]

    def __enter__(self) -> Executors:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            process.communicate()

    def run(self, tasks: Sequence[tuple[str, str]]) -> list[tuple[int, str]]:
        """Return the status and the output of each (folder, mode)."""
        answers: dict[int, list[tuple[int, str]]] = {}

        def share(number: int, process: subprocess.Popen[str]) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(tasks[number :: len(self.processes)]) + "\n")
            process.stdin.flush()
            answers[number] = [
                (status, output) for status, output in json.loads(process.stdout.readline())
            ]

        threads = [threading.Thread(target=share, args=pair) for pair in enumerate(self.processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count = len(self.processes)
        return [answers[number % count][number // count] for number in range(len(tasks))]


def drawn(seed: int, count: int, only: str = "") -> Iterator[Made]:
    """Yield programs of all shapes in turn."""
    shapes = [only] if only else list(SHAPES)
    for number in range(count):
        yield make(shapes[number % len(shapes)], f"{seed}:{number}")


def parses(program: Made) -> bool:
    """Say whether Python takes all files of a program."""
    try:
        for text in program.files.values():
            compile(text, "program", "exec", ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        return False
    return True


def judged(programs: Sequence[Made], executors: Executors, jobs: int = 1) -> list[Verdict]:
    """Return the verdict on each program."""
    with tempfile.TemporaryDirectory() as temporary:
        before, after = Path(temporary, "before"), Path(temporary, "after")
        for number, program in enumerate(programs):
            _write(before / str(number), program.files)
        reports = _reports(before, programs, jobs)
        fixed = [
            number
            for number, each in reports.items()
            if any(report.applied for report in each.values())
        ]
        for number in fixed:
            texts = {
                name: report.after if report.applied else report.before
                for name, report in reports[number].items()
            }
            _write(after / str(number), {**programs[number].files, **texts})
        folders = (before, after)
        tasks = [
            (str(folder / str(number)), programs[number].mode)
            for number in fixed
            for folder in folders
        ]
        results = dict(zip(tasks, executors.run(tasks), strict=True)) if tasks else {}
        return [
            _verdict(program, number, list(reports.get(number, {}).values()), folders, results)
            for number, program in enumerate(programs)
        ]


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def checked_and_fixed(job: Job) -> FileReport:
    """Return the report of a file with its safe fixes applied, but with the findings from before;
    for a worker."""
    checked = analyse_job(replace(job, fix=""))
    if not any(
        found.fix is not None and found.fix.safety is Safety.SAFE for found in checked.findings
    ):
        return replace(checked, before=job.document.text, after=job.document.text)
    fixed = analyse_job(replace(job, fix="safe"))
    return replace(fixed, findings=checked.findings, before=job.document.text)


def _reports(folder: Path, programs: Sequence[Made], jobs: int) -> dict[int, dict[str, FileReport]]:
    """Return the report of each file of each program, which is a project of its own: one may patch
    what others use."""
    codes = frozenset(info.code for info in load_catalog().rules)
    load_rules(sorted(codes))
    places = [(number, name) for number, program in enumerate(programs) for name in program.files]
    wanted = []
    for number, name in places:
        root = folder / str(number)
        data = (root / name).read_bytes()
        wanted.append(Job(decode(data, str(root / name), name), name, codes, root=str(root)))
    found: dict[int, dict[str, FileReport]] = defaultdict(dict)
    limits = RunOptions(jobs, timeout=300.0, quarantine_timeout=300.0)
    for (number, name), report in zip(places, run(wanted, limits, checked_and_fixed), strict=True):
        found[number][name] = report
    return found


def _offered(reports: Sequence[FileReport], safe: bool) -> tuple[str, ...]:
    """Return the codes of the fixes that are safe, or of those that are not."""
    found = [each for report in reports for each in report.findings if each.fix is not None]
    return tuple(
        sorted(
            {each.code for each in found if each.fix and (each.fix.safety is Safety.SAFE) is safe}
        )
    )


def _verdict(
    program: Made,
    number: int,
    reports: Sequence[FileReport],
    folders: tuple[Path, Path],
    results: Mapping[tuple[str, str], tuple[int, str]],
) -> Verdict:
    guarded = program.shape in _offered(reports, safe=False)
    failed = [
        note.message for report in reports for note in report.notes if note.kind is NoteKind.FAILED
    ]
    if failed:
        return Verdict(program, _offered(reports, safe=True), difference=failed[0], guarded=guarded)
    old, new = (folder / str(number) for folder in folders)
    if not new.exists():
        return Verdict(program, guarded=guarded)
    first, second = (results[(str(folder), program.mode)] for folder in (old, new))
    stopped = _stopped(first) or _stopped(second)
    alike = first == second or stopped or _raised_before(first, second)
    difference = "" if alike else _difference(program.mode, first, second)
    return Verdict(
        program,
        _offered(reports, safe=True),
        _patch(old, new, program),
        difference,
        timed_out=stopped,
        guarded=guarded,
    )


def _stopped(result: tuple[int, str]) -> bool:
    return result[0] == 14  # by the alarm


def _raised_before(first: tuple[int, str], second: tuple[int, str]) -> bool:
    """Say whether a program ended in an exception before, and prints what it printed until then:
    what comes behind that is not promised (``docs/fixes.md``)."""
    until, raised, _ = first[1].rpartition("EXC ")
    return bool(raised and first[0]) and second[1].startswith(until)


def _patch(old: Path, new: Path, program: Made) -> str:
    out: list[str] = []
    for name in program.files:
        texts = [(folder / name).read_text(encoding="utf-8").splitlines() for folder in (old, new)]
        out += difflib.unified_diff(*texts, name, name, lineterm="", n=0)
    return "\n".join(out)


def _difference(mode: str, first: tuple[int, str], second: tuple[int, str]) -> str:
    rows = [[*output.splitlines(), f"exit status {status}"] for status, output in (first, second)]
    lines = list(difflib.unified_diff(*rows, f"before, {mode}", f"after, {mode}", lineterm="", n=0))
    return "\n".join(line[:300] for line in lines[:16])


def try_all(
    programs: Iterator[Made],
    executors: Executors,
    jobs: int = 1,
    cut: bool = True,
    say: bool = False,
) -> Tally:
    """Judge programs and count; with `cut`, the differences are cut down to causes."""
    tally, start = Tally(), time.monotonic()
    while batch := list(islice(programs, _BATCH)):
        valid = [program for program in batch if parses(program)]
        tally.invalid += len(batch) - len(valid)
        for verdict in judged(valid, executors, jobs):
            tally.programs[verdict.program.shape] += 1
            tally.fixed[verdict.program.shape] += bool(verdict.patch)
            tally.exercised.update(verdict.codes if verdict.patch else ())
            tally.guarded[verdict.program.shape] += verdict.guarded and not verdict.patch
            tally.timed_out += verdict.timed_out
            if verdict.difference:
                tally.differing.append(verdict)
                if say:
                    seen = verdict.program
                    print(f"differs: {seen.shape}:{seen.seed} {dict(seen.strange)}", flush=True)
        if say:
            counts = f"{tally.programs.total()} programs, {tally.fixed.total()} with a safe fix"
            print(
                f"{counts}, {len(tally.differing)} differ ({time.monotonic() - start:.0f} s)",
                flush=True,
            )
    if cut:
        tally.causes = causes(tally.differing, executors, jobs)
    return tally


def causes(
    differing: Sequence[Verdict], executors: Executors, jobs: int
) -> list[tuple[Verdict, int]]:
    """Return the smallest programs found, each with the number of programs that have all that is
    strange in it."""
    found: list[tuple[Verdict, int]] = []
    left = sorted(differing, key=lambda verdict: len(verdict.program.strange))
    while left and len(found) < _CAUSES:
        smallest = cut_down(left[0], executors, jobs)
        strange = smallest.program.strange.items()
        alike = [
            each
            for each in left
            if each.codes
            and each.program.shape == smallest.program.shape
            and strange <= each.program.strange.items()
        ]
        rest = [each for each in left[1:] if each not in alike]
        found.append((smallest, len(left) - len(rest)))
        left = rest
    return found


def cut_down(verdict: Verdict, executors: Executors, jobs: int) -> Verdict:
    """Return the program with as many choices plain as the difference allows."""
    plain: frozenset[str] = frozenset()
    for _ in range(_ROUNDS):
        sites = list(verdict.program.strange)
        shape, seed = verdict.program.shape, verdict.program.seed
        ways = [plain | {site} for site in sites]
        ways += [plain | set(sites[: len(sites) // 2]), plain | set(sites[len(sites) // 2 :])]
        tried = judged_if_valid([make(shape, seed, way) for way in ways], executors, jobs)
        good = [
            (way, each)
            for way, each in zip(ways, tried, strict=True)
            if each is not None and each.difference
        ]
        if not good:
            break
        together = frozenset().union(*(way for way, _ in good))
        whole = judged_if_valid([make(shape, seed, together)], executors, jobs)[0]
        if whole is not None and whole.difference and len(good) > 1:
            plain, verdict = together, whole
        else:
            plain, verdict = min(good, key=lambda pair: len(pair[1].program.strange))
    return verdict


def judged_if_valid(
    programs: Sequence[Made], executors: Executors, jobs: int
) -> list[Verdict | None]:
    """Return the verdicts, None for a program that does not parse."""
    valid = [number for number, program in enumerate(programs) if parses(program)]
    verdicts = dict(zip(valid, judged([programs[n] for n in valid], executors, jobs), strict=True))
    return [verdicts.get(number) for number in range(len(programs))]


def result(tally: Tally, seconds: float, seed: int) -> dict[str, Any]:
    """Return the counts and the causes as plain values."""
    return {
        "seed": seed,
        "seconds": round(seconds),
        "programs": tally.programs.total(),
        "with_a_safe_fix": tally.fixed.total(),
        "differing": len(tally.differing),
        "timed_out": tally.timed_out,
        "invalid": tally.invalid,
        "shapes": {
            shape: {
                "programs": tally.programs[shape],
                "with_a_safe_fix": tally.fixed[shape],
                "guarded": tally.guarded[shape],
            }
            for shape in SHAPES
            if tally.programs[shape]
        },
        "safe_fixes": dict(sorted(tally.exercised.items())),
        "without_a_safe_fix": tally.dead,
        "causes": [
            {
                "shape": each.program.shape,
                "seed": each.program.seed,
                "programs": count,
                "strange": each.program.strange,
            }
            for each, count in tally.causes
        ],
    }


def keep_programs(tally: Tally, folder: Path) -> None:
    """Write the smallest programs, each with what was strange in it, its patch and its difference,
    to a folder."""
    for number, (verdict, count) in enumerate(tally.causes):
        program = verdict.program
        place = folder / f"{program.shape}-{number:03}"
        place.mkdir(parents=True, exist_ok=True)
        for name, text in program.files.items():
            (place / name).write_text(text, encoding="utf-8")
        strange = "\n".join(f"{site}: {words!r}" for site, words in program.strange.items())
        parts = (
            f"{program.shape}:{program.seed}, {count} programs",
            strange,
            verdict.patch,
            verdict.difference,
        )
        (place / "difference.txt").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def fuzz(
    seed: int, count: int, jobs: int, only: str = "", folder: Path | None = None
) -> dict[str, Any]:
    """Make and judge programs; print what differs, keep it in a folder, and return the counts."""
    start = time.monotonic()
    with Executors(jobs) as executors:
        tally = try_all(drawn(seed, count, only), executors, jobs, say=True)
    for verdict, number in tally.causes:
        strange = "\n".join(
            f"   {site}: {words!r}" for site, words in verdict.program.strange.items()
        )
        print(f"\n== {verdict.program.shape}:{verdict.program.seed} ({number} programs)\n{strange}")
        print(f"{verdict.patch}\n{verdict.difference}")
    if folder is not None and tally.causes:
        keep_programs(tally, folder)
    return result(tally, time.monotonic() - start, seed)


def again(name: str) -> int:
    """Make one program again, print it, and what becomes of it."""
    shape, _, seed = name.partition(":")
    program = make(shape, seed)
    for file, text in program.files.items():
        print(f"# {file}\n{text}")
    with Executors(1) as executors:
        verdict = judged([program], executors)[0]
    print(f"# {', '.join(verdict.codes) or 'no safe fix'}\n{verdict.patch}\n{verdict.difference}")
    return 1 if verdict.difference else 0
