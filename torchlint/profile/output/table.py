"""The figures of a rank as rows of words, which a report shows alone or beside another's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchlint.profile.bounds import Whole
from torchlint.profile.report import Rank
from torchlint.report.kit.words import DASH, digits, pluralise, size
from torchlint.trace.figures import Figures
from torchlint.trace.typical import DATA, EVALUATION, FORWARD, PASS, SAVE

Row = tuple[str, str]
"""What is measured, and its value."""
_KINDS = {
    EVALUATION: "that hold an evaluation",
    FORWARD: "that run a model without gradients, as an evaluation does",
    DATA: "that take batches of another DataLoader",
    SAVE: "that hold a save",
    PASS: "that begin a new pass over the data",
    "": "unlike the others",
}
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def span(nanoseconds: float | None) -> str:
    """Return a time with its unit: ``12.3 ms``."""
    if nanoseconds is None:
        return DASH
    if not nanoseconds:
        return "0"
    for factor, unit in _UNITS:
        if abs(nanoseconds) >= factor * 0.9995:
            return f"{digits(nanoseconds / factor)} {unit}"
    return f"{nanoseconds:.0f} ns"


def share(part: float | None, whole: float) -> str:
    """Return a part of a whole in percent."""
    return DASH if part is None or not whole else f"{100 * part / whole:.1f} %"


def part_of(time: int | None, whole: int) -> str:
    """Return a time, and which part of a whole it is: ``12.3 ms (4.5 %)``."""
    return f"{span(time)} ({share(time, whole)})" if time else span(time)


def part(time: int | None, whole: Whole) -> str:
    """Return a time, and which part of a whole it is: of a run, that of one step."""
    if not time:
        return span(time)
    known = whole.share(time)
    return f"{span(known * whole.told)} ({share(known, 1)})"


def measure(whole: Whole) -> str:
    """Return what parts are of: ``31.6 ms``, or ``a step of 6.3 ms``."""
    return f"{'' if whole.steps is None else 'a step of '}{span(whole.told)}"


def recorded(whole: Whole) -> str:
    """Return the same of what was recorded, which a run's steps took under the profiler."""
    return measure(whole) + ("" if whole.steps is None else " under the profiler")


def kind_words(kind: str) -> str:
    """Return what tells steps of another kind from the others: ``that hold an evaluation``."""
    return _KINDS[kind]


def beside(now: Iterable[Row], before: Iterable[Row]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of two reports beside each other; what one of them lacks is a dash."""
    new, old = dict(now), dict(before)
    for name in {**new, **old}:
        yield name, new.get(name, DASH), old.get(name, DASH)


def rows(rank: Rank, top: int) -> Iterator[Row]:
    """Yield what a report shows of a rank.

    Args:
        rank: the rank.
        top: how many kernels are shown.
    """
    of = rank.figures
    yield "events", f"{of.counted:,}"
    yield "span", span(of.span)
    yield from _device(of)
    found = of.steps
    if found.median is not None:
        varying = share(found.variation, 1)
        spread = "" if found.variation is None else f", varying by {varying} of their mean"
        yield "step", f"{span(found.median)} ({pluralise(len(found.each), 'step')}{spread})"
    if found.why:
        slowest = max(found.each, key=lambda step: step.time)
        yield "slowest step", f"#{slowest.number}, {span(slowest.time)}: {found.why}"
    if of.loading is not None:
        yield "waiting for data", f"{part_of(of.loading, of.span)} for {of.batches:,} batches"
    for stream, gaps in of.idle.items():
        if gaps.host or gaps.kernel or gaps.other:
            yield (
                f"stream {stream} idle",
                f"host late {span(gaps.host)}, between kernels {span(gaps.kernel)}, "
                f"else {span(gaps.other)}",
            )
    counted = of.launches
    if counted is not None:
        yield (
            "launches",
            f"{counted.count:,}; kernel shorter than its launch {counted.short:,}, slow calls "
            f"{counted.slow_calls:,}, long delays {counted.long_delays:,}",
        )
    for stream, queue in of.queues.items():
        full = f", full for {span(queue.full_ns)}" if queue.full_ns else ""
        yield (
            f"queue of stream {stream}",
            f"median {queue.quartiles[1]:g}, longest {queue.longest:,}{full}",
        )
    for direction, copies in of.bandwidth.items():
        speed = "" if copies.mean is None else f", {digits(copies.mean)} GB/s"
        yield direction, f"{copies.count:,} x, {size(copies.nbytes)}, {span(copies.time_ns)}{speed}"
    for kernel in of.kernels[:top]:
        yield kernel.name, f"{span(kernel.total)}, {kernel.count:,} x"


def _device(of: Figures) -> Iterator[Row]:
    spent = of.temporal
    if spent is None:
        yield "GPU", DASH
        return
    yield "  the GPU computing", part_of(spent.compute, spent.total)
    yield "  the GPU with other work alone", part_of(spent.rest, spent.total)
    yield "  the GPU idle", part_of(spent.idle, spent.total)
    if of.hidden_communication is not None:
        yield "communication hidden", f"{100 * of.hidden_communication:.1f} % of it"
    for each in sorted(of.by_kinds, key=lambda each: -each.time):
        yield f"  {' and '.join(each.kinds)}", span(each.time)
