"""Which event of a thread ran inside of which."""

from __future__ import annotations

import numpy as np

from torchlint.trace.columns import NONE, Ints, Mask, Trace

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
