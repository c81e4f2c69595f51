"""What a run of the program adds to its trace: the time of a step without the profiler, and what it
went into."""

from __future__ import annotations

import dataclasses
import shlex
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torchlint.base.finding import Safety
from torchlint.profile.account import Account
from torchlint.profile.join import FindingCost
from torchlint.profile.lines import HOT
from torchlint.profile.live import Steps
from torchlint.profile.output import loading
from torchlint.profile.output.table import Row, kind_words, share, span
from torchlint.profile.running import Aside, Pace
from torchlint.report.kit.words import pluralise
from torchlint.trace.division import LOADING, REST, Division, Part
from torchlint.trace.typical import by_kind

_BOTTLENECK = 0.3
"""Share of the steps from which on the host's own work is told by function."""
_SAID = ("events", "span", "step", "waiting for data")
"""Rows of a trace of a CPU that those of its run stand for."""
_MOST = 3
"""Functions that are named."""


def rows(of: Steps) -> Iterator[Row]:
    """Yield the rows of a run, before those of its trace.

    What the profiler adds is not the program's: times and shares are of a step without it.
    """
    pace, parts, account = of.pace, of.division, of.account
    if pace is not None:
        yield "step, without the profiler", f"{span(pace.step)} ({_spread(pace)})"
        whole = pace.total + sum(one.time for one in of.aside)
        yield from _aside(by_kind(of.aside), len(of.aside) + len(pace.each), whole)
    if parts is None or account is None:
        return
    for name, time in account.host.items():
        cost = f"{span(time)} ({share(time, account.step)})"
        yield f"  {name}", cost if name != LOADING or _loads(of) else "no DataLoader seen"
        if name == REST:
            yield from _python(of, parts, account)
    for name, time in (account.device or {}).items():
        yield f"  the GPU {name}", f"{span(time)} ({share(time, account.step)})"
    if account.busy is not None and account.busy > account.step:
        yield "  the GPU is never idle", f"it has work for {span(account.busy)} in each step"
    if of.workers is not None:
        yield from loading.rows(of.workers)
    times = "" if of.slower is None else f", {of.slower:.2f} x as long"
    yield (
        "step, under the profiler",
        f"{span(parts.step)} ({pluralise(parts.steps, 'step')}{times}): figures are of these",
    )
    yield from _aside(parts.kinds, len(parts.each), sum(part.time for part in parts.each))


def _aside(kinds: Mapping[str, Sequence[Aside | Part]], count: int, whole: float) -> Iterator[Row]:
    """Yield the steps of another kind than the others, one row for each kind.

    Args:
        kinds: these steps.
        count: how many steps there are.
        whole: the time of all of them.
    """
    for kind, steps in kinds.items():
        times = [step.time for step in steps]
        each = f"{span(statistics.fmean(times))}{' each' if len(times) > 1 else ''}"
        yield (
            "  not counted",
            f"{len(times)} of {count} steps {kind_words(kind)}: {each}, "
            f"{share(sum(times), whole)} of the time",
        )


def with_trace(of: Steps | None, found: Iterable[Row]) -> list[Row]:
    """Return the rows of a run, where there was one, and those of its trace that say more: without
    a GPU the trace's own say what the run's said already."""
    if of is None:
        return list(found)
    parts = of.division
    said = _SAID if parts is not None and parts.device is None else ()
    if parts is not None and parts.odd:
        said = (*said, "slowest step")
    return [*rows(of), *(row for row in found if row[0] not in said)]


def _python(of: Steps, parts: Division, account: Account) -> Iterator[Row]:
    """Yield the functions whose Python takes most, where Python is what the steps wait for."""
    if account.host[REST] < _BOTTLENECK * account.step:
        return
    whole = parts.time
    most = [each for each in of.functions[:_MOST] if each.python_ns >= HOT * whole]
    if most:
        yield (
            "    most of it Python in",
            ", ".join(
                f"{each.function} of {each.file} ({share(each.python_ns, whole)})" for each in most
            )
            + " of a step under the profiler",
        )


def _loads(of: Steps) -> bool:
    """Say whether a DataLoader was seen."""
    timed = of.pace is not None and any(of.pace.loading)
    parts = of.division
    return timed or of.workers is not None or (parts is not None and parts.host[LOADING] > 0)


def _spread(pace: Pace) -> str:
    """Return how far single steps lie apart; of one alone nothing is known. Operators may use
    several threads here, where verify gives them one."""
    threads = f", {pluralise(pace.threads, 'thread')}" if pace.threads > 1 else ""
    if len(pace.each) == 1:
        return f"of one step alone{threads}"
    between = f"{span(min(pace.each))} to {span(max(pace.each))}"
    return f"{between} in {len(pace.each)} steps{threads}"


def proof(cost: FindingCost, of: Steps | None) -> str | None:
    """Return the command that runs the program with a finding's fix and without; None where nothing
    was run, or torchlint cannot fix it."""
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
    pace, parts, account = of.pace, of.division, of.account
    return {
        "boundary": of.boundary,
        "step": None
        if account is None
        else {
            "step_ns": account.step,
            "host_ns": account.host,
            "device_ns": account.device,
            "busy_ns": account.busy,
        },
        "slower": of.slower,
        "event_ns": of.event,
        "other_kinds": [
            *({"profiled": False, "step_ns": one.time, "why": one.why} for one in of.aside),
            *(
                {"profiled": True, "step_ns": part.time, "why": part.why}
                for part in (parts.odd if parts is not None else ())
            ),
        ],
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
            "host_ns": parts.host,
            "device_ns": parts.device,
        },
        "functions": [dataclasses.asdict(each) for each in of.functions],
    }
