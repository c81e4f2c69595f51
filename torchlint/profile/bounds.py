"""What fixing a finding saves at most: the trace played again without what its rule's effect takes
out.

Effects are those of `torchlint.base.declaration.Declaration`. Where more is taken out than fixing
could, the bound is higher, and still one: ``"host"`` takes out all that the host does in the
statement, although something will stand in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.replay import Dropped, Replay
from torchlint.trace.columns import Ints, Mask, Trace
from torchlint.trace.intervals import Spans, covered, length, union, within
from torchlint.trace.loader import of_loaders
from torchlint.trace.threads import recorded_events
from torchlint.trace.window import step_marks

NEGLIGIBLE = 0.005
"""Share of the time below which a bound is not worth a line."""
_SMALL = 5_000
"""Nanoseconds of a kernel that are mostly its start and its end: fewer launches have fewer."""
_WAIT = re.compile(r".*Synchronize|(?:cu|cuda|hip)Mem(?:cpy|set).*")
"""Names of calls whose waiting is the program's doing: not that for memory, or for room in a queue.
"""
_COPY = re.compile(r"Memcpy.*|.*CopyDeviceTo.*|.*CopyHostTo.*|dma.*")
_READ = re.compile(r"Memcpy DtoH.*|.*CopyDeviceToHost.*")
_ALLOCATION = re.compile(
    r"(?:cuda|hip)(?:Malloc|Free)(?:Async|Managed|Pitch|FromPoolAsync)?|"
    r"(?:cu|hip)Mem(?:Create|Map|Unmap|Release|SetAccess|Address(?:Reserve|Free))"
)
"""Names of calls by which PyTorch's allocator takes memory from the driver and gives it back."""
_FREE = re.compile(r"(?:cuda|hip)Free|(?:cu|hip)Mem(?:Unmap|Release)")
_SYNCHRONISE = re.compile(r".*Synchronize")
_BETWEEN = 20_000
"""Nanoseconds around a call or a piece of work that go with it, at most."""
_AT_ONCE = 5_000
"""Nanoseconds from a synchronisation to the call that it was made for, at most."""
_NOTHING: Spans = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@frozen
class Whole:
    """The time of which bounds are told as parts.

    What a trace shows of a run's steps took longer than it does without the profiler, and how much
    longer is another matter for each line: so what a line takes out there is more than it is worth
    in a step without the profiler, never less, and such steps are what it is compared with. Where
    the steps under the profiler took less, as those without it were disturbed, it is they.

    What the profiler adds is known for all events together, and of what the events of a line had
    in it the part that is sure is taken off again, see `unrecorded`.

    Args:
        ns: nanoseconds of all that was recorded; of a run, of as many steps without the profiler,
            or with it where these took less.
        steps: how many; None where a trace was read, of which nothing else is known.
        step: what a step takes that parts are told of, in nanoseconds; None for that of `ns`.
        event: nanoseconds that recording one event took, or a part of them that is sure.
        least: what stays of a time of the trace at least, as a share of it.
    """

    ns: int
    steps: int | None = None
    step: float | None = None
    event: float = 0.0
    least: float = 1.0

    @property
    def told(self) -> float:
        """Return the nanoseconds that parts are told of: of a run, those of one step."""
        return self.ns / (self.steps or 1) if self.step is None else self.step

    def share(self, time: int) -> float:
        """Return which part of the whole a time of the trace is, all of it at most."""
        return min(1.0, time / self.ns) if self.ns else 0.0

    def unrecorded(self, time: int, events: int) -> int:
        """Return what a time of the trace is without the recording of events in it.

        It is more than its share of the steps under the profiler, of as many without it: that is
        what it would be if all that was recorded had become longer alike. Marks become longer
        outside of themselves too.
        """
        return min(time, max(round(time - self.event * events), round(time * self.least)))

    def small(self, time: int) -> bool:
        """Say whether a time of the trace is not worth a line."""
        return time < NEGLIGIBLE * self.ns


@frozen
class Bound:
    """What fixing a finding saves at most, in nanoseconds of the trace.

    Args:
        alone_ns: where it is the only one that is fixed.
        joint_ns: where all the others are fixed already: what one finding covers, another one may
            uncover.
        basis: what was taken out of the trace, the effect of the rule.
        recorded_ns: `alone_ns` with what recording its events took; None where nothing was taken
            off.
    """

    alone_ns: int
    joint_ns: int
    basis: str
    recorded_ns: int | None = None

    @property
    def seen_ns(self) -> int:
        """Return what the trace is shorter by without it."""
        return max(self.alone_ns, self.recorded_ns or 0)


class Effects:
    """Takes out of a trace, or of the times of it that are looked at, what fixing statements
    would."""

    def __init__(self, trace: Trace, replay: Replay, spans: Spans | None = None) -> None:
        self._trace = trace
        self._replay = replay
        self._in = spans
        columns = trace.columns
        names = columns.name[replay.work]
        self._copy = np.isin(names, trace.named(_COPY))
        self._read = np.isin(names, trace.named(_READ))
        self._small = columns.dur[replay.work] <= _SMALL
        self._waits = np.zeros(len(replay.calls), dtype=np.bool_)
        self._waits[replay.blocking] = True
        self._waits &= np.isin(columns.name[replay.calls], trace.named(_WAIT))
        self._atens = [at for at, name in enumerate(trace.names) if name.startswith("aten::")]

    def without(self, effect: str, rows: Ints) -> Dropped:
        """Return what an effect takes out, in the steps that are looked at.

        Args:
            effect: of a rule.
            rows: events of the host that are the statement's; what runs inside of them is too.
        """
        dropped = self._drop_all(effect, rows)
        if self._in is None:
            return dropped
        replay, columns = self._replay, self._trace.columns
        calls = within(self._in, columns.ts[replay.calls])
        work = np.where(
            replay.launched >= 0,
            self._started(calls),
            within(self._in, columns.ts[replay.work]),
        )
        return Dropped(
            [at for at in dropped.waits if calls[at]],
            [at for at in dropped.work if work[at]],
            None if dropped.host is None else _common(dropped.host, self._in),
        )

    def _drop_all(self, effect: str, rows: Ints) -> Dropped:
        match effect:
            case "wait":
                return self._moved(rows, self._read)
            case "copy":
                return self._moved(rows, self._copy)
            case "host" | "upload" | "sample":
                taken = self._moved(rows, self._copy)
                return Dropped(taken.waits, taken.work, self._spans(rows))
            case "launch":
                # Drop all but the first launch of each step: with it goes what the host did
                # behind it, and what was started in vain.
                replay, columns = self._replay, self._trace.columns
                calls = self._calls(rows)
                started = self._started(calls)
                launches = np.zeros(len(calls), dtype=np.bool_)
                launches[replay.launched[started]] = True
                numbers = np.flatnonzero(launches)
                spans = self._spans(rows)
                if not len(numbers):
                    return Dropped(_numbers(calls & self._waits), (), spans)
                begun, back = columns.ts[replay.calls[numbers]], columns.end[replay.calls[numbers]]
                _, first = np.unique(
                    np.searchsorted(self._steps, begun, side="right"), return_index=True
                )
                kept = numbers[first]
                # From the return of the first launch of a step to the step's end.
                ends = np.searchsorted(self._steps, begun[first], side="right")
                until = np.append(self._steps, 2**62)[ends]
                behind = _common(spans, (back[first], until))
                gone = calls & (launches | self._waits)
                gone[kept] = False
                work = started & self._small & ~np.isin(replay.launched, kept)
                return Dropped(_numbers(gone), _numbers(work | (started & self._read)), behind)
            case "gpu":
                calls = self._calls(rows)
                return Dropped(_numbers(calls), _numbers(self._started(calls)), self._spans(rows))
            case "loader":
                return self._loader
            case "memory":
                return self._memory
        return Dropped()

    def _moved(self, rows: Ints, work: Mask) -> Dropped:
        """Drop waits, copies of a mask with the calls that start them, and the operators of torch
        that do both."""
        calls = self._calls(rows)
        copies = self._started(calls) & work
        launches = np.zeros(len(calls), dtype=np.bool_)
        launches[self._replay.launched[copies]] = True
        gone = (calls & self._waits) | launches
        return Dropped(_numbers(gone), _numbers(copies), self._operators(rows, gone))

    def _operators(self, rows: Ints, gone: Mask) -> Spans:
        """Return the time of torch's outermost operators among rows that make some calls."""
        columns = self._trace.columns
        operators = rows[np.isin(columns.name[rows], self._atens)]
        begun = np.sort(columns.ts[self._replay.calls[gone]])
        first = np.searchsorted(begun, columns.ts[operators])
        holds = np.searchsorted(begun, columns.end[operators]) > first
        found = operators[holds]
        return union(columns.ts[found], columns.end[found])

    @cached_property
    def _loader(self) -> Dropped:
        """Drop the waits for batches."""
        rows = np.flatnonzero(of_loaders(self._trace))
        return Dropped(_numbers(self._calls(rows)), (), self._spans(rows))

    @cached_property
    def _memory(self) -> Dropped:
        """Drop the allocator's calls of the driver, and the synchronisations before memory is given
        back."""
        trace, calls = self._trace, self._replay.calls
        columns = trace.columns.where(calls)
        gone = np.isin(columns.name, trace.named(_ALLOCATION))
        frees = np.isin(columns.name, trace.named(_FREE))
        waits = np.isin(columns.name, trace.named(_SYNCHRONISE))
        for thread in np.unique(columns.thread[frees]).tolist():
            on = np.flatnonzero(columns.thread == thread)
            at_once = columns.ts[on[1:]] - columns.end[on[:-1]] <= _AT_ONCE
            gone[on[:-1]] |= waits[on[:-1]] & frees[on[1:]] & at_once
        return Dropped(_numbers(gone), (), None)

    @cached_property
    def _steps(self) -> Ints:
        """When the marked steps begin."""
        return np.array([start for _, start, _ in step_marks(self._trace)], dtype=np.int64)

    def _calls(self, rows: Ints) -> Mask:
        """Return which calls of the replay run inside of rows."""
        columns, calls = self._trace.columns, self._replay.calls
        found = np.zeros(len(calls), dtype=np.bool_)
        threads = columns.thread[calls]
        for thread in np.unique(columns.thread[rows]).tolist():
            of = rows[columns.thread[rows] == thread]
            spans = union(columns.ts[of], columns.end[of])
            found |= within(spans, columns.ts[calls]) & (threads == thread)
        return found

    def _started(self, calls: Mask) -> Mask:
        """Return which work some calls started."""
        launched = self._replay.launched
        if not len(calls):
            return np.zeros(len(launched), dtype=np.bool_)
        found: Mask = (launched >= 0) & calls[np.maximum(launched, 0)]
        return found

    def _spans(self, rows: Ints) -> Spans:
        columns = self._trace.columns
        return union(columns.ts[rows], columns.end[rows])


def together(each: Iterable[Dropped]) -> Dropped:
    """Return what is taken out by any of several."""
    waits: set[int] = set()
    work: set[int] = set()
    starts, ends = [_NOTHING[0]], [_NOTHING[1]]
    for one in each:
        waits.update(one.waits)
        work.update(one.work)
        if one.host is not None:
            starts.append(one.host[0])
            ends.append(one.host[1])
    return Dropped(waits, work, union(np.concatenate(starts), np.concatenate(ends)))


def saved(replay: Replay, dropped: Dropped) -> int:
    """Return how much shorter the run would be at most, in nanoseconds."""
    return replay.span - replay.play(dropped)


def ceiling(replay: Replay, dropped: Dropped) -> int:
    """Return what a run would be shorter by at most if all that is dropped lay on its critical
    path, in nanoseconds: no less than what `saved` gives, and found at once."""
    columns = replay.columns
    calls = replay.calls[np.fromiter(dropped.waits, np.int64, len(dropped.waits))]
    work = replay.work[np.fromiter(dropped.work, np.int64, len(dropped.work))]
    host = [columns.ts[calls]], [columns.end[calls]]
    if dropped.host is not None:
        host = [*host[0], dropped.host[0]], [*host[1], dropped.host[1]]
    device = union(columns.ts[work], columns.end[work])
    pauses = _BETWEEN * (len(calls) + len(work))
    return length(union(np.concatenate(host[0]), np.concatenate(host[1]))) + length(device) + pauses


class Recording:
    """Takes off what recording took of what dropping saves.

    Only the training thread's events count. A device is no slower for being recorded: where one
    worked it is the host's time in what is dropped that becomes less.
    """

    def __init__(self, replay: Replay, trace: Trace, of: Whole) -> None:
        self._replay = replay
        self._of = of
        rows = recorded_events(trace) if of.event > 0 else np.zeros(0, np.int64)
        self._times: Ints = np.sort(trace.columns.ts[rows])

    def events(self, dropped: Dropped) -> int:
        """Return how many events begin in what is dropped."""
        if dropped.host is None:
            return 0
        first = np.searchsorted(self._times, dropped.host[0], side="left")
        return int((np.searchsorted(self._times, dropped.host[1], side="left") - first).sum())

    def without(self, dropped: Dropped, time: int) -> int:
        """Return what dropping saves without the recording of events, of what it saves with it."""
        events = self.events(dropped)
        if not events or dropped.host is None:
            return time
        if not len(self._replay.work):
            return self._of.unrecorded(time, events)
        host = self._of.unrecorded(length(dropped.host), events)
        return min(time, host + saved(self._replay, Dropped(dropped.waits, dropped.work)))

    def together(self, time: int, events: int, most: int) -> int:
        """Return what dropping saves beside other things, without the recording of events that are
        not in these: no more than so much of it is taken off."""
        return max(time - most, self._of.unrecorded(time, events))


def bounds(
    replay: Replay,
    each: Sequence[tuple[str, Dropped]],
    played: Sequence[int],
    recording: Recording,
) -> tuple[int, list[Bound]]:
    """Return what some findings save together, and the bounds of those of them that are to be
    played.

    Args:
        replay: the trace.
        each: the effect of each finding, and what it takes out.
        played: numbers of findings.
        recording: takes off what recording took.
    """
    everything = together(dropped for _, dropped in each)
    whole, events = saved(replay, everything), recording.events(everything)
    found = []
    for at in played:
        effect, dropped = each[at]
        others = together(other for place, (_, other) in enumerate(each) if place != at)
        seen, more = saved(replay, dropped), whole - saved(replay, others)
        alone = recording.without(dropped, seen)
        only = events - recording.events(others)
        joint = recording.together(more, only, seen - alone)
        found.append(Bound(alone, joint, effect, seen if alone < seen else None))
    most = max((bound.alone_ns for bound in found), default=0)
    return max(recording.without(everything, whole), most), found


def _numbers(chosen: Mask) -> list[int]:
    numbers: list[int] = np.flatnonzero(chosen).tolist()
    return numbers


def _common(one: Spans, other: Spans) -> Spans:
    """Return the times that two sets of spans, each apart, have in common."""
    times = np.unique(np.concatenate((*one, *other)))
    if len(times) < 2:
        return _NOTHING
    inside = [covered(spans, times[1:]) > covered(spans, times[:-1]) for spans in (one, other)]
    both = inside[0] & inside[1]
    return union(times[:-1][both], times[1:][both])
