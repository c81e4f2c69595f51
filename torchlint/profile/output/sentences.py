"""What a report says in one sentence."""

from __future__ import annotations

from torchlint.profile.bounds import Whole
from torchlint.profile.live import Steps
from torchlint.profile.output.table import share, span
from torchlint.profile.report import Rank
from torchlint.profile.waits import Waits


def headline(
    rank: Rank, waits: Waits | None, run: Steps | None = None, whole: Whole | None = None
) -> str:
    """Return what a reader should know first: how long a step takes, without the profiler where the
    program was run, what the device does in it, and what all waits for it cost."""
    of, parts = rank.figures, []
    if run is not None and run.pace is not None:
        parts.append(f"A step takes {span(run.pace.step)}")
    elif of.steps.median is not None:
        parts.append(f"A step takes {span(of.steps.median)}")
    else:
        parts.append(f"The trace spans {span(of.span)}")
    spent = of.temporal
    if spent is None:
        parts.append("no GPU worked")
    else:
        parts.append(
            f"the GPU computes for {share(spent.compute, spent.total)} of the time and is idle for "
            f"{share(spent.idle, spent.total)}"
        )
    if of.loading and of.span and of.loading >= of.span / 100:
        parts.append(f"{share(of.loading, of.span)} is waiting for data")
    first = f"{'; '.join(parts)}."
    if waits is None or not waits.each:
        return first
    joint = share((whole or Whole(waits.span)).share(waits.joint), 1)
    return f"{first} Without all waits for the device the run would be at most {joint} shorter."
