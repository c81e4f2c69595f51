"""What a run would have taken without some of its waits, copies or host work, by playing its trace
once more.

The items of a trace are starts of calls, ends of a device's work and returns of calls, in the order
in which they happened. Each is as late as what it waited for, plus what it took by itself:

- a call starts after the call that came back last before it, and as long after as it did; the
  training thread and autograd's threads, which take turns, are one actor;
- work ends after its launch, the work before it in its stream, and work of another stream that it
  visibly followed;
- a call that blocks comes back after the work that it waited for;
- a batch that worker processes had not ready is ready no sooner: they go their own pace.

So nothing changes where nothing is dropped, and dropping makes items earlier, never later. Waiting
for other ranks is work of a device here, like any other, and loading in the program's own process
is work of the host.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import NONE, Columns, Ints, Mask, Trace
from torchlint.trace.intervals import Spans, covered
from torchlint.trace.launches import joined
from torchlint.trace.threads import together

_BLOCKS = re.compile(r".*Synchronize|(?:cuda|hip)(?:Memcpy|Free)")
"""Names of calls that wait for a device however short they are."""
_MAY_BLOCK = re.compile(
    r"(?:cuda|hip|cu)(?:Mem|Malloc|Free|Host(?:Alloc|Free)|(?:Graph)?Launch|Ext|ModuleLaunch).*"
)
"""Names of calls that wait where they are long: copies, allocations, and launches into a full
queue."""
_BATCHES = re.compile(r"enumerate\(DataLoader\)#_MultiProcessing.*__next__")
"""Waits for batches that other processes make."""
_ALL_STREAMS = re.compile(r".*(?:Device|Ctx|Context)Synchronize")
_ONE_STREAM = re.compile(r".*StreamSynchronize")
_COPIES = re.compile(r"(?:cuda|hip)Memcpy.*")
_EVENTS = re.compile(r"(?:cu|cuda|hip)StreamWaitEvent")
_READS = re.compile(r".*DtoH.*Pageable.*")
"""Names of copies for which the call that starts them waits."""
_LONG = 20_000
_OWN = 5_000
"""Nanoseconds of a call that blocks which are not waiting, at most."""
_UNPACKS, _WAITS = 1_000_000, 3
"""A batch was not ready where taking it took longer than so many nanoseconds, and longer than so
many times what the quickest one took."""
_RETURN = 1_000
"""Nanoseconds from the end of work to the return of a call that would have to wait for it now."""
_LAG = 6_000
"""Nanoseconds from the start of a launch to that of its work, where the trace does not tell."""
_PAUSE = 1_000
"""Nanoseconds between two pieces of work in a queue, where the trace does not tell."""
_NEVER = -(2**62)
_FAR = 200
"""Launches before an event among which the last one of each other stream is looked for."""
_FOLLOWS = 10_000
"""Nanoseconds after the end of other work in which work starts that waited for it."""


@frozen
class Dropped:
    """What is taken out: waits of calls and time of work by number, and host time."""

    waits: Collection[int] = ()
    work: Collection[int] = ()
    host: Spans | None = None


class Replay:
    """A trace, ready to be played again.

    `calls` and `work` are rows of the trace's columns: the calls of drivers and of loaders of which
    none lies in another one, and what devices did, by end. Numbers of calls and of work are places
    in them.
    """

    def __init__(self, trace: Trace) -> None:
        self.columns = columns = trace.columns
        loads = np.isin(columns.name, trace.named(_BATCHES)) & ~trace.device()
        found = np.flatnonzero(trace.calls() | loads)
        self.calls, inside = _outermost(columns, found)
        self.loads: Mask = loads[self.calls]
        """Which of the calls are no driver's, but wait for a batch from worker processes."""
        work = np.flatnonzero(trace.device())
        self.work = work[np.argsort(columns.end[work], kind="stable")]
        self._launch = np.full(len(self.work), NONE)
        pairs = joined(columns.where(found), columns.where(self.work))
        self._launch[pairs.work] = inside[pairs.call]
        self._start, self._back = columns.ts[self.calls], columns.end[self.calls]
        self._end = columns.end[self.work]
        self._took = columns.dur[self.work].tolist()
        self._order()
        actor = together(trace)
        self._training = np.isin(columns.thread[self.calls], actor)
        self._before, self._own = self._callers(columns.thread[self.calls])
        self._awaits(trace)
        self._find_earliest_returns()
        self._follows(trace)
        self.launched = self._launch
        """The call that started each piece of work, `NONE` where the trace does not show it."""
        self.begin = int(columns.ts.min()) if len(columns.ts) else 0
        host = columns.end[np.isin(columns.thread, actor) & ~trace.device()]
        self.host_end = int(host.max()) if len(host) else self.begin
        self.span: int = (
            max([self.host_end, *self._back.tolist(), *self._end.tolist()]) - self.begin
        )

    def _order(self) -> None:
        """Put all items in order; at one time work ends first, then calls return, others begin."""
        calls, work = len(self.calls), len(self.work)
        returns = np.where(self._back > self._start, 1, 3)
        phase = np.concatenate((np.full(calls, 2), returns, np.zeros(work, dtype=np.int64)))
        times = np.concatenate((self._start, self._back, self._end))
        order = np.lexsort((np.arange(len(times)), phase, times))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self._items = order.tolist()
        self._start_at, self._back_at = place[:calls], place[calls : 2 * calls]
        self._end_at = place[2 * calls :]

    def _callers(self, threads: Ints) -> tuple[list[int], list[int]]:
        """Return which call came back last before each call, and which of its own thread."""
        before, own = np.full(len(threads), NONE), np.full(len(threads), NONE)
        for thread in np.unique(threads).tolist():
            on = np.flatnonzero(threads == thread)
            fits = self._back_at[on[:-1]] < self._start_at[on[1:]]
            own[on[1:]] = np.where(fits, on[:-1], NONE)
        before[~self._training] = own[~self._training]
        actor = np.flatnonzero(self._training)
        by_return = actor[np.argsort(self._back_at[actor])]
        if len(actor):
            last = np.searchsorted(self._back_at[by_return], self._start_at[actor]) - 1
            before[actor] = np.where(last >= 0, by_return[np.maximum(last, 0)], NONE)
        self._last = int(by_return[-1]) if len(actor) else NONE
        return before.tolist(), own.tolist()

    def _awaits(self, trace: Trace) -> None:
        """Find out which work each call waits for, what the call takes by itself, and how long
        after the work it comes back."""
        names = trace.columns.name
        always = np.isin(names[self.calls], trace.named(_BLOCKS))
        maybe = np.isin(names[self.calls], trace.named(_MAY_BLOCK))
        took = self._back - self._start
        blocks = always | (maybe & (took > _LONG))
        reads = np.isin(names[self.work], trace.named(_READS)) & (self._launch >= 0)
        blocks[self._launch[reads]] = True
        started = np.where(self._launch >= 0, self._launch, len(self.calls)).tolist()
        last = (np.searchsorted(self._end, self._back, side="right") - 1).tolist()
        for at in np.flatnonzero(blocks).tolist():
            while last[at] >= 0 and started[last[at]] > at:
                last[at] -= 1
        awaited = np.where(blocks, np.array(last, dtype=np.int64), NONE)
        awaited = self._of_streams(trace, awaited)
        ended = self._end[np.maximum(awaited, 0)] if len(self._end) else self._back
        after = self._back - ended
        copies = np.isin(names[self.calls], trace.named(_COPIES))
        soon = always | copies | (after <= np.maximum(_OWN, took // 10))
        waited = (awaited >= 0) & (ended > self._start) & soon
        # Allocations and launches wait now and then: what did not is not taken to.
        sure = always | waited | copies
        awaited = np.where(sure, awaited, NONE)
        self.awaited: Ints = awaited
        """The work that each call waits for, or would where it came earlier; `NONE` for none."""
        self._alone = np.where(waited, np.minimum(np.maximum(_OWN, after), took), took)
        self._tail = np.where(waited, after, np.minimum(after, _RETURN)).tolist()
        self.blocking: Ints = np.flatnonzero(awaited >= 0)
        """Calls that wait for a device, or would where they came earlier."""
        self.waited: Ints = np.where(waited, took, 0)
        """How long each call took that waited for a device, in nanoseconds; else 0."""
        wide = blocks & np.isin(names[self.calls], trace.named(_ALL_STREAMS))
        self._also = self._other_streams(np.flatnonzero(wide), trace.columns.stream[self.work])

    def _find_earliest_returns(self) -> None:
        """Find out before which time a call cannot come back: of a wait for a batch the one at
        which the batch was there.

        What each call takes, the shortest too, is no waiting but work of the host.
        """
        took = self._back - self._start
        usual = int(took[self.loads].min()) if self.loads.any() else 0
        late = self.loads & (took > max(_UNPACKS, _WAITS * usual))
        self._alone = np.where(late, usual, self._alone)
        self._until = np.where(late, self._back, _NEVER).tolist()
        self.waited = np.where(late, took, self.waited)

    def _of_streams(self, trace: Trace, awaited: Ints) -> Ints:
        """Return what calls wait for, those that wait for one stream for work of it.

        The stream is the one that the profiler wrote beside the call, else that of the copy that
        was started just before; where a call visibly waited, that of what it waited for; else that
        in which the most work runs.
        """
        names, streams = trace.columns.name, trace.columns.stream[self.work]
        one = np.isin(names[self.calls], trace.named(_ONE_STREAM)) & (awaited >= 0)
        if not one.any():
            return awaited
        # The stream that each call waited for, by correlation, where the profiler wrote it.
        columns = trace.columns
        rows = np.flatnonzero(
            trace.of_cat("cuda_sync") & (columns.stream >= 0) & (columns.corr >= 0)
        )
        told = dict(zip(columns.corr[rows].tolist(), columns.stream[rows].tolist(), strict=True))
        copies = np.isin(names[self.calls], trace.named(_COPIES))
        stream_of = np.full(len(self.calls), NONE)
        known = self._launch >= 0
        stream_of[self._launch[known]] = streams[known]
        numbers, counts = np.unique(streams, return_counts=True)
        main = int(numbers[np.argmax(counts)])
        found: Ints = awaited.copy()
        for at in np.flatnonzero(one).tolist():
            last, before = int(awaited[at]), self._own[at]
            stream = told.get(int(trace.columns.corr[self.calls[at]]), NONE)
            if stream == NONE and before >= 0 and copies[before]:
                stream = int(stream_of[before])
            if stream == NONE:
                stream = int(streams[last]) if self._end[last] > self._start[at] else main
            while last >= 0 and (streams[last] != stream or self._launch[last] > at):
                last -= 1
            found[at] = last
        return found

    def _other_streams(self, wide: Ints, streams: Ints) -> dict[int, list[tuple[int, int]]]:
        """Return for calls that wait for all streams the last work of each, and how long after it
        they came back."""
        found: dict[int, list[tuple[int, int]]] = {at: [] for at in wide.tolist()}
        for stream in np.unique(streams).tolist() if len(wide) else ():
            on = np.flatnonzero((streams == stream) & (self._launch >= 0))
            last = np.searchsorted(np.maximum.accumulate(self._launch[on]), wide, side="right") - 1
            for at, place in zip(wide.tolist(), last.tolist(), strict=True):
                work = int(on[place]) if place >= 0 else NONE
                if work != NONE and self._end[work] <= self._back[at]:
                    after = int(self._back[at] - self._end[work])
                    found[at].append((work, min(after, _RETURN)))
        return found

    def _follows(self, trace: Trace) -> None:
        """Find out what each piece of work comes after, and how long after.

        What it came after is what ended last; from there its time is as it was. The others would
        have to be later before they matter, and then take what is usual in this trace.
        """
        columns, end = trace.columns, self._end
        start, streams = columns.ts[self.work], columns.stream[self.work]
        launch = self._launch.copy()
        if len(self.calls):
            known = np.maximum(launch, 0)
            launch[self._start_at[known] >= self._end_at] = NONE
        begun = np.where(launch >= 0, self._start[launch] if len(self.calls) else 0, _NEVER)
        before = np.full(len(end), NONE)
        for stream in np.unique(streams).tolist():
            on = np.flatnonzero(streams == stream)
            before[on[1:]] = on[:-1]
        freed = np.where(before >= 0, end[before] if len(end) else 0, _NEVER)
        idle = (launch >= 0) & (freed < begun)
        lag = _usual(start[idle] - begun[idle], _LAG)
        launched = (launch >= 0) & (begun + lag >= freed)
        pause = _usual((start - freed)[(before >= 0) & ~launched], _PAUSE)
        other = self._visibly(start, streams, np.maximum(begun + lag, freed))
        self._held = self._delays(trace, pause)
        # What it came after keeps its time, the others are held to what is usual.
        mine = np.where(launched & (other < 0), start - begun, np.minimum(start - begun, lag))
        queued = ~launched & (other < 0)
        behind = np.where(queued, start - freed, np.minimum(start - freed, pause))
        followed = np.where(other >= 0, start - end[other] if len(end) else 0, 0)
        alone = np.where((launch < 0) & (before < 0) & (other < 0), start, 0)
        self._after = (launch.tolist(), before.tolist(), other.tolist())
        self._since = (mine.tolist(), behind.tolist(), followed.tolist(), alone.tolist())

    def _delays(self, trace: Trace, pause: int) -> dict[int, list[tuple[int, int]]]:
        """Return for work that an event held back the work of other streams that it waited for, and
        how long after.

        A trace tells when a stream was made to wait, not which: it is taken to be that of the next
        launch, and to wait for all that was launched before, as far as that had ended.
        """
        calls = np.isin(trace.columns.name[self.calls], trace.named(_EVENTS))
        start, streams = trace.columns.ts[self.work], trace.columns.stream[self.work]
        known = np.flatnonzero(self._launch >= 0)
        by_launch = known[np.argsort(self._launch[known], kind="stable")]
        launched = self._launch[by_launch]
        found: dict[int, list[tuple[int, int]]] = {}
        for call in np.flatnonzero(calls).tolist():
            place = int(np.searchsorted(launched, call, side="right"))
            if place == len(by_launch):
                break
            work, seen = int(by_launch[place]), {int(streams[by_launch[place]])}
            for last in by_launch[max(0, place - _FAR) : place][::-1].tolist():
                if int(streams[last]) not in seen and last < work:
                    gap = int(start[work] - self._end[last])
                    found.setdefault(work, []).extend([(last, min(gap, pause))] if gap >= 0 else [])
                seen.add(int(streams[last]))
        return found

    def _visibly(self, start: Ints, streams: Ints, free: Ints) -> Ints:
        """Return the work of another stream that work visibly waited for, `NONE` where none."""
        other = np.full(len(start), NONE)
        latest = np.searchsorted(self._end, start, side="right") - 1
        for at in np.flatnonzero(start - free > _FOLLOWS).tolist():
            last = int(latest[at])
            while last >= 0 and start[at] - self._end[last] <= _FOLLOWS and other[at] == NONE:
                if streams[last] != streams[at] and last < at:
                    other[at] = last
                last -= 1
        return other

    def play(self, dropped: Dropped) -> int:
        """Return the nanoseconds from the first event to the last without what is dropped."""
        gap, alone, gap_end = self._host(dropped)
        calls = len(self.calls)
        awaited = self.awaited.tolist()
        waits, freed = frozenset(dropped.waits), frozenset(dropped.work)
        start, back, end = [0] * calls, [0] * calls, [0] * len(self.work)
        before, own, tail = self._before, self._own, self._tail
        launch, previous, other = self._after
        lag, pause, following, alone_at = self._since
        took, also, held, until = self._took, self._also, self._held, self._until
        for item in self._items:
            if item < calls:
                last = before[item]
                time = gap[item] + (back[last] if last >= 0 else 0)
                start[item] = max(time, back[own[item]]) if own[item] >= 0 else time
            elif item < 2 * calls:
                at = item - calls
                if at in waits:
                    back[at] = start[at]
                else:
                    on = awaited[at]
                    time = max(start[at] + alone[at], until[at])
                    back[at] = max(time, end[on] + tail[at]) if on >= 0 else time
                    for on, after in also.get(at, ()):
                        back[at] = max(back[at], end[on] + after)
            else:
                at = item - 2 * calls
                gone = at in freed
                time = alone_at[at]
                if launch[at] >= 0 and not gone:
                    time = start[launch[at]] + lag[at]
                if previous[at] >= 0:
                    time = max(time, end[previous[at]] + (0 if gone else pause[at]))
                if other[at] >= 0:
                    time = max(time, end[other[at]] + following[at])
                for on, after in held.get(at, ()):
                    time = max(time, end[on] + after)
                end[at] = time if gone else time + took[at]
        host: int = gap_end + (back[self._last] if self._last >= 0 else 0)
        return max([host, *back, *end]) - self.begin

    def _host(self, dropped: Dropped) -> tuple[list[int], list[int], int]:
        """Return the host's time before each call, in each call, and after the last one."""
        before = np.array(self._before, dtype=np.int64)
        since = np.zeros(len(before), dtype=np.int64)
        since[before >= 0] = self._back[before[before >= 0]]
        gap, alone = self._start - since, self._alone
        since_last = int(self._back[self._last]) if self._last >= 0 else 0
        gap_end = self.host_end - since_last
        if dropped.host is not None:
            spans = dropped.host
            gone = covered(spans, self._start) - covered(spans, since)
            gap = np.where(self._training, gap - gone, gap)
            inside = covered(spans, self._back) - covered(spans, self._start)
            idle = self._training & (self.waited == 0)
            alone = np.where(idle, np.maximum(0, alone - inside), alone)
            ends = covered(spans, np.array([since_last, self.host_end]))
            gap_end -= int(ends[1] - ends[0])
        return gap.tolist(), alone.tolist(), gap_end


def _usual(times: Ints, otherwise: int) -> int:
    """Return the median of times that are not negative."""
    times = times[times >= 0]
    return int(np.median(times)) if len(times) else otherwise


def _outermost(columns: Columns, rows: Ints) -> tuple[Ints, Ints]:
    """Return the calls that lie in no other one of their thread, by start, and for each of all
    calls the place of the one that holds it."""
    order = np.lexsort((-columns.end[rows], columns.ts[rows]))
    reached: dict[int, tuple[int, int]] = {}
    kept: list[int] = []
    holder = np.full(len(rows), NONE)
    ends, threads = columns.end[rows].tolist(), columns.thread[rows].tolist()
    starts = columns.ts[rows].tolist()
    for at in order.tolist():
        until, place = reached.get(threads[at], (-(2**62), NONE))
        if starts[at] < until and ends[at] <= until:
            holder[at] = place
            continue
        holder[at] = len(kept)
        reached[threads[at]] = (ends[at], len(kept))
        kept.append(int(rows[at]))
    return np.array(kept, dtype=np.int64), holder
