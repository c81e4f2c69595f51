"""What each place of the program cost in a trace: on the host, on the device, in waiting and in
bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from torchlint.base.finding import Finding
from torchlint.base.records import frozen
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.sites import Site
from torchlint.trace.columns import COPY_CATS, NONE, PYTHON, Ints, Mask, Memory
from torchlint.trace.intervals import Spans, covered_by, summed, union, within
from torchlint.trace.marks import of_marks, recorded
from torchlint.trace.nest import exclusive, innermost
from torchlint.trace.threads import training

HOT = 0.03
"""Share of the run from which on a line is hot."""


@frozen
class LineCost:
    """What a place cost; times in nanoseconds, None where it was not measured.

    The parts overlap, and are never added up: while the host waits for the line the device may work
    for it.

    Args:
        site: the place.
        calls: how often the program called from there, of a trace with marks how often a statement
            ran; 0 where only backward ran for it.
        host_ns: time of the training thread in what the place calls, functions of the program left
            out, which are places themselves.
        backward_ns: time of autograd in the backward of what the place calls.
        gpu_ns: time in which a device worked for the place, forward or backward.
        wait_ns: time in which its calls waited for a device.
        copied_bytes: what was copied to, from or on a device.
        alloc_bytes: memory that was allocated, of devices where there is one.
        inclusive_ns: time of the training thread from where the line begins to where it ends, with
            the functions of the program that it calls; a time in which it ran within itself counts
            once. None of what is no line, and in traces with neither marks nor Python frames.
    """

    site: Site
    calls: int
    host_ns: int
    backward_ns: int
    gpu_ns: int | None
    wait_ns: int | None
    copied_bytes: int | None
    alloc_bytes: int | None
    inclusive_ns: int | None = None

    @property
    def most_ns(self) -> int:
        """Return the greatest of its times."""
        return max(self.host_ns, self.backward_ns, self.gpu_ns or 0, self.wait_ns or 0)


class Lines:
    """The costs of all places, the most costly first, and what of a trace belongs to each.

    Numbers of calls and of work are those of the replay.
    """

    def __init__(self, places: Places, replay: Replay) -> None:
        self._places = places
        self._columns = places.trace.columns
        self._replay = replay
        of_site, sites = _merged(places)
        self._of_row: Ints = np.where(places.at >= 0, of_site[np.maximum(places.at, 0)], NONE)
        self._made_at = _made_at(places, of_site)
        launched = replay.launched
        self._of_call: Ints = self._of_row[replay.calls]
        known = np.maximum(launched, 0)
        self._of_work: Ints = (
            np.where(launched >= 0, self._of_call[known], NONE)
            if len(self._of_call)
            else np.full(len(launched), NONE)
        )
        self._rows: Ints = np.flatnonzero(places.at >= 0)
        self._main: Mask = self._columns.thread == training(places.trace)
        self._marks: Mask = of_marks(places.trace)
        self._count = len(sites)
        self._lines = np.array([site.has_line for site in sites], dtype=np.bool_)
        self._holders = self._holding()
        trace, columns, count = self._places.trace, self._columns, len(sites)
        own = exclusive(columns, self._places.around)
        backward = self._places.backward
        main = self._main
        forward = self._of_row[main & ~backward], own[main & ~backward]
        called = self._made_at[self._counted & ~backward]
        calls = summed(called, np.ones(len(called), np.int64), count)
        host = summed(*forward, count)
        behind = summed(self._of_row[backward], own[backward], count)
        work = self._replay.work
        device = bool(len(work))
        copies = trace.of_cat(*COPY_CATS)[work] & (columns.nbytes[work] >= 0)
        gpu = covered_by(self._of_work, columns.ts[work], columns.end[work], count)
        wait = summed(self._of_call, self._replay.waited, count)
        copied = summed(self._of_work[copies], columns.nbytes[work[copies]], count)
        allocated = None if trace.memory is None else self._allocated(trace.memory, count)
        inclusive = covered_by(self._holders, columns.ts, columns.end, count)
        framed = recorded(trace) or bool(trace.of_cat(PYTHON).any())
        costs = [
            LineCost(
                site,
                calls[at],
                host[at],
                behind[at],
                gpu[at] if device else None,
                wait[at] if device else None,
                copied[at] if device else None,
                None if allocated is None else allocated[at],
                inclusive[at] if framed and site.has_line else None,
            )
            for at, site in enumerate(sites)
        ]
        ran = {*np.unique(self._of_row).tolist(), *np.unique(self._made_at).tolist()} - {NONE}
        order = sorted(ran, key=lambda at: (-costs[at].most_ns, at))
        self._numbers = order
        self.each: tuple[LineCost, ...] = tuple(costs[at] for at in order)

    def rows(self, place: int) -> Ints:
        """Return the rows of the host's events that belong to a place, by its number in `each`."""
        return np.flatnonzero(self._of_row == self._numbers[place])

    def called(self, place: int) -> Ints:
        """Return the rows of what a place calls itself, functions of the program among them: what
        runs inside of these rows is all that the place takes, by its number in `each`."""
        return np.flatnonzero(self._made_at == self._numbers[place])

    def calls(self, place: int) -> Ints:
        """Return the numbers of a place's calls of drivers."""
        return np.flatnonzero(self._of_call == self._numbers[place])

    def work(self, place: int) -> Ints:
        """Return the numbers of the work that a place's calls started."""
        return np.flatnonzero(self._of_work == self._numbers[place])

    def at(self, threads: Ints, times: Ints) -> Ints:
        """Return the number in `each` of the place that ran on a thread at each time, `NONE` where
        none did."""
        rows = innermost(self._columns, self._places.around, self._rows, threads, times)
        of = np.where(rows >= 0, self._of_row[np.maximum(rows, 0)], NONE)
        place = np.full(self._count + 1, NONE)  # one more, for `NONE` at its end
        place[self._numbers] = np.arange(len(self._numbers))
        return place[of]

    def host(self, place: int) -> Spans:
        """Return when the host worked for a place, on any thread: its events without those in them
        that belong to others."""
        columns, around = self._columns, self._places.around
        mine = self._of_row == self._numbers[place]
        above = np.maximum(around, 0)
        begun = np.flatnonzero(mine & ~((around >= 0) & mine[above]))
        others = np.flatnonzero(~mine & (around >= 0) & mine[above])
        # At each moment: how many of its outermost events are open, less those of others in them.
        times = np.concatenate(
            (columns.ts[begun], columns.end[begun], columns.ts[others], columns.end[others])
        )
        change = np.repeat(
            np.array([1, -1, -1, 1]), [len(begun), len(begun), len(others), len(others)]
        )
        order = np.argsort(times, kind="stable")
        open_ = np.cumsum(change[order])[:-1]
        starts, ends = times[order][:-1][open_ > 0], times[order][1:][open_ > 0]
        return union(starts, ends)

    def held(self, place: int) -> Spans:
        """Return when a line ran with all that it called, on the training thread, by its number in
        `each`."""
        rows = np.flatnonzero(self._holders == self._numbers[place])
        return union(self._columns.ts[rows], self._columns.end[rows])

    def own_in(self, rows: Ints) -> Ints:
        """Return what each place, by its number in `each`, takes itself of the time of some events
        of the training thread; places that these events belong to are left out."""
        columns, places = self._columns, self._places
        spans = union(columns.ts[rows], columns.end[rows])
        inside = within(spans, columns.ts) & self._main & (places.at >= 0)
        inside &= ~np.isin(self._of_row, self._of_row[rows])
        own = exclusive(columns, places.around)
        found = summed(self._of_row[inside], own[inside], self._count)
        return np.array(found, dtype=np.int64)[self._numbers]

    @property
    def _counted(self) -> Mask:
        """Which events are a call of a place: of lines whose statements are marked these marks
        alone, whatever they call."""
        if not recorded(self._places.trace):
            return np.ones(len(self._made_at), dtype=np.bool_)
        found: Mask = self._marks | ~self._of_lines(self._made_at)
        return found

    def _of_lines(self, of: Ints) -> Mask:
        """Return which of some numbers of places are those of lines."""
        if not len(self._lines):
            return np.zeros(len(of), dtype=np.bool_)
        found: Mask = (of >= 0) & self._lines[np.maximum(of, 0)]
        return found

    def _holding(self) -> Ints:
        """Return the number of the line that each event of the training thread is, with all that
        it called: marks are those of statements, else what a line calls in a Python frame; `NONE`
        for all others."""
        places = self._places
        if recorded(places.trace):
            of = np.where(self._marks, self._of_row, NONE)
        elif places.trace.of_cat(PYTHON).any():
            of = np.where(places.backward, NONE, self._made_at)
        else:
            return np.full(len(self._of_row), NONE)
        return np.where(self._main & self._of_lines(of), of, NONE)

    def _allocated(self, memory: Memory, count: int) -> list[int]:
        """Return the bytes that each place allocated: on devices, or on the host where there is no
        other."""
        chosen = memory.nbytes > 0
        if (memory.device > 0).any():
            chosen &= memory.device > 0
        rows = innermost(
            self._columns, self._places.around, self._rows, memory.thread[chosen], memory.ts[chosen]
        )
        of = np.where(rows >= 0, self._of_row[np.maximum(rows, 0)], NONE)
        return summed(of, memory.nbytes[chosen], count)


def extent(finding: Finding) -> tuple[int, int]:
    """Return the first and the last line of what a finding is about: of a loop, its body too."""
    return finding.statement, max(finding.statement_end, finding.end.row)


def about(finding: Finding, site: Site) -> bool:
    """Say whether a place is a line of what a finding is about."""
    first, last = extent(finding)
    known = finding.cell is None and site.has_line and site.file == finding.filename
    return known and first <= site.line <= last


def unruled(
    lines: Iterable[LineCost], findings: Iterable[Finding], span: int
) -> Iterator[LineCost]:
    """Yield the places that take more than 3 % of a run, by the host, backward, a device or
    waiting, and that no finding is about.

    Args:
        lines: all places.
        findings: those whose bound says what the place can save.
        span: the time of the run in nanoseconds.
    """
    known = {
        (one.filename, line)
        for one in findings
        if one.cell is None
        for line in range(extent(one)[0], extent(one)[1] + 1)
    }
    for cost in lines:
        found = cost.site.has_line and (cost.site.file, cost.site.line) in known
        if cost.most_ns > HOT * span and not found:
            yield cost


def _merged(places: Places) -> tuple[Ints, list[Site]]:
    """Return the number of each site's line, and the lines: sites of one line are one, as certain
    as the one with most events."""
    events = summed(places.at, np.ones(len(places.at), np.int64), len(places.sites))
    numbers: dict[tuple[str, int, str], int] = {}
    of = np.zeros(len(places.sites), dtype=np.int64)
    most: list[int] = []
    for at, site in enumerate(places.sites):
        key = site.file, site.line, "" if site.has_line else f"in {site.function}"
        number = of[at] = numbers.setdefault(key, len(most))
        if number == len(most):
            most.append(at)
        elif events[at] > events[most[number]]:
            most[number] = at
    return of, [places.sites[at] for at in most]


def _made_at(places: Places, of_site: Ints) -> Ints:
    """Return the number of the line that called what each event is, `NONE` where that runs inside
    of another call or belongs to a function as a whole."""
    heads = places.heads
    found = places.made_at.copy()
    loose = heads[found[heads] == NONE]
    found[loose] = places.at[loose]
    return np.where(found >= 0, of_site[np.maximum(found, 0)], NONE)
