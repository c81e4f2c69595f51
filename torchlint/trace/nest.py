"""Which event of a thread ran inside of which."""

from __future__ import annotations

import numpy as np

from torchlint.trace.columns import NONE, Columns, Ints, Mask, Trace

_CLOCKS = 1_000
"""Nanoseconds by which an event may end after the one around it."""


def parents(trace: Trace, host: Mask) -> Ints:
    """Return for each event of a trace the row of the one around it in its thread, `NONE` where
    there is none.

    What begins inside of an event and ends after it lies not in it: an annotation begins in the
    call that opens it, and ends in the call that closes it. Clocks of two recorders may differ a
    little.

    Args:
        trace: holds the events.
        host: which of them are looked at; the others have no parent.
    """
    columns = trace.columns
    rows = np.flatnonzero(host)
    order = rows[np.lexsort((rows, -columns.dur[rows], columns.ts[rows], columns.thread[rows]))]
    found = np.full(len(columns.ts), NONE)
    open_: list[tuple[int, int]] = []
    last = NONE
    around = [NONE] * len(order)
    starts, ends = columns.ts[order].tolist(), columns.end[order].tolist()
    threads = columns.thread[order].tolist()
    for at, row in enumerate(order.tolist()):
        if threads[at] != last:
            open_, last = [], threads[at]
        while open_ and open_[-1][0] <= starts[at]:
            open_.pop()
        around[at] = next(
            (other for until, other in reversed(open_) if until + _CLOCKS >= ends[at]), NONE
        )
        open_.append((ends[at], row))
    found[order] = around
    return found


def nearest(around: Ints, chosen: Mask) -> Ints:
    """Return for each event the innermost one of a mask around it, or itself; `NONE` where there is
    none.

    Args:
        around: the row of the event around each one.
        chosen: the mask.
    """
    rows = np.arange(len(around))
    up = np.append(np.where(chosen, rows, around), NONE)
    up[up == NONE] = len(around)
    while True:
        further = up[up]
        if np.array_equal(further, up):
            break
        up = further
    found: Ints = np.where(up == len(around), NONE, up)[:-1]
    return found


def exclusive(columns: Columns, around: Ints) -> Ints:
    """Return how much of each event's time no event in it explains, in nanoseconds.

    Args:
        columns: the events.
        around: the row of the event around each one.
    """
    left = columns.dur.copy()
    inner = np.flatnonzero(around >= 0)
    np.subtract.at(left, around[inner], columns.dur[inner])
    found: Ints = np.maximum(left, 0)
    return found


def innermost(columns: Columns, around: Ints, rows: Ints, threads: Ints, times: Ints) -> Ints:
    """Return the innermost event of a thread at each time, `NONE` where none ran.

    Args:
        columns: the events.
        around: the row of the event around each one.
        rows: those that are looked at; what is around them too.
        threads: the threads.
        times: as many times.
    """
    rows = rows[np.lexsort((rows, -columns.dur[rows], columns.ts[rows], columns.thread[rows]))]
    found = np.full(len(times), NONE)
    for thread in np.unique(threads).tolist():
        on = rows[columns.thread[rows] == thread]
        which = np.flatnonzero(threads == thread)
        if not len(on):
            continue
        last = np.searchsorted(columns.ts[on], times[which], side="right") - 1
        row = np.where(last >= 0, on[np.maximum(last, 0)], NONE)
        while True:
            past = (row >= 0) & (columns.end[np.maximum(row, 0)] < times[which])
            if not past.any():
                break
            row = np.where(past, around[np.maximum(row, 0)], row)
        found[which] = row
    return found
