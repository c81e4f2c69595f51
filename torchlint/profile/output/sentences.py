"""What a report says in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.profile.account import Account
from torchlint.profile.bounds import NEGLIGIBLE, Whole
from torchlint.profile.change import LEAST
from torchlint.profile.live import Steps
from torchlint.profile.output.content import Content
from torchlint.profile.output.table import kind_words, measure, share, span
from torchlint.profile.report import Rank
from torchlint.profile.waits import Waits
from torchlint.report.kit.words import DASH, digits
from torchlint.report.kit.words import times as times_of
from torchlint.trace.division import LOADING, Division

_NEVER = 0.95
"""Share of a step from which on a device that works is what it waits for."""
_MOST = 0.5
"""Share of what a device is idle from which on waiting for data is what the step waits for."""
_SHORT = 2_000_000
"""Nanoseconds of a step below which a profiler can be most of what it sees."""
_MOSTLY_PROFILER = 3.0
"""How many times as long a short step takes under the profiler where its shares are told no
more."""
_CROWDED = 0.02
"""Share of the steps from which on it is said that the training thread had no core."""
_SAID = 0.01
"""Share of a step below which the host's work of a kind is not said."""


def headline(
    rank: Rank, waits: Waits | None, run: Steps | None = None, whole: Whole | None = None
) -> str:
    """Return what a reader should know first: how long a step takes, without the profiler where the
    program was run, how long the device works for it, what it waits for, and what all waits for the
    device cost."""
    account = None if run is None else run.account
    slower = 0.0 if run is None else run.slower or 0.0
    first = (
        f"{'; '.join(_trace(rank) if account is None else _what_it_waits_for(account, slower))}."
    )
    if run is not None and run.division is not None:
        first += _aside(run.division)
    if waits is None or not waits.each:
        return first
    whole = whole or Whole(waits.span)
    joint = whole.share(waits.joint)
    if joint < NEGLIGIBLE:
        return first
    return (
        f"{first} Without all waits for the device {measure(whole)} would be at most "
        f"{share(joint, 1)} shorter."
    )


def compared(content: Content) -> Iterator[str]:
    """Yield what became of a step since the older trace, where there is one."""
    if content.before is None:
        return
    found, older = content.change, content.before.path
    if found is None:
        yield f"Against {older}: no verdict, as a trace has fewer than {LEAST} marked steps."
        return
    ends = ", ".join(DASH if end is None else digits(end) for end in found.bounds)
    times = f"{span(found.before_ns)} before, {span(found.now_ns)} now, under the profiler"
    said = f"a step is {times_of(found.ratio)} as fast [{ends}] ({times}): {found.verdict}"
    if any((queued or 0) >= _CROWDED for queued in found.queued):
        waited = (share(queued, 1) for queued in found.queued)
        said += "; the training thread had no core for {} of the steps before, {} now".format(
            *waited
        )
    if found.busy_ns is not None:
        before, now = map(span, found.busy_ns)
        said += f"; the GPU works for {before} of it before, {now} now"
    yield f"Against {older}: {said}. Each is one run; torchlint verify --against runs both anew."


def _aside(of: Division) -> str:
    """Return where the time went, where most of it went into steps of another kind."""
    time, kinds = sum(part.time for part in of.odd), of.kinds
    if time <= of.time:
        return ""
    most = max(kinds, key=lambda kind: sum(part.time for part in kinds[kind]))
    return (
        f" That is without {len(kinds[most])} of {len(of.each)} steps {kind_words(most)}, which "
        "took most of the time."
    )


def _what_it_waits_for(of: Account, slower: float) -> Iterator[str]:
    if of.device is None or of.busy is None:
        yield f"A step takes {span(of.step)}, without a GPU"
        if of.step < _SHORT and slower >= _MOSTLY_PROFILER:
            times = f"{slower:.0f} times as long under the profiler"
            yield f"that is too short for shares of it to mean something ({times})"
            return
        parts = sorted(of.host.items(), key=lambda part: -part[1])
        told = [f"{name} {_percent(time, of)}" for name, time in parts if time >= _SAID * of.step]
        yield f"it goes into {', '.join(told)}"
        return
    yield f"A step takes {span(of.step)}"
    if of.busy >= of.step:
        yield "the GPU is never idle"
    else:
        yield f"the GPU works for {_percent(of.busy, of)} of it"
    idle = of.step - of.busy
    if of.busy >= _NEVER * of.step:
        yield "the GPU is what it waits for"
    elif of.host[LOADING] >= _MOST * idle:
        yield f"data is what it waits for, {_percent(of.host[LOADING], of)}"
    else:
        yield "the host is what it waits for"


def _percent(time: float, of: Account) -> str:
    return f"{100 * time / of.step:.0f} %"


def _trace(rank: Rank) -> Iterator[str]:
    of = rank.figures
    if of.steps.median is not None:
        yield f"A step takes {span(of.steps.median)}"
        whole = span(of.span)
    else:
        yield f"The trace spans {span(of.span)}"
        whole = "it"
    spent = of.temporal
    if spent is None:
        yield "no GPU worked"
    else:
        yield (
            f"the GPU computes for {share(spent.compute, spent.total)} of {whole} and is idle for "
            f"{share(spent.idle, spent.total)}"
        )
    if of.loading and of.span and of.loading >= of.span / 100:
        yield f"{share(of.loading, of.span)} of {whole} is waiting for data"
