"""How a device spent its time: idle, computing, or with something else."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Columns, Ints
from torchlint.trace.intervals import length, overlap, union
from torchlint.trace.kinds import COMMUNICATION, COMPUTE, KINDS, OTHER


@frozen
class Temporal:
    """How the nanoseconds of `total` were spent.

    `rest` is communication and copies that no computation hides.
    """

    total: int
    idle: int
    compute: int
    rest: int


@frozen
class Together:
    """Nanoseconds in which exactly these kinds of work ran."""

    kinds: tuple[str, ...]
    time: int


def temporal(work: Columns, kind: Ints, span: int | None = None) -> Temporal | None:
    """Divide the time of a device; None where it did nothing.

    Args:
        work: what devices did.
        kind: its kinds.
        span: of the trace, all of which is divided; else it is the time from the start of the first
            work to the end of the last, as for Holistic Trace Analysis.
    """
    if not len(work.ts):
        return None
    total = int(work.end.max() - work.ts.min()) if span is None else span
    busy = length(union(work.ts, work.end))
    computing = kind == COMPUTE
    compute = length(union(work.ts[computing], work.end[computing]))
    return Temporal(total, total - busy, compute, busy - compute)


def by_kinds(work: Columns, kind: Ints) -> tuple[Together, ...]:
    """Return how long which kinds of work ran together."""
    times, steps = [], []
    for number in range(OTHER):
        starts, ends = union(work.ts[kind == number], work.end[kind == number])
        times += [starts, ends]
        steps += [np.full(len(starts), 1 << number), np.full(len(ends), -(1 << number))]
    moments = np.concatenate(times)
    if not len(moments):
        return ()
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    running = np.cumsum(np.concatenate(steps)[order])[:-1]
    spans = np.diff(moments)
    found = []
    for together in np.unique(running[(spans > 0) & (running > 0)]).tolist():
        names = tuple(name for at, name in enumerate(KINDS) if together >> at & 1)
        found.append(Together(names, int(spans[running == together].sum())))
    return tuple(found)


def hidden_communication(work: Columns, kind: Ints) -> float | None:
    """Return the share of the time of communication in which the device also computed; None where
    nothing was communicated."""
    spoken, computed = kind == COMMUNICATION, kind == COMPUTE
    talk = union(work.ts[spoken], work.end[spoken])
    if not length(talk):
        return None
    return overlap(talk, union(work.ts[computed], work.end[computed])) / length(talk)
