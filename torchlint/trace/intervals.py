"""Sets of times as two arrays, starts and ends, sorted and apart."""

from __future__ import annotations

import numpy as np

from torchlint.trace.columns import Ints, Mask

Spans = tuple[Ints, Ints]


def union(starts: Ints, ends: Ints) -> Spans:
    """Return the times that at least one of the spans covers."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    first = np.concatenate(([True], starts[1:] > reached[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], reached[last]


def length(spans: Spans) -> int:
    """Return how much time spans that lie apart cover."""
    return int((spans[1] - spans[0]).sum())


def covered(spans: Spans, times: Ints) -> Ints:
    """Return how much of the time before each of some times spans that lie apart cover."""
    starts, ends = spans
    if not len(starts):
        return np.zeros(len(times), dtype=np.int64)
    lengths = np.concatenate(([0], np.cumsum(ends - starts)))
    at = np.searchsorted(starts, times, side="right")
    inside = np.maximum(0, ends[np.maximum(at - 1, 0)] - times) * (at > 0)
    covered_: Ints = lengths[at] - inside
    return covered_


def within(spans: Spans, times: Ints) -> Mask:
    """Return which of some times lie in spans that lie apart."""
    starts, ends = spans
    if not len(starts):
        return np.zeros(len(times), dtype=np.bool_)
    at = np.searchsorted(starts, times, side="right") - 1
    found: Mask = (at >= 0) & (times < ends[np.maximum(at, 0)])
    return found


def overlap(one: Spans, other: Spans) -> int:
    """Return how much time two sets of spans, each apart, have in common."""
    return int((covered(other, one[1]) - covered(other, one[0])).sum())


def summed(of: Ints, values: Ints, count: int) -> list[int]:
    """Return the sums of values by number; those of number `NONE` are left out."""
    found = np.zeros(count, dtype=np.int64)
    np.add.at(found, of[of >= 0], values[of >= 0])
    sums: list[int] = found.tolist()
    return sums


def covered_by(of: Ints, starts: Ints, ends: Ints, count: int) -> list[int]:
    """Return for each number how much time its spans cover."""
    known = of >= 0
    if not known.any():
        return [0] * count
    of, begin = of[known], int(starts[known].min())
    # All numbers behind each other on one axis, so that one union serves them.
    width = int(ends[known].max()) - begin + 1
    shift = of * width - begin
    found = union(starts[known] + shift, ends[known] + shift)
    return summed(found[0] // width, found[1] - found[0], count)
