"""Memory that grows from step to step, and the lines whose allocations stay alive.

Told only where it is sure: the lowest level of each step is above that of the step before, in each
of several steps, and most of the growth is allocations that are known, one by one, to be alive when
the recording ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.lines import Lines
from torchlint.profile.sites import Site
from torchlint.trace.columns import NONE, Ints, Mask, Memory, Trace
from torchlint.trace.window import step_marks

LEAST_STEPS = 4
"""Steps from which on growth is told."""
LEAST_BYTES = 1 << 14
"""Bytes in each step below which it is not: a number that is kept of each step is no leak."""
_EXPLAINED = 0.5
"""Share of the growth that is known to stay alive."""
_KINDS = {0: "CPU", 1: "GPU"}
"""Kinds of devices, as PyTorch numbers them."""


@frozen
class Kept:
    """What a place allocates in each step that stays alive: bytes, the median of the steps."""

    site: Site
    nbytes: int


@frozen
class Growth:
    """Memory of a kind of device that grows.

    Args:
        device: "CPU" or "GPU".
        nbytes: in each step, the median.
        steps: of how many steps, all of which grow.
        kept: the places whose allocations stay alive, the most first.
    """

    device: str
    nbytes: int
    steps: int
    kept: tuple[Kept, ...]


def growth(trace: Trace, lines: Lines) -> tuple[Growth, ...] | None:
    """Return what grows, by kind of device; None where changes of memory were not recorded.

    Args:
        trace: with changes of memory, up to the end of the recording.
        lines: the places of the trace.
    """
    if trace.memory is None:
        return None
    steps = step_marks(trace)
    return tuple(
        found
        for kind, device in _KINDS.items()
        if (found := _growth(_of_kind(trace.memory, kind), device, steps, lines)) is not None
    )


def _growth(
    memory: Memory, device: str, steps: list[tuple[int, int, int]], lines: Lines
) -> Growth | None:
    if len(steps) < LEAST_STEPS or not len(memory.ts):
        return None
    more = np.diff(_lowest(memory, steps))
    nbytes = int(np.median(more))
    if nbytes < LEAST_BYTES or (more <= 0).any():
        return None
    kept = tuple(_growing_places(memory, steps, lines))
    if sum(each.nbytes for each in kept) < _EXPLAINED * nbytes:
        return None
    return Growth(device, nbytes, len(steps), kept)


def _lowest(memory: Memory, steps: list[tuple[int, int, int]]) -> Ints:
    """Return the lowest level of each step, in bytes above that at the beginning."""
    level = np.concatenate(([0], np.cumsum(memory.nbytes)))
    found = []
    for _, start, end in steps:
        first, last = np.searchsorted(memory.ts, (start, end)).tolist()
        found.append(int(level[first : last + 1].min()))
    return np.array(found, dtype=np.int64)


def _growing_places(
    memory: Memory, steps: list[tuple[int, int, int]], lines: Lines
) -> Iterator[Kept]:
    """Yield the places that allocate in each step but the last what stays alive."""
    # Which changes are allocations that nothing gave back: nothing happens at their address
    # afterwards.
    order = np.lexsort((np.arange(len(memory.ts)), memory.address))
    address = memory.address[order]
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = address[1:] != address[:-1]
    found = np.zeros(len(order), dtype=np.bool_)
    found[order] = last
    chosen: Mask = found & (memory.nbytes > 0) & (memory.address != NONE)
    places = lines.at(memory.thread[chosen], memory.ts[chosen])
    starts = np.array([start for _, start, _ in steps], dtype=np.int64)
    step = np.searchsorted(starts, memory.ts[chosen], side="right") - 1
    before_last = (step >= 0) & (step < len(steps) - 1) & (places >= 0)
    bytes_of = np.zeros((len(lines.each), len(steps) - 1), dtype=np.int64)
    np.add.at(
        bytes_of, (places[before_last], step[before_last]), memory.nbytes[chosen][before_last]
    )
    always = np.flatnonzero((bytes_of > 0).all(axis=1))
    medians = np.median(bytes_of[always], axis=1)
    for at in np.argsort(-medians, kind="stable").tolist():
        yield Kept(lines.each[int(always[at])].site, int(medians[at]))


def _of_kind(memory: Memory, kind: int) -> Memory:
    """Return the changes of one kind of device, in order of time."""
    rows = np.flatnonzero(memory.device == kind)
    rows = rows[np.argsort(memory.ts[rows], kind="stable")]
    return Memory(*(getattr(memory, name)[rows] for name in memory.__match_args__))
