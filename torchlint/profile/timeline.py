"""What host and device did in one step, as bars side by side that a page can draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.report import Rank
from torchlint.trace.columns import OPERATOR, Columns, Ints, Trace
from torchlint.trace.figures import Counted, counted
from torchlint.trace.kinds import KINDS, kinds
from torchlint.trace.launches import starting_calls
from torchlint.trace.loader import of_loaders
from torchlint.trace.marks import statements
from torchlint.trace.queue import lengths

MOST = 2_000
"""Bars of a timeline: more cannot be told apart."""
_WIDTH = 1_600
"""Pixels that a page may give it; what lies closer is drawn as one."""
_NARROW, _GROUP = 2, 4
"""Pixels below which neighbouring bars become one, and those after which the next one begins."""
_THREADS, _STREAMS = 6, 8
OPERATORS, LAUNCHES, WAITS, DATA = "operators", "launches", "waits", "data"
FINDINGS = "findings"
Pinned = Sequence[tuple[str, Sequence[tuple[int, int]]]]
"""What is to be shown where it ran: what it is called, and its (start, duration) on the clock of
the trace."""


@frozen
class Bar:
    """Something that ran, or several things too short to be told apart; nanoseconds from the start
    of the timeline. They ran for `busy` in all; `name` is that of the longest of `count`."""

    start: int
    time: int
    busy: int
    kind: str
    name: str
    count: int


@frozen
class Track:
    """What one thread of the host or one stream of a device did."""

    name: str
    bars: tuple[Bar, ...]


@frozen
class Level:
    """The length of a stream's queue: the most in each of equal parts of the timeline."""

    name: str
    most: tuple[int, ...]


@frozen
class Timeline:
    """A step, the one that took the median time, or all where no step is marked.

    Args:
        step: its number, None where no step is marked.
        begin: when it began, on the clock of the trace.
        time: how long it took; both in nanoseconds.
        tracks: what is pinned first where it ran, then threads, then streams.
        queues: one for each stream that calls put work into.
    """

    step: int | None
    begin: int
    time: int
    tracks: tuple[Track, ...]
    queues: tuple[Level, ...]


def timeline(trace: Trace, rank: Rank, waiting: Ints, pinned: Pinned = ()) -> Timeline:
    """Draw up the median step.

    Args:
        trace: one rank's.
        rank: what was counted of it.
        waiting: rows of the trace that are waits for the device.
        pinned: findings, to be shown where their lines ran.
    """
    step, begin, end = _chosen(trace, rank)
    part = counted(trace)
    for width in (_WIDTH, _WIDTH // 2, _WIDTH // 4, _WIDTH // 8, _WIDTH // 16):
        drawn = _Drawn(trace, begin, max(end - begin, 1), width)
        tracks = [*_pins(drawn, pinned), *_threads(drawn, waiting), *_streams(drawn)]
        if sum(len(track.bars) for track in tracks) <= MOST:
            break
    return Timeline(step, begin, end - begin, tuple(tracks), tuple(_queues(drawn, part)))


def _chosen(trace: Trace, rank: Rank) -> tuple[int | None, int, int]:
    """Return number, start and end of the step whose time is the median."""
    steps = rank.figures.steps.each
    if not steps:
        columns = trace.columns
        if not len(columns.ts):
            return None, 0, 0
        return None, int(columns.ts.min()), int(columns.end.max())
    middle = sorted(steps, key=lambda step: step.time)[(len(steps) - 1) // 2]
    return middle.number, middle.start, middle.end


class _Drawn:
    """The part of a trace that is drawn, at so many pixels."""

    def __init__(self, trace: Trace, begin: int, time: int, width: int) -> None:
        self.trace, self.begin, self.time, self.width = trace, begin, time, width
        columns = trace.columns
        # The names of a trace, those of marked statements as file and line.
        places = {name: f"{of.file}:{of.line}" for name, of in statements(trace).items()}
        self.names = [places.get(name, name) for name in trace.names]
        self.seen = (columns.end > begin) & (columns.ts < begin + time)

    def bars(self, rows: Ints, kind: str) -> Iterator[Bar]:
        """Yield the bars of these rows of the trace; what is narrow and close becomes one."""
        part = self.trace.columns.where(rows)
        names = [self.names[name] for name in part.name.tolist()]
        return self.spans(part.ts, part.end, names, kind)

    def spans(self, starts: Ints, ends: Ints, names: Sequence[str], kind: str) -> Iterator[Bar]:
        """Yield the bars of spans on the clock of the trace, as `bars` does."""
        start = np.clip(starts - self.begin, 0, self.time)
        end = np.clip(ends - self.begin, 0, self.time)
        order = np.argsort(start, kind="stable")
        pixel = self.time / self.width
        group: list[tuple[int, int, str]] = []
        for at in order.tolist():
            bar = int(start[at]), int(end[at]), names[at]
            wide = bar[1] - bar[0] >= _NARROW * pixel
            far = group and bar[0] - group[-1][1] > pixel
            if group and (wide or far or bar[0] - group[0][0] > _GROUP * pixel):
                yield self._bar_of(group, kind)
                group = []
            if wide:
                yield self._bar_of([bar], kind)
            else:
                group.append(bar)
        if group:
            yield self._bar_of(group, kind)

    def _bar_of(self, group: Sequence[tuple[int, int, str]], kind: str) -> Bar:
        first, last = group[0][0], max(end for _, end, _ in group)
        longest = max(group, key=lambda bar: bar[1] - bar[0])
        busy = min(sum(end - start for start, end, _ in group), last - first)
        return Bar(first, last - first, busy, kind, longest[2], len(group))


def _pins(drawn: _Drawn, pinned: Pinned) -> Iterator[Track]:
    """Yield one track with what is pinned, where something is in this step."""
    starts, ends, names = [], [], []
    for name, slices in pinned:
        for start, time in slices:
            if start + time > drawn.begin and start < drawn.begin + drawn.time:
                starts.append(start)
                ends.append(start + time)
                names.append(name)
    if names:
        spans = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
        yield Track("findings", tuple(drawn.spans(*spans, names, FINDINGS)))


def _threads(drawn: _Drawn, waiting: Ints) -> Iterator[Track]:
    """Yield the threads that did most, with operators below, then launches, waits and data."""
    trace, columns = drawn.trace, drawn.trace.columns
    waits = np.zeros(len(columns.ts), dtype=bool)
    waits[waiting] = True
    layers = {
        OPERATORS: trace.of_cat(OPERATOR) & drawn.seen & ~of_loaders(trace),
        LAUNCHES: starting_calls(trace) & drawn.seen & ~waits,
        WAITS: waits & drawn.seen,
        DATA: of_loaders(trace) & drawn.seen,
    }
    shown = np.zeros(len(columns.ts), dtype=bool)
    for mask in layers.values():
        shown |= mask
    busy = {
        thread: int(columns.dur[shown & (columns.thread == thread)].sum())
        for thread in np.unique(columns.thread[shown]).tolist()
    }
    for thread in sorted(busy, key=lambda thread: -busy[thread])[:_THREADS]:
        bars: list[Bar] = []
        for kind, mask in layers.items():
            rows = np.flatnonzero(mask & (columns.thread == thread))
            bars += drawn.bars(_outermost(columns, rows), kind)
        named = trace.thread_names.get(thread, "")
        yield Track(named if named else f"thread {trace.threads[thread][1]}", tuple(bars))


def _outermost(columns: Columns, rows: Ints) -> Ints:
    """Return those rows that lie in no other one."""
    rows = rows[np.lexsort((-columns.end[rows], columns.ts[rows]))]
    if not len(rows):
        return rows
    reached = np.maximum.accumulate(columns.end[rows])
    return rows[np.concatenate(([True], columns.ts[rows][1:] >= reached[:-1]))]


def _streams(drawn: _Drawn) -> Iterator[Track]:
    """Yield the streams that worked most."""
    trace, columns = drawn.trace, drawn.trace.columns
    work = np.flatnonzero(trace.device() & drawn.seen)
    kind = kinds(trace)[columns.name[work]]
    busy = {
        stream: int(columns.dur[work][columns.stream[work] == stream].sum())
        for stream in np.unique(columns.stream[work]).tolist()
    }
    for stream in sorted(sorted(busy, key=lambda stream: -busy[stream])[:_STREAMS]):
        on = columns.stream[work] == stream
        bars: list[Bar] = []
        for number, name in enumerate(KINDS):
            bars += drawn.bars(work[on & (kind == number)], name)
        yield Track(f"GPU stream {stream}", tuple(bars))


def _queues(drawn: _Drawn, part: Counted) -> Iterator[Level]:
    """Yield the longest queue in each part of the timeline, for streams that had one."""
    edges = drawn.begin + np.arange(drawn.width // 4 + 1) * drawn.time // (drawn.width // 4)
    for stream, (times, length) in lengths(part.starting, part.work).items():
        at = np.searchsorted(times, edges, side="right") - 1
        most = []
        for low, high in zip(at[:-1].tolist(), at[1:].tolist(), strict=True):
            inside = length[max(low, 0) : high + 1]
            most.append(int(inside.max()) if len(inside) and high >= 0 else 0)
        if any(most):
            yield Level(f"queue of stream {stream}", tuple(most))
