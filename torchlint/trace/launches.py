"""Calls of the host that start something on a device, joined with what they started."""

from __future__ import annotations

import re

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Columns, Ints, Mask, Trace

_STARTS = re.compile(
    r"cu(?:da)?(?:Graph)?Launch\w*|cu(?:da)?Mem(?:cpy|set)\w*|"
    r"hip(?:Ext)?(?:Module|Graph)?Launch\w*|hipMem(?:cpy|set)\w*"
)
"""Names of calls that put work into a stream."""
SLOW_CALL = 50_000
LONG_DELAY = 100_000
"""Nanoseconds of a call, and from its end to the start of its work, that are usual."""


@frozen
class Launched:
    """Work of a device with the call that started it: places in the two columns, side by side."""

    call: Ints
    work: Ints


@frozen
class LaunchFigures:
    """Counts of launches, and sums in nanoseconds.

    `short` counts kernels that took less time than their launch; `slow_calls` and `long_delays`
    what takes longer than is usual.
    """

    count: int
    short: int
    slow_calls: int
    long_delays: int
    calls_ns: int
    work_ns: int
    delay_ns: int


def starting_calls(trace: Trace) -> Mask:
    """Return which events are calls that put work into a stream."""
    return trace.calls() & np.isin(trace.columns.name, trace.named(_STARTS))


def joined(calls: Columns, work: Columns) -> Launched:
    """Join calls with what they started, by correlation; of two calls with one correlation the
    first counts."""
    known = np.flatnonzero(calls.corr >= 0)
    corr, first = np.unique(calls.corr[known], return_index=True)
    at = np.searchsorted(corr, work.corr)
    at = np.minimum(at, max(len(corr) - 1, 0))
    found = (
        np.flatnonzero((corr[at] == work.corr) & (work.corr >= 0))
        if len(corr)
        else np.zeros(0, np.int64)
    )
    return Launched(known[first][at[found]], found)


def launches(calls: Columns, work: Columns) -> LaunchFigures:
    """Count launches.

    Args:
        calls: calls that put work into a stream.
        work: what devices did.
    """
    pairs = joined(calls, work)
    call, took = calls.dur[pairs.call], work.dur[pairs.work]
    delay = np.maximum(0, work.ts[pairs.work] - calls.end[pairs.call])
    return LaunchFigures(
        len(call),
        int(((call <= SLOW_CALL) & (took < call)).sum()),
        int((call > SLOW_CALL).sum()),
        int((delay > LONG_DELAY).sum()),
        int(call.sum()),
        int(took.sum()),
        int(delay.sum()),
    )
