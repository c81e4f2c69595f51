"""What the time of each step went into: once as the host saw it, once as the device did."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import OPERATOR, Columns, Ints, Mask, Trace
from torchlint.trace.intervals import Spans, covered, length, union, within
from torchlint.trace.kinds import COMMUNICATION, COMPUTE, MEMORY, kinds
from torchlint.trace.launches import joined
from torchlint.trace.loader import of_loaders
from torchlint.trace.marks import of_marks
from torchlint.trace.threads import together
from torchlint.trace.typical import by_kind, odd, reasons
from torchlint.trace.window import step_marks

LOADING, WAITING = "waiting for data", "waiting for the device"
REST = "other work of the host"
"""What is left of the host's side of a step: mostly Python."""
_DEVICE = (
    ("computing", COMPUTE),
    ("copying alone", MEMORY),
    ("communicating alone", COMMUNICATION),
)
"""What a device does, and kinds of its work; each counts where none before it runs."""


@frozen
class Part:
    """A marked step; times in nanoseconds.

    Args:
        number: of its mark.
        start: when it began.
        time: how long it took.
        host: what the training thread and autograd's did, by name; together the time.
        events: how many events of these threads were recorded in each of these.
        device: how long the work took that was launched in the step, whenever it ran, by name; None
            where there is no device.
        why: what the step did that others did not.
        odd: whether it is of another kind than the others.
    """

    number: int
    start: int
    time: int
    host: Mapping[str, int]
    events: Mapping[str, int]
    device: Mapping[str, int] | None
    why: tuple[str, ...] = ()
    odd: bool = False


@frozen
class Division:
    """All marked steps."""

    each: tuple[Part, ...]

    @property
    def usual(self) -> tuple[Part, ...]:
        """Return the steps that are like the others: there is one at least."""
        return tuple(part for part in self.each if not part.odd)

    @property
    def odd(self) -> tuple[Part, ...]:
        """Return those of another kind."""
        return tuple(part for part in self.each if part.odd)

    @property
    def kinds(self) -> dict[str, list[Part]]:
        """Return these by their kind, as `kind_of` names it."""
        return by_kind(self.odd)

    def spans(self, trace: Trace, parts: Sequence[Part]) -> Spans:
        """Return when some of the steps ran, each until the next one began; before the first and
        after the last mark it is their step that runs."""
        columns, each = trace.columns, self.each
        edges = np.array([int(columns.ts.min()), *(part.start for part in each[1:])])
        ends = np.append(edges[1:], int(columns.end.max()) + 1)
        chosen = np.isin([part.start for part in each], [part.start for part in parts])
        return edges[chosen], ends[chosen]

    @property
    def steps(self) -> int:
        """Return how many are like the others; what follows is of these."""
        return len(self.usual)

    @property
    def time(self) -> int:
        """Return the nanoseconds of all of them."""
        return sum(part.time for part in self.usual)

    @property
    def step(self) -> float:
        """Return the mean of one."""
        return self.time / self.steps

    @property
    def host(self) -> dict[str, float]:
        """Return what one went into for the host, on the mean: it adds up to the step."""
        return _means([part.host for part in self.usual])

    @property
    def events(self) -> dict[str, float]:
        """Return how many events one has there, on the mean."""
        return _means([part.events for part in self.usual])

    @property
    def device(self) -> dict[str, float] | None:
        """Return what a device did for one, the median by name; None where there is none."""
        each = [part.device for part in self.usual if part.device is not None]
        if not each:
            return None
        return {name: statistics.median(of[name] for of in each) for name in each[0]}


def _means(each: Sequence[Mapping[str, int]]) -> dict[str, float]:
    return {name: statistics.fmean(of[name] for of in each) for name in each[0]}


def division(trace: Trace, waiting: Mask) -> Division | None:
    """Divide the steps of a trace; None where none is marked.

    Args:
        trace: one rank's.
        waiting: which events are calls that wait for the device.
    """
    marks = step_marks(trace)
    if not marks:
        return None
    starts, ends = (np.array([mark[at] for mark in marks], dtype=np.int64) for at in (1, 2))
    device = trace.device()
    ours = np.isin(trace.columns.thread, together(trace))
    hosts = _host(trace, ours, _layers(trace, ours, waiting), (starts, ends))
    works = _work_by_step(trace, starts, ends) if device.any() else [None] * len(marks)
    numbers = [mark[0] for mark in marks]
    why = reasons(trace, numbers, starts, ends)
    times = (ends - starts).tolist()
    other = odd(times, [host[LOADING] for host, _ in hosts], why)
    return Division(
        tuple(
            Part(number, start, time, host, events, work, tuple(reason), far)
            for (number, start, _), time, (host, events), work, reason, far in zip(
                marks, times, hosts, works, why, other, strict=True
            )
        )
    )


def _layers(trace: Trace, ours: Mask, waiting: Mask) -> Iterable[tuple[str, Mask]]:
    """Yield what some threads do, by name; each counts where none before it runs."""
    yield LOADING, ours & of_loaders(trace)
    if trace.device().any():
        yield WAITING, ours & waiting
        yield "calls of the driver", ours & trace.calls()
    yield "operators", ours & trace.of_cat(OPERATOR) & ~of_marks(trace)


def _host(
    trace: Trace, ours: Mask, layers: Iterable[tuple[str, Mask]], steps: Spans
) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Return for each step how much of it each layer covers that none before it does, and what none
    does; and how many events of some threads begin there."""
    columns, (starts, ends) = trace.columns, steps
    begun = np.sort(columns.ts[ours & ~trace.device()])
    so_far = np.zeros(len(columns.ts), dtype=np.bool_)
    times: dict[str, Ints] = {}
    counts: dict[str, Ints] = {}
    before = np.zeros(len(starts), dtype=np.int64), np.zeros(len(starts), dtype=np.int64)
    for name, layer in (*layers, (REST, None)):
        if layer is None:
            now = ends - starts, _counts_by_step(begun, starts, ends)
        else:
            so_far |= layer
            spans = _spans(columns, so_far)
            inside = begun[within(spans, begun)]
            now = (
                covered(spans, ends) - covered(spans, starts),
                _counts_by_step(inside, starts, ends),
            )
        times[name], counts[name] = now[0] - before[0], now[1] - before[1]
        before = now
    return [
        (
            {name: int(times[name][at]) for name in times},
            {name: int(counts[name][at]) for name in counts},
        )
        for at in range(len(starts))
    ]


def _work_by_step(trace: Trace, starts: Ints, ends: Ints) -> list[dict[str, int]]:
    """Return for each step how long the work of each kind took that was launched in it, where none
    of a kind before it ran; work whose launch is not known counts where it ran."""
    columns = trace.columns
    work = columns.where(trace.device())
    calls = columns.where(trace.calls())
    pairs = joined(calls, work)
    when = work.ts.copy()
    when[pairs.work] = calls.ts[pairs.call]
    step = np.searchsorted(starts, when, side="right") - 1
    step[when >= ends[-1]] = -1
    kind = kinds(trace)[work.name]
    found = []
    for at in range(len(starts)):
        so_far = np.zeros(len(step), dtype=np.bool_)
        times, before = {}, 0
        for name, of in _DEVICE:
            so_far |= (step == at) & (kind == of)
            now = length(_spans(work, so_far))
            times[name], before = now - before, now
        found.append(times)
    return found


def _spans(columns: Columns, chosen: Mask) -> Spans:
    rows = columns.where(chosen)
    return union(rows.ts, rows.end)


def _counts_by_step(times: Ints, starts: Ints, ends: Ints) -> Ints:
    """Return how many of some times, in order, lie in each step."""
    found: Ints = np.searchsorted(times, ends) - np.searchsorted(times, starts)
    return found
