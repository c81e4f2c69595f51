"""Kernels by name: how often they ran, and how long."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Columns, Ints, Trace
from torchlint.trace.kinds import KINDS


@frozen
class Kernel:
    """What ran under one name; times in nanoseconds."""

    name: str
    kind: str
    count: int
    total: int
    least: int
    most: int


def kernels(trace: Trace, work: Columns, kind: Ints) -> list[Kernel]:
    """Return what devices did by name, the longest first.

    Args:
        trace: holds the names.
        work: what devices did.
        kind: its kinds.
    """
    if not len(work.ts):
        return []
    order = np.argsort(work.name, kind="stable")
    names, first, counts = np.unique(work.name[order], return_index=True, return_counts=True)
    took = work.dur[order]
    rows = zip(
        names.tolist(),
        kind[order][first].tolist(),
        counts.tolist(),
        np.add.reduceat(took, first).tolist(),
        np.minimum.reduceat(took, first).tolist(),
        np.maximum.reduceat(took, first).tolist(),
        strict=True,
    )
    found = [Kernel(trace.names[name], KINDS[of], *rest) for name, of, *rest in rows]
    return sorted(found, key=lambda kernel: (-kernel.total, kernel.name))
