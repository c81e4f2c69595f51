"""What a run of the program adds to its trace: the time of a step without the profiler, and what it
went into."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

from torchlint.base.finding import Safety
from torchlint.profile.join import FindingCost
from torchlint.profile.lines import HOT
from torchlint.profile.live import Steps
from torchlint.profile.output import loading
from torchlint.profile.output.table import Row, share, span
from torchlint.profile.running import Pace
from torchlint.report.kit.words import pluralise
from torchlint.trace.division import REST, Division

_BOTTLENECK = 0.3
"""Share of the steps from which on the host's own work is told by function."""
_MOST = 3
"""Functions that are named."""


def rows(of: Steps) -> Iterator[Row]:
    """Yield the rows of a run, before those of its trace.

    Shares are of the profiled steps, times of those without the profiler: what it adds is not the
    program's.
    """
    pace, parts = of.pace, of.division
    if pace is not None:
        yield "step, without the profiler", f"{span(pace.step)} ({_spread(pace)})"
    if parts is None:
        return
    whole = pace.step if pace is not None else parts.step
    for side in (parts.host, parts.device or {}):
        for name, time in side.items():
            label = f"  the GPU {name}" if side is parts.device else f"  {name}"
            yield label, f"{span(whole * time / parts.step)} ({share(time, parts.step)})"
            if name == REST:
                yield from _python(of, parts)
    if of.workers is not None:
        yield from loading.rows(of.workers)
    times = "" if of.slower is None else f", {of.slower:.2f} x as long"
    yield (
        "step, under the profiler",
        f"{span(parts.step)} ({pluralise(parts.steps, 'step')}{times}): figures are of these",
    )


def _python(of: Steps, parts: Division) -> Iterator[Row]:
    """Yield the functions whose Python takes most, where Python is what the steps wait for."""
    if parts.host[REST] < _BOTTLENECK * parts.step:
        return
    whole = parts.step * parts.steps
    most = [each for each in of.functions[:_MOST] if each.python_ns >= HOT * whole]
    if most:
        yield (
            "    most of it Python in",
            ", ".join(
                f"{each.function} of {each.file} ({share(each.python_ns, whole)})" for each in most
            ),
        )


def _spread(pace: Pace) -> str:
    """Return how far single steps lie apart; of one alone nothing is known."""
    if len(pace.each) == 1:
        return "of one step alone"
    return f"{span(min(pace.each))} to {span(max(pace.each))} in {len(pace.each)} steps"


def proof(cost: FindingCost, of: Steps | None) -> str | None:
    """Return the command that runs the program with a finding's fix and without; None where nothing
    was run, or torchlint cannot mend it."""
    if of is None or cost.finding.fix is None or not cost.fixable:
        return None
    unsafe = ["--unsafe-fixes"] if cost.finding.fix.safety is Safety.UNSAFE else []
    words = ["torchlint", "verify", *of.paths, "--select", cost.finding.code, *unsafe]
    return shlex.join([*words, *of.options, "--", *of.typed])


def document(of: Steps) -> dict[str, Any]:
    """Return the same as plain values."""
    pace, parts = of.pace, of.division
    return {
        "boundary": of.boundary,
        "workers": loading.document(of.workers),
        "unprofiled": None
        if pace is None
        else {
            "step_ns": pace.step,
            "each_ns": list(pace.each),
            "loading_ns": list(pace.loading),
        },
        "profiled": None
        if parts is None
        else {
            "steps": parts.steps,
            "step_ns": parts.step,
            "host_ns": dict(parts.host),
            "device_ns": None if parts.device is None else dict(parts.device),
        },
        "functions": [dataclasses.asdict(each) for each in of.functions],
    }
