"""The original program, run before anything else: that it works, what it computes, and which fixes
it reaches."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchlint.program.machine.beside import original_place, wider, words_of_missed
from torchlint.report.kit.words import visible
from torchlint.verify.errors import OriginalFailedError
from torchlint.verify.fixes import FixUnit
from torchlint.verify.model import Level, Status
from torchlint.verify.script import count_pass
from torchlint.verify.script import course as course_module
from torchlint.verify.script.course import Course
from torchlint.verify.script.runs import STOPPED, Home, Runner, RunRecord, in_words
from torchlint.verify.session.promise import Comparison


@dataclass(frozen=True, slots=True)
class Reference:
    """What the original does.

    Args:
        record: the run that variants are compared with.
        itself: another run against that; None where no results were recorded.
        exercised: by unit id, whether a place that the fix changes ran; None where nobody can tell
            (compiled code).
        peak: the larger peak of resident memory, in bytes.
        writes: paths outside its copy that it wanted to write.
        warnings: what the reader must know.
        course: what part of the program every run of a comparison goes through.
    """

    record: RunRecord
    itself: Comparison | None
    exercised: dict[str, bool | None]
    peak: int
    writes: tuple[str, ...]
    warnings: tuple[str, ...]
    course: Course

    def reached(self, units: Sequence[FixUnit]) -> list[FixUnit]:
        """Return the units that are worth comparing: all but those that are known not to run."""
        return [unit for unit in units if self.exercised.get(unit.id) is not False]


def run(
    runner: Runner,
    homes: tuple[Home, Home],
    units: Sequence[FixUnit],
    together: int,
    tick: Callable[[str], None],
) -> Reference:
    """Find out what part of the program to run, and run the original through it twice.

    Args:
        runner: starts it.
        homes: two copies of it, as two runs at the same time in one would be in each other's way.
        units: the fixes.
        together: how many processes may run at the same time.
        tick: takes the name of each run.

    Raises:
        OriginalFailedError: it does not run, does no step, or is not what runs.
    """
    home, other = homes
    watched, course = _explored(runner, other, units, together, tick)
    exercised = _exercised(units, watched)
    peak = int(watched.record.get("peak") or 0)
    if units and not any(
        ran is not False for ran in exercised.values()
    ):  # there is nothing to compare with it
        course = course.gone(watched.record)
        return Reference(watched, None, exercised, peak, watched.writes(), course.notes, course)
    wanted = [(home, "check", course.settings())]
    again = watched.record.get("ticks") != course.until and not (
        course.until == 0 and _by_itself(watched)
    )
    if again:  # it was stopped later, in search of places that do not run
        wanted.append((other, "check", course.settings()))
    records = runner.all(wanted, together, tick)
    for (ran_in, _, _), record in zip(wanted, records, strict=True):
        _demand(record, runner, ran_in)
    first, second = records[0], records[1] if again else watched
    itself, warnings = _itself(runner, first, second)
    course = course.gone(first.record)
    return Reference(
        first,
        itself,
        exercised,
        max(peak, *(int(record.record.get("peak") or 0) for record in records)),
        watched.writes(),
        (*warnings, *course.notes),
        course,
    )


def _explored(
    runner: Runner, home: Home, units: Sequence[FixUnit], together: int, tick: Callable[[str], None]
) -> tuple[RunRecord, Course]:
    """Run the original, watched, until the places of all fixes were reached or that takes too long.

    On a CPU it is first tried on the ledger's virtual device: there one run shows what a GPU would
    do, and the results too. Where it fails so, it is run as it is, and then without any epoch cut
    short.
    """
    virtual = runner.device == "cpu"
    marks = _marks(units, home)
    reason = ""
    for course in course_module.tried(virtual, runner.options):
        (record,) = runner.all(
            [(home, "check", {**course.looking(runner.options, marks), "writes": True})], 1, tick
        )
        hopeless = record.status is Status.TIMEOUT or not record.record
        if (
            record.status is Status.OK and record.steps and not course.unfit(record.record)
        ) or hopeless:
            break
        if course.ledger:
            reason = count_pass.gap(record, record.record.get("counts")) or "it compiles its code"
    _demand(record, runner, home)
    until = int(record.record.get("horizon", 0))
    return record, replace(course, until=until, gap=reason if virtual and not course.ledger else "")


def _by_itself(record: RunRecord) -> bool:
    return record.record.get("reason") != STOPPED


def _itself(
    runner: Runner, first: RunRecord, second: RunRecord
) -> tuple[Comparison | None, tuple[str, ...]]:
    if not first.record.get("results"):
        return None, ("no results were recorded: " + "; ".join(first.record.get("trouble", [])),)
    (itself,) = runner.compare(first, [(second, False)])
    if itself.level is Level.UNKNOWN:
        return itself, ("; ".join(itself.notes),)
    if itself.level is not Level.BITWISE:
        return itself, ("the program does not reproduce itself from one run to the next",)
    return itself, ()


def _marks(units: Sequence[FixUnit], home: Home) -> list[tuple[str, str, int, int]]:
    copy = Path(os.path.realpath(home.copy))
    return [
        (f"{number}-{index}", os.path.realpath(copy / place.file), place.first, place.last)
        for number, unit in enumerate(units)
        for index, place in enumerate(unit.places)
    ]


def _exercised(units: Sequence[FixUnit], watched: RunRecord) -> dict[str, bool | None]:
    """Say of each unit whether a place that it changes ran; compiled code and a program that traces
    itself hide it."""
    seen = {name.partition("-")[0] for name in watched.marks()}
    hidden = watched.record.get("compiled") or not watched.record.get("watched")
    unseen = None if hidden else False
    return {unit.id: True if str(number) in seen else unseen for number, unit in enumerate(units)}


def _demand(record: RunRecord, runner: Runner, home: Home) -> None:
    """Raise unless the original ran, did steps, and ran from its copy."""
    program = in_words(runner.command.typed)
    if record.status is not Status.OK:
        raise OriginalFailedError(
            f"{program} {runner.failure(record)}{_outside(record, runner, home)}",
            record.tail,
        )
    leaked = record.record.get("leaked") or {}
    if leaked:
        name, file = next(iter(leaked.items()))
        raise OriginalFailedError(
            f"{name} came from your tree ({file}), not from the copy, so no fix would have been "
            "run: "
            "look for sys.path or PYTHONPATH entries that name the project"
        )
    if not record.steps:
        trouble = "; ".join(record.record.get("trouble") or []) or (
            (
                "it ended before any optimizer step, and without many calls of backward() or "
                "batches "
                "of a DataLoader"
            )
            if record.record
            else "it never imported torch, or ignores PYTHONPATH (python -I, -E)"
        )
        raise OriginalFailedError(f"{program}: no training step was seen: {trouble}", record.tail)


def _outside(record: RunRecord, runner: Runner, home: Home) -> str:
    """Say what lies outside of the copy and was missed, or was not to be written, before the
    original failed: often that is why."""
    root, cwd, typed = runner.original, runner.cwd, runner.command.typed
    said = words_of_missed(record.tail, root, home.copy, cwd, "verify", typed)
    writes = record.writes() if runner.site.landlock and not said else ()
    if not writes:
        return said
    place = original_place(writes[0], root, home.copy)
    said = (
        f"; it tried to write {visible(str(place))}, outside its copy: --allow-write lets a "
        "program write to a path"
    )
    if place.is_relative_to(root) or not place.is_relative_to(root.parent):
        return said
    return f"{said}, and this copies the path too: {wider('verify', place, root, cwd, typed)}"
