"""All figures of one rank's trace."""

from __future__ import annotations

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.bandwidth import Bandwidth, bandwidth
from torchlint.trace.columns import Columns, Ints, Mask, Trace
from torchlint.trace.idle import THRESHOLD, Idle, idle
from torchlint.trace.intervals import length, union
from torchlint.trace.kernels import Kernel, kernels
from torchlint.trace.kinds import kinds
from torchlint.trace.launches import (
    LONG_DELAY,
    SLOW_CALL,
    LaunchFigures,
    launches,
    starting_calls,
)
from torchlint.trace.loader import of_loaders
from torchlint.trace.marks import recorded
from torchlint.trace.queue import Queue, queue
from torchlint.trace.steps import Steps, steps
from torchlint.trace.temporal import Temporal, Together, by_kinds, hidden_communication, temporal
from torchlint.trace.window import window


@frozen
class Limits:
    """What counts as a gap between kernels, a slow call and a long delay, in nanoseconds; and
    whether all steps count, the last one too."""

    idle_threshold: int = THRESHOLD
    slow_call: int = SLOW_CALL
    long_delay: int = LONG_DELAY
    all_steps: bool = False


@frozen
class Figures:
    """What a trace says of one rank; None and empty where it has no device, times in nanoseconds.

    `span` is from the first event of the window to the last; `batches` is how often a DataLoader
    was waited for, and `loading` how long, None where the trace shows no DataLoader.
    """

    events: int
    counted: int
    span: int
    temporal: Temporal | None
    by_kinds: tuple[Together, ...]
    hidden_communication: float | None
    idle: dict[int, Idle]
    launches: LaunchFigures | None
    queues: dict[int, Queue]
    bandwidth: dict[str, Bandwidth]
    kernels: tuple[Kernel, ...]
    steps: Steps
    batches: int
    loading: int | None


@frozen
class Counted:
    """What counts of a trace: which of its events, the work of devices with its kinds, and the
    calls of the host."""

    inside: Mask
    work: Columns
    kind: Ints
    calls: Columns
    starting: Columns


def counted(trace: Trace, all_steps: bool = False) -> Counted:
    """Return what counts of a trace: without the last step, unless all are wanted, or torchlint
    recorded the trace, which waits for the work of the last one."""
    whole = all_steps or recorded(trace)
    inside = np.ones(len(trace.columns.ts), dtype=np.bool_) if whole else window(trace)
    work = trace.columns.where(trace.device() & inside)
    return Counted(
        inside,
        work,
        kinds(trace)[work.name],
        trace.columns.where(trace.calls() & inside),
        trace.columns.where(starting_calls(trace) & inside),
    )


def figures(trace: Trace, limits: Limits | None = None, part: Counted | None = None) -> Figures:
    """Count everything.

    Args:
        trace: one rank's.
        limits: those of Holistic Trace Analysis where not given.
        part: what counts of the trace, where that is known.
    """
    limits, part = limits or Limits(), part or counted(trace)
    work, kind = part.work, part.kind
    device = bool(len(work.ts))
    events = trace.columns.where(part.inside)
    loading = trace.columns.where(of_loaders(trace) & part.inside)
    batches = len(loading.ts)
    return Figures(
        len(trace.columns.ts),
        len(events.ts),
        int(events.end.max() - events.ts.min()) if len(events.ts) else 0,
        temporal(work, kind),
        by_kinds(work, kind),
        hidden_communication(work, kind),
        idle(part.calls, work, limits.idle_threshold),
        launches(part.starting, work, limits.slow_call, limits.long_delay) if device else None,
        queue(part.starting, work),
        bandwidth(trace, work, kind),
        tuple(kernels(trace, work, kind)),
        steps(trace, trace.columns.where(trace.device())),
        batches,
        length(union(loading.ts, loading.end)) if batches else None,
    )
