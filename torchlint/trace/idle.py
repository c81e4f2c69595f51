"""Why streams of a device were idle: the host came late, one kernel after the other, or else."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import NONE, Columns
from torchlint.trace.launches import joined

THRESHOLD = 30_000
"""Nanoseconds between kernels that launching one behind the other explains."""


@frozen
class Idle:
    """Nanoseconds that a stream was idle between its first work and its last."""

    host: int
    kernel: int
    other: int


def idle(calls: Columns, work: Columns) -> dict[int, Idle]:
    """Divide the idle time of each stream.

    A gap is the host's where the call that ended it began after the work before had ended; else
    it lies between kernels where it is shorter than `THRESHOLD`.

    Args:
        calls: what the host called.
        work: what devices did.
    """
    pairs = joined(calls, work)
    begun = np.full(len(work.ts), np.iinfo(np.int64).min)
    begun[pairs.work] = calls.ts[pairs.call]
    found = {}
    for stream in np.unique(work.stream[work.stream > NONE]).tolist():
        on = np.flatnonzero(work.stream == stream)
        on = on[np.argsort(work.ts[on], kind="stable")]
        before = work.end[on][:-1]
        gap = work.ts[on][1:] - before
        late = begun[on][1:] > before
        near = ~late & (gap < THRESHOLD)
        found[stream] = Idle(
            int(gap[late].sum()), int(gap[near].sum()), int(gap[~late & ~near].sum())
        )
    return found
