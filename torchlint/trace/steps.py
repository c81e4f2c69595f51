"""The steps of a training program in a trace, how even they are, and what made the slowest slow."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Columns, Trace
from torchlint.trace.intervals import covered, union
from torchlint.trace.loader import waits
from torchlint.trace.window import step_marks


@frozen
class Step:
    """A step; times in nanoseconds.

    `busy` is how long a device worked in it, None where there is none; `loading` how long the
    program waited for data.
    """

    number: int
    start: int
    end: int
    busy: int | None
    loading: int

    @property
    def time(self) -> int:
        """How long it took."""
        return self.end - self.start


@frozen
class Steps:
    """All marked steps, with their median in nanoseconds and their coefficient of variation.

    `why` names the part that grew most from the median step to the slowest; empty where they are
    even or too few.
    """

    each: tuple[Step, ...]
    median: float | None
    variation: float | None
    why: str


def steps(trace: Trace, work: Columns) -> Steps:
    """Measure the steps that ``profiler.step()`` marks.

    Args:
        trace: holds the marks.
        work: what devices did.
    """
    marks = step_marks(trace)
    starts = np.array([start for _, start, _ in marks], dtype=np.int64)
    ends = np.array([end for *_, end in marks], dtype=np.int64)
    running, loading = union(work.ts, work.end), waits(trace)
    busy = (covered(running, ends) - covered(running, starts)).tolist()
    waited = (covered(loading, ends) - covered(loading, starts)).tolist()
    each = tuple(
        Step(*mark, busy[at] if len(work.ts) else None, waited[at]) for at, mark in enumerate(marks)
    )
    times = np.array([step.time for step in each], dtype=np.float64)
    if not len(times):
        return Steps(each, None, None, "")
    variation = float(times.std(ddof=1) / times.mean()) if len(times) > 1 else None
    return Steps(each, float(np.median(times)), variation, _cause_of_slowest(each))


def _cause_of_slowest(each: tuple[Step, ...]) -> str:
    """Return which part of the slowest step is over its median by half of the excess or more."""
    if len(each) < 3:
        return ""
    slowest = max(each, key=lambda step: step.time)
    excess = slowest.time - float(np.median([step.time for step in each]))
    if excess < 0.1 * slowest.time:
        return ""
    parts = {
        "waiting for data": [step.loading for step in each],
        "work of the device": [step.busy or 0 for step in each],
    }
    at = each.index(slowest)
    for words, times in parts.items():
        if times[at] - float(np.median(times)) >= excess / 2:
            return words
    return "the host" if slowest.busy is None else "the host, with the device idle"
