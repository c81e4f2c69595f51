"""How fast memory was copied and set, by direction."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Columns, Floats, Ints, Trace
from torchlint.trace.kinds import MEMORY, copy_of


@frozen
class Bandwidth:
    """Copies of one direction.

    `mean` is bytes by time in GB/s, None where sizes are not known; `peak` the highest sum of what
    ran at one time, as the profiler measured each.
    """

    count: int
    nbytes: int
    time_ns: int
    mean: float | None
    peak: float | None


def series(work: Columns) -> Floats:
    """Return the bandwidth in GB/s after each start and end of these copies, in their order.

    A copy that took no time counts as one of a microsecond: without that, its end would come before
    its start.
    """
    known = work.where(~np.isnan(work.bw))
    ends = known.ts + np.where(known.dur == 0, 1000, known.dur)
    times = np.concatenate((known.ts, ends))
    change = np.concatenate((known.bw, -known.bw))
    return np.cumsum(change[np.argsort(times, kind="stable")])


def bandwidth(trace: Trace, work: Columns, kind: Ints) -> dict[str, Bandwidth]:
    """Measure the copies of each direction.

    Args:
        trace: holds the names.
        work: what devices did.
        kind: its kinds.
    """
    copies = work.where(kind == MEMORY)
    found: dict[str, list[int]] = {}
    for name in np.unique(copies.name).tolist():
        found.setdefault(copy_of(trace.names[name]), []).append(name)
    return {
        direction: _measured(copies.where(np.isin(copies.name, places)))
        for direction, places in sorted(found.items())
    }


def _measured(copies: Columns) -> Bandwidth:
    sized = copies.nbytes >= 0
    nbytes, time = int(copies.nbytes[sized].sum()), int(copies.dur[sized].sum())
    speeds = series(copies)
    return Bandwidth(
        len(copies.ts),
        nbytes,
        int(copies.dur.sum()),
        nbytes / time if sized.any() and time else None,
        float(speeds.max()) if len(speeds) else None,
    )
