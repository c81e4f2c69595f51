"""A run of the user's program under torch's profiler, in a copy of its project, with marks in its
statements."""

from __future__ import annotations

import gzip
import shlex
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from torchlint.base.errors import OutputError, UsageError
from torchlint.base.records import frozen
from torchlint.profile.account import EVENT, Account, account
from torchlint.profile.bounds import Whole
from torchlint.profile.functions import FunctionCost, functions
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.report import Summary
from torchlint.profile.running import NO_STEP, Aside, Pace, Run, Wanted, stepped, usual_of
from torchlint.profile.virtual_run import Counted, counted
from torchlint.profile.workers import Workers, read
from torchlint.program.machine.manifest import manifest, warnings
from torchlint.program.machine.workspace import Workspace
from torchlint.trace.columns import Trace
from torchlint.trace.division import LOADING, Division, division

HOLD_SECONDS = {"cuda": 0.5}
"""By device, for how long a program's steps are let go by before any is timed."""
_QUEUED = 0.1
"""Share of the time from which on it is told that the training thread waited for a core."""
_SURE = 0.8
"""The part of what an event cost on the mean that each is taken to have cost: some cost less, as
those of quick operators."""
_ANYWAY = 0.1
"""The part of a step by which steps differ anyway: by so much recording made none longer, and a
share of the steps under the profiler may be so much of itself too little."""
_DIFFERS = 1.5
"""From which ratio on, either way, a step under the profiler is another than without it."""
_HALF = 0.5
"""The part of what a step became longer by that explains it."""


@frozen
class Recorded:
    """What a run left.

    Args:
        traces: one of each rank, by rank.
        typed: the command.
        pace: of the lowest rank's steps, but those of another kind; None where the program ended
            before they were timed.
        aside: those of another kind.
        event: nanoseconds that recording an event takes; None where that was not measured.
        device: the GPU's name; empty for a run on a CPU.
        boundary: what ends a step: "optimizer", "backward" or "batch".
        profiled: how many steps were.
        workers: what the workers of the lowest rank's DataLoaders did; None where it had none.
        queued: whether the program was ready to run and had no core, in its timed steps.
        counted: what the ledger counted in a run of its own; None where there was none.
        notes: what a reader has to know.
    """

    traces: tuple[Path, ...]
    typed: tuple[str, ...]
    pace: Pace | None
    aside: tuple[Aside, ...]
    event: float | None
    device: str
    boundary: str
    profiled: int
    workers: Workers | None
    queued: bool
    counted: Counted | None
    notes: tuple[str, ...]


@contextmanager
def recorded(wanted: Wanted, show: Callable[[str], None]) -> Iterator[Recorded]:
    """Run a program, and give what it left for as long as the context lasts.

    Args:
        wanted: what program, and how.
        show: takes a line of progress.

    Raises:
        ProgramFailedError: the program fails, or takes too long.
        UsageError: it ends before enough steps, or the project cannot be copied.
    """
    root = wanted.root
    before = manifest(root)
    hold = HOLD_SECONDS.get(wanted.device, 0.0)
    with ExitStack() as kept:
        run, records = _run_in_copy(wanted, kept, hold, show)
        found = [record for record in records if record["trace"]]
        if hold and not found and stepped(records) >= _needed(wanted):
            run, records = _run_in_copy(wanted, kept, 0.0, show)
            found = [record for record in records if record["trace"]]
        if not found:
            run.check(records)
            raise UsageError(_too_short(stepped(records), wanted))
        ledger = counted(wanted, show) if wanted.predict else None
        changed = warnings(root, before)
        busy = filter(None, (wanted.doctor.host.busy,))
        pace, aside = usual_of(found[0])
        yield Recorded(
            traces=tuple(Path(record["trace"]) for record in found),
            typed=wanted.command.typed,
            pace=pace,
            aside=aside,
            event=found[0]["event_ns"],
            device=found[0]["device"],
            boundary=found[0]["boundary"],
            profiled=_profiled(found[0], wanted),
            workers=_workers(found[0], run),
            queued=_is_queued(found[0]),
            counted=ledger,
            notes=(*changed, *run.notes, *busy, *_notes(found, wanted)),
        )


def _run_in_copy(
    wanted: Wanted, kept: ExitStack, hold: float, show: Callable[[str], None]
) -> tuple[Run, list[dict[str, Any]]]:
    """Run the program in a copy that is kept for as long as the stack; return the records of its
    processes, by rank."""
    workspace = kept.enter_context(Workspace())
    show(f"copying {wanted.root.name or 'the project'}")
    run = Run(wanted, workspace)
    settings = {
        "warmup": wanted.warmup,
        "steps": wanted.steps,
        "hold": hold,
        "memory": wanted.memory,
        "shapes": wanted.shapes or wanted.memory,
    }
    return run, run.records(settings, show)


def _needed(wanted: Wanted) -> int:
    """Return how many steps a program has to do where a GPU is not waited for."""
    return wanted.warmup + 1 + wanted.steps


def _too_short(steps: int, wanted: Wanted) -> str:
    """Say why there is no trace of a program that ended by itself."""
    if not steps:
        return NO_STEP
    warmup = max(2, (steps - 1) // 2)
    hint = f": --warmup {warmup} --steps {steps - 1 - warmup}" if steps > 3 else ""
    ended = f"the program ended after {steps} step{'s' * (steps != 1)}"
    return f"{ended}, and {_needed(wanted)} are needed{hint}"


def _profiled(record: Mapping[str, Any], wanted: Wanted) -> int:
    steps: int = record["steps"]
    timed_to: int = record["timed_to"]
    return min(wanted.steps, steps - timed_to - 1)


def _workers(record: Mapping[str, Any], run: Run) -> Workers | None:
    ends = record["ends_ns"]
    window = (ends[0][0], ends[-1][0]) if len(ends) > 1 else None
    return read(run.out, run.root, record["pid"], window)


def _is_queued(record: Mapping[str, Any]) -> bool:
    queued, total = record["queued_ns"], record["total_ns"]
    return queued is not None and queued >= _QUEUED * total


def _notes(records: Sequence[Mapping[str, Any]], wanted: Wanted) -> Iterator[str]:
    first = records[0]
    profiled = _profiled(first, wanted)
    if profiled < wanted.steps:
        yield f"the program ended after {profiled} of {wanted.steps} profiled steps"
    if first["boundary"] != "optimizer":
        yield f"no optimizer stepped where it can be seen: a step is a {first['boundary']}"
    if _is_queued(first):
        part = first["queued_ns"] / first["total_ns"]
        yield (
            f"for {100 * part:.0f} % of the steps without the profiler the training "
            "thread was ready to run and had no core: other work on the machine took it, or more "
            "threads than there are cores"
        )
    if not first["marks"]:
        yield "no file of the project was imported or run, so that no line is known"
    for file, path in first["leaked"].items():
        yield f"{file} was imported from {path}, not from the copy: it has no marks"
    yield from (f"without marks: {words}" for words in first["unmarked"])
    yield from first["trouble"]


def kept(traces: Sequence[Path], path: str) -> None:
    """Write traces where the user wants them: of several ranks, each has its number in the name.

    Raises:
        OutputError: one cannot be written.
    """
    for rank, trace in enumerate(traces):
        target = Path(path)
        if len(traces) > 1:
            stem, dot, ending = target.name.partition(".")
            target = target.with_name(f"{stem}-{rank}{dot}{ending}")
        try:
            opened = gzip.open if target.name.endswith(".gz") else open
            with trace.open("rb") as source, opened(target, "wb") as out:
                shutil.copyfileobj(source, out)
        except OSError as error:
            raise OutputError(f"{target}: {error.strerror or error}") from error


@frozen
class Steps:
    """What a run says of a step, beside its trace.

    Args:
        paths: the program's files, as the user named them.
        typed: the command.
        boundary: what ends a step: "optimizer", "backward" or "batch".
        pace: without the profiler; None where the program ended before.
        division: what the profiled steps went into; None where none was whole.
        workers: what the workers of its DataLoaders did; None where there were none.
        options: those of the run that `verify` has too, as words.
        functions: what the program's functions take themselves of the profiled steps.
        aside: steps of another kind, of those without the profiler.
        event: nanoseconds that recording an event takes, at most.
    """

    paths: tuple[str, ...]
    typed: tuple[str, ...]
    boundary: str
    pace: Pace | None
    division: Division | None
    workers: Workers | None = None
    options: tuple[str, ...] = ()
    functions: tuple[FunctionCost, ...] = ()
    aside: tuple[Aside, ...] = ()
    event: float = EVENT

    @property
    def slower(self) -> float | None:
        """Return how many times as long a step took under the profiler as without; None where one
        of the two was not measured."""
        if self.pace is None or self.division is None or not self.pace.step:
            return None
        return self.division.step / self.pace.step

    @property
    def account(self) -> Account | None:
        """Return what a step goes into without the profiler; None where nothing was profiled."""
        if self.division is None:
            return None
        if self.pace is None:
            return account(self.division, self.division.step, None, 0.0)
        step = self.pace.step
        event = self.event if self.division.step > step else 0.0
        return account(self.division, step, statistics.fmean(self.pace.loading), event)

    def whole(self, span: int, events: int) -> Whole:
        """Return what bounds are compared with.

        Args:
            span: nanoseconds of the trace, where no step was timed without the profiler.
            events: that the training thread has in it, in steps that are like the others.
        """
        if self.pace is None or self.division is None:
            return Whole(span)
        step, steps, time = self.pace.step, self.division.steps, self.division.time
        ns = round(min(step * steps, time))
        longer = time - (1 + _ANYWAY) * step * steps
        if longer <= 0 or not events:
            return Whole(ns, steps, step)
        event = _SURE * min(longer / events, self.event)
        return Whole(ns, steps, step, event, (1 + _ANYWAY) * ns / time)


def steps_of(
    left: Recorded,
    paths: tuple[str, ...],
    places: Places,
    parts: Division | None,
    workers: Workers | None,
    options: tuple[str, ...],
) -> Steps:
    """Return what a run says of a step, with the trace of the rank that is shown.

    Args:
        left: what the run left.
        paths: the program's files, as the user named them.
        places: of the rank's events, in steps that are like the others.
        parts: what its steps went into.
        workers: what the run's workers did, with files as the user named them.
        options: those of the run that `verify` has too.
    """
    return Steps(
        paths,
        left.typed,
        left.boundary,
        left.pace,
        parts,
        workers,
        options,
        functions(places),
        left.aside,
        EVENT if left.event is None else min(left.event, EVENT),
    )


def divided(trace: Trace, replay: Replay) -> Division | None:
    """Return what the steps of a trace went into; None where none is marked.

    Args:
        trace: one rank's.
        replay: of it.
    """
    waiting = np.zeros(len(trace.columns.ts), dtype=np.bool_)
    waiting[replay.calls[replay.blocking]] = True
    return division(trace, waiting)


def doubts(of: Steps, device: str) -> tuple[str, ...]:
    """Return what to be told where steps under the profiler are no longer those of the program.

    Args:
        of: what the run says of a step.
        device: "cuda" or "cpu".
    """
    slower, pace, parts = of.slower, of.pace, of.division
    if slower is None or pace is None or parts is None or 1 / _DIFFERS <= slower <= _DIFFERS:
        return ()
    asked = any("OMP_NUM_THREADS" in word for word in of.options)
    threads = "--env OMP_NUM_THREADS=1, " if device == "cpu" and not asked else ""
    shares = "what the host does" if parts.device is not None else "shares of the time"
    return (
        f"a step took {slower:.2g} x as long under the profiler as without it: "
        f"{_because(of, pace, parts)}; {shares} may be told wrong. Try {threads}a larger --warmup "
        "or --steps, and no other work on the machine",
    )


def _because(of: Steps, pace: Pace, parts: Division) -> str:
    """Return why a step took longer under the profiler, or shorter."""
    longer = parts.step - pace.step
    if longer < 0:
        return "recording makes none faster, so those without it were disturbed"
    loading = parts.host[LOADING] - statistics.fmean(pace.loading)
    if loading >= _HALF * longer:
        words = "it waited longer for data"
        slow = of.workers is not None and of.workers.slower > _DIFFERS
        return f"{words}, as timing the lines of DataLoaders' workers takes time" if slow else words
    events = sum(parts.events.values())
    share = of.event * events / longer
    recording = f"recording its {events:,.0f} events"
    if share >= _HALF:
        return f"{recording} takes time, so that lines of many small operators seem to take more"
    return f"{recording} explains {100 * share:.0f} % of that, the rest is not explained"


def renamed(summary: Summary, left: Recorded) -> Summary:
    """Return what was counted of a run with the command in the place of files that are gone
    afterwards, and what is to be known of the run."""
    name = shlex.join(left.typed)
    notes = list(left.notes)
    for note in summary.notes:
        for trace in left.traces:
            note = note.replace(f"{trace}: ", "")
        notes.append(note)
    ranks = tuple(
        replace(rank, path=name, device=left.device or rank.device or "CPU")
        for rank in summary.ranks
    )
    return Summary(ranks, tuple(notes))
