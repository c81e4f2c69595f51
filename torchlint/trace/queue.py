"""How much work waited in each stream of a device."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Columns, Ints
from torchlint.trace.launches import joined

FULL = 1024
"""Launches that a stream of CUDA takes before the next one waits."""


@frozen
class Queue:
    """Lengths of a stream's queue at its changes, and the nanoseconds in which it was full."""

    changes: int
    quartiles: tuple[float, float, float]
    longest: int
    full_ns: int


def lengths(calls: Columns, work: Columns) -> dict[int, tuple[Ints, Ints]]:
    """Return (time, length) of each stream's queue after each change of it.

    It grows when a call begins, and shrinks when its work begins; where both are at one time, it
    grows first.
    """
    pairs = joined(calls, work)
    streams = work.stream[pairs.work]
    found = {}
    for stream in np.unique(streams).tolist():
        on = streams == stream
        begun, ran = calls.ts[pairs.call[on]], work.ts[pairs.work[on]]
        times = np.concatenate((begun, ran))
        change = np.repeat(np.array([1, -1]), len(begun))
        order = np.lexsort((-change, times))
        found[stream] = times[order], np.cumsum(change[order])
    return found


def queue(calls: Columns, work: Columns) -> dict[int, Queue]:
    """Measure the queue of each stream.

    Args:
        calls: calls that put work into a stream.
        work: what devices did.
    """
    found = {}
    for stream, (times, length) in lengths(calls, work).items():
        low, middle, high = np.percentile(length, [25, 50, 75]).tolist()
        full = np.diff(times)[length[:-1] >= FULL].sum()
        found[stream] = Queue(len(length), (low, middle, high), int(length.max()), int(full))
    return found
