"""What a run of the program adds to its trace: the time of a step without the profiler, and what it
went into."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Iterator
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
_SAID = ("events", "span", "step", "waiting for data")
"""Rows of a trace of a CPU that those of its run stand for."""
_LOADING = "waiting for data"
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
            cost = f"{span(whole * time / parts.step)} ({share(time, parts.step)})"
            yield label, cost if name != _LOADING or _loads(of) else "no DataLoader seen"
            if name == REST:
                yield from _python(of, parts)
    if of.workers is not None:
        yield from loading.rows(of.workers)
    times = "" if of.slower is None else f", {of.slower:.2f} x as long"
    yield (
        "step, under the profiler",
        f"{span(parts.step)} ({pluralise(parts.steps, 'step')}{times}): figures are of these",
    )


def with_trace(of: Steps | None, found: Iterable[Row]) -> list[Row]:
    """Return the rows of a run, where there was one, and those of its trace that say more: without
    a GPU the trace's own say what the run's said already."""
    if of is None:
        return list(found)
    said = _SAID if of.division is not None and of.division.device is None else ()
    return [*rows(of), *(row for row in found if row[0] not in said)]


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


def _loads(of: Steps) -> bool:
    """Say whether a DataLoader was seen."""
    timed = of.pace is not None and any(of.pace.loading)
    parts = of.division
    return timed or of.workers is not None or (parts is not None and parts.host[_LOADING] > 0)


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


def again(of: Steps | None, option: str) -> str | None:
    """Return the command that profiles the program once more with another option; None where
    nothing was run."""
    if of is None:
        return None
    return shlex.join(["torchlint", "profile", *of.paths, option, *of.options, "--", *of.typed])


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
