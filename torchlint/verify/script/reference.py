"""The original program, run before anything else: that it works, what it computes, and which fixes
it reaches."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from torchlint.base.records import frozen
from torchlint.program.inside.steps import BACKWARD_FALLBACK, BATCH_FALLBACK
from torchlint.program.machine.beside import original_place, wider, words_of_missed
from torchlint.report.kit.words import visible
from torchlint.verify.errors import OriginalFailedError
from torchlint.verify.fixes import FixUnit
from torchlint.verify.model import Level, Status
from torchlint.verify.script import count_pass
from torchlint.verify.script import run_extent as run_extents
from torchlint.verify.script.run_extent import RunExtent
from torchlint.verify.script.runs import (
    STOPPED,
    Home,
    Run,
    Runner,
    RunRecord,
    SpentError,
    in_words,
)
from torchlint.verify.session.promise import Comparison


@frozen
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
        watched: how far the run went that showed which places ran, in words.
    """

    record: RunRecord
    itself: Comparison | None
    exercised: dict[str, bool | None]
    peak: int
    writes: tuple[str, ...]
    warnings: tuple[str, ...]
    run_extent: RunExtent
    watched: str

    def reached(self, units: Sequence[FixUnit]) -> list[FixUnit]:
        """Return the units that are worth comparing: all but those that are known not to run."""
        return [unit for unit in units if self.exercised.get(unit.id) is not False]


@frozen
class Explored:
    """The original's first run: what part of the program to run, and which fixes that reaches.

    Args:
        watched: the run; its status is `Status.TIMEOUT` where there was no time for it.
        course: what it went through.
        exercised: see `Reference`.
        home: the copy that it ran in.
    """

    watched: RunRecord
    run_extent: RunExtent
    exercised: dict[str, bool | None]
    home: Home

    @property
    def again(self) -> bool:
        """Whether it was stopped later than the others will be, in search of places to run."""
        return self.watched.record.get("ticks") != self.run_extent.until and not (
            self.run_extent.until == 0 and self.watched.record.get("reason") != STOPPED
        )

    @property
    def peak(self) -> int:
        """Its peak of memory, in bytes."""
        return int(self.watched.record.get("peak") or 0)

    def alone(self) -> Reference:
        """Return what is known where nothing is compared with it."""
        run_extent = self.run_extent.gone(self.watched.record)
        return Reference(
            self.watched,
            None,
            self.exercised,
            self.peak,
            self.watched.writes(),
            run_extent.notes,
            run_extent,
            run_extent.extent,
        )

    def runs(self, home: Home) -> list[Run]:
        """Return the runs that `compared` needs, the original through the same part once more.

        Args:
            home: another copy, as two runs at a time in one would be in each other's way.
        """
        settings = self.run_extent.settings()
        found: list[Run] = [(home, "check", settings)]
        return [*found, (self.home, "check", settings)] if self.again else found

    def compared(
        self, runner: Runner, runs: Sequence[Run], records: Sequence[RunRecord | None]
    ) -> Reference:
        """Return what the original does, given the records of `runs`.

        Raises:
            OriginalFailedError: one of them failed.
            SpentError: there was no time for one of them, or for their comparison.
        """
        done = [record for record in records if record is not None]
        for (ran_in, _, _), record in zip(runs, records, strict=True):
            if record is not None:
                _demand(record, runner, ran_in)
        if len(done) < len(runs):
            raise SpentError
        first, second = done[0], done[1] if self.again else self.watched
        itself, warnings = _itself(runner, first, second)
        run_extent = self.run_extent.gone(first.record)
        return Reference(
            first,
            itself,
            self.exercised,
            max(self.peak, *(int(record.record.get("peak") or 0) for record in done)),
            self.watched.writes(),
            (*warnings, *run_extent.notes),
            run_extent,
            self.run_extent.gone(self.watched.record).extent,
        )


def explore(
    runner: Runner,
    home: Home,
    units: Sequence[FixUnit],
    tick: Callable[[str], None],
    others: Sequence[Home] = (),
) -> Explored:
    """Find out what part of the program to run.

    Where there is no time for it, the status of the run is `Status.TIMEOUT`, and its record empty.

    Args:
        runner: runs it.
        home: of the original.
        units: what is to be reached.
        tick: takes a line of progress.
        others: whole other versions, which have to go the same way; what a fix leaves of the
            program goes it anyway.

    Raises:
        OriginalFailedError: it does not run, does no step, or is not what runs.
    """
    watched, run_extent = _explored(runner, home, units, tick, others)
    return Explored(watched, run_extent, _exercised(units, watched), home)


def _explored(
    runner: Runner,
    home: Home,
    units: Sequence[FixUnit],
    tick: Callable[[str], None],
    others: Sequence[Home],
) -> tuple[RunRecord, RunExtent]:
    """Run the original, watched, until the places of all fixes were reached or that takes too long.

    On a CPU it is first tried on the ledger's virtual device: there one run shows what a GPU would
    do, and the results too. Where it fails so, it is run as it is, and then without any epoch cut
    short.
    """
    virtual = runner.device == "cpu"
    copy = Path(os.path.realpath(home.copy))
    marks = [
        (f"{number}-{index}", os.path.realpath(copy / place.file), place.first, place.last)
        for number, unit in enumerate(units)
        for index, place in enumerate(unit.places)
    ]
    reason = ""
    record = RunRecord(Status.TIMEOUT, 0, {}, None, "", home.folder)
    for run_extent in run_extents.tried(virtual, runner.options):
        settings = {**run_extent.looking(runner.options, marks), "writes": True}
        looking = run_extent.looking(runner.options, ())
        runs: list[Run] = [(home, "check", settings), *((o, "check", looking) for o in others)]
        first, *rest = runner.all(runs, len(runs), tick)
        if first is None:
            return replace(record, status=Status.TIMEOUT, record={}), run_extent
        record = first
        hopeless = record.status is Status.TIMEOUT or not record.record
        unfit = [each for each in (first, *rest) if each and not _fits(each, run_extent)]
        if not unfit or hopeless:
            break
        if run_extent.ledger:
            counts = unfit[0].record.get("counts")
            reason = count_pass.gap(unfit[0], counts) or "it compiles its code"
    _demand(record, runner, home)
    until = int(record.record.get("horizon", 0))
    return record, replace(
        run_extent, until=until, gap=reason if virtual and not run_extent.ledger else ""
    )


def _fits(record: RunRecord, run_extent: RunExtent) -> bool:
    """Say whether a program goes this way."""
    well = record.status is Status.OK and record.steps > 0
    return well and not run_extent.unfit(record.record)


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


def _exercised(units: Sequence[FixUnit], watched: RunRecord) -> dict[str, bool | None]:
    """Say of each unit whether a place that it changes ran; compiled code and a program that traces
    itself hide it, and a unit may have no place that would show it."""
    seen = {name.partition("-")[0] for name in watched.marks()}
    hidden = watched.record.get("compiled") or not watched.record.get("watched")
    return {
        unit.id: True if str(number) in seen else None if hidden or not unit.places else False
        for number, unit in enumerate(units)
    }


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
                "it ended before any optimizer step. Without one, calls of backward() count as "
                f"steps from number {BACKWARD_FALLBACK + 1} on, else batches of a DataLoader from "
                f"number {BATCH_FALLBACK + 1} on: for code of an evaluation, have the program "
                "evaluate in a loop over more batches than that"
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
