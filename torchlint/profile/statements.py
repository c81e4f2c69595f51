"""Where the time goes by statement, each with all that it calls: `optimizer.step()` has what its
functions take, in whatever files they stand."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.lines import LineCost, Lines
from torchlint.profile.places import Places
from torchlint.trace.intervals import length, overlap, union
from torchlint.trace.loader import of_loaders

HEAVY, ALL = 0.1, 0.95
"""Shares of what was recorded from which on a statement is told, and from which on it is as good as
all of it, which says nothing."""
_SAME = 0.03
"""Two statements take the same where one takes no more than so much more than the other in it."""
_MOST = 8
"""Statements that are told."""


@frozen
class Statement:
    """A statement that takes much with all that it calls.

    Args:
        cost: of its line.
        callers: statements that call it and take the same, the outermost first: they have no row of
            their own.
    """

    cost: LineCost
    callers: tuple[LineCost, ...] = ()


def statements(lines: Lines, whole: int) -> tuple[Statement, ...]:
    """Return the statements that take a tenth of a run or more with all that they call, the most
    costly first; not those that hold nearly all of it.

    Args:
        lines: what places cost.
        whole: nanoseconds of the run.
    """
    heavy = [
        (at, cost.inclusive_ns)
        for at, cost in enumerate(lines.each)
        if cost.inclusive_ns is not None and HEAVY * whole <= cost.inclusive_ns < ALL * whole
    ]
    heavy.sort(key=lambda one: -one[1])
    spans = {at: lines.held(at) for at, _ in heavy}
    inner: dict[int, int] = {}
    for place, (at, took) in enumerate(heavy):
        for other, its in heavy[place + 1 :]:
            same = its >= (1 - _SAME) * took
            if same and overlap(spans[at], spans[other]) >= (1 - _SAME) * length(spans[other]):
                inner[at] = other  # the last one that fits: the innermost
    found: dict[int, list[int]] = {at: [] for at, _ in heavy if at not in inner}
    for at in inner:
        found[_end(inner, at)].append(at)
    return tuple(
        Statement(lines.each[at], tuple(lines.each[caller] for caller in callers))
        for at, callers in list(found.items())[:_MOST]
    )


def _end(inner: dict[int, int], at: int) -> int:
    while at in inner:
        at = inner[at]
    return at


@frozen
class Loading:
    """A line that runs where the program waits for a batch, as a share of that time."""

    cost: LineCost
    share: float


def loading(lines: Lines, places: Places) -> tuple[Loading, ...]:
    """Return the lines that run in the waits for batches, as they do with `num_workers=0`, each
    without the functions of the program that it calls; the most costly first."""
    columns = places.trace.columns
    rows = np.flatnonzero(of_loaders(places.trace))
    rows = rows[places.looked_at(rows)]
    whole = length(union(columns.ts[rows], columns.end[rows]))
    if not whole:
        return ()
    own = lines.own_in(rows)
    order = np.argsort(-own, kind="stable").tolist()
    return tuple(
        Loading(lines.each[at], float(own[at]) / whole)
        for at in order
        if own[at] and lines.each[at].site.has_line
    )
