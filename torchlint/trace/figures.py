"""All figures of one rank's trace."""

from __future__ import annotations

from torchlint.base.records import frozen
from torchlint.trace.bandwidth import Bandwidth, bandwidth
from torchlint.trace.columns import Columns, Ints, Trace
from torchlint.trace.idle import Idle, idle
from torchlint.trace.intervals import length, union
from torchlint.trace.kernels import Kernel, kernels
from torchlint.trace.kinds import kinds
from torchlint.trace.launches import LaunchFigures, launches, starting_calls
from torchlint.trace.loader import of_loaders
from torchlint.trace.queue import Queue, queue
from torchlint.trace.steps import Steps, steps
from torchlint.trace.temporal import Temporal, Together, by_kinds, hidden_communication, temporal


@frozen
class Figures:
    """What a trace says of one rank; None and empty where it has no device, times in nanoseconds.

    `events` are those of the trace, `counted` those of its window, of which all else is; `span` is
    from the first of them to the last; `batches` is how often a DataLoader was waited for, and
    `loading` how long, None where the trace shows no DataLoader.
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
    """The work of devices with its kinds, and the calls of the host."""

    work: Columns
    kind: Ints
    calls: Columns
    starting: Columns


def counted(trace: Trace) -> Counted:
    """Return what counts of a trace."""
    work = trace.columns.where(trace.device())
    return Counted(
        work,
        kinds(trace)[work.name],
        trace.columns.where(trace.calls()),
        trace.columns.where(starting_calls(trace)),
    )


def figures(trace: Trace, part: Counted | None = None, events: int | None = None) -> Figures:
    """Count everything.

    Args:
        trace: one rank's, its window.
        part: what counts of the trace, where that is known.
        events: how many the trace has, where it has more than its window.
    """
    part = part or counted(trace)
    work, kind, columns = part.work, part.kind, trace.columns
    device = bool(len(work.ts))
    loading = columns.where(of_loaders(trace))
    batches = len(loading.ts)
    span = int(columns.end.max() - columns.ts.min()) if len(columns.ts) else 0
    return Figures(
        len(columns.ts) if events is None else events,
        len(columns.ts),
        span,
        temporal(work, kind, span),
        by_kinds(work, kind),
        hidden_communication(work, kind),
        idle(part.calls, work),
        launches(part.starting, work) if device else None,
        queue(part.starting, work),
        bandwidth(trace, work, kind),
        tuple(kernels(trace, work, kind)),
        steps(trace, work),
        batches,
        length(union(loading.ts, loading.end)) if batches else None,
    )
