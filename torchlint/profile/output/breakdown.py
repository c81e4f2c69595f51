"""Where the time goes by module and by operator, as tables that each form of the report draws in
its own way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchlint.base.records import frozen
from torchlint.profile.limits import Operators
from torchlint.profile.lines import HOT
from torchlint.profile.modules import ModuleCost, Modules
from torchlint.profile.output.content import Content
from torchlint.profile.output.table import part, recorded, share, span
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import DASH, clipped, digits, visible

_LONGEST = 72
"""Characters of a module's name that are shown: its end, where it is longer."""


@frozen
class Breakdown:
    """A table: the last cell of a row is what it is about."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def breakdowns(content: Content) -> Iterator[Breakdown]:
    """Yield the tables of which something is known."""
    if content.modules is not None:
        yield from _modules(content, content.modules)
    if content.operators is not None and content.operators.each:
        yield _operators(content, content.operators)


def section(content: Content, color: bool) -> Iterator[str]:
    """Yield the tables as text."""
    for table in breakdowns(content):
        yield ""
        yield paint(visible(table.title), BOLD, color)
        yield from aligned([table.head, *table.rows])


def _modules(content: Content, found: Modules) -> Iterator[Breakdown]:
    whole = content.recorded
    hot = [cost for cost in found.folded() if cost.most_ns > HOT * whole.ns][: content.top]
    if not hot:
        return
    device = hot[0].gpu_ns is not None
    models = {cost.module.model for cost in found.each if cost.module.name}
    kinds = ("GPU", "kernels", "host") if device else ("time", "operators", "of it backward")
    time, counted, beside = kinds
    title = f"modules above {100 * HOT:g} % of {recorded(whole)}, each with those that it calls"
    rows = []
    for cost in hot:
        if device:
            own, count, more = cost.own_gpu_ns, cost.kernels, cost.host_ns
        else:
            own = cost.own_host_ns + cost.own_backward_ns
            count, more = cost.operators, cost.backward_ns
        rows.append(
            (
                part(cost.most_ns, whole),
                part(own, whole),
                part(more, whole),
                _per_step(count or 0, whole.steps),
                f"{_per_step(cost.calls, whole.steps)} x",
                _name(cost, len(models) > 1),
            )
        )
    yield Breakdown(title, (time, "without those", beside, counted, "times", "module"), rows)


def _operators(content: Content, found: Operators) -> Breakdown:
    whole = sum(of.ns for of in found.each)
    steps = content.recorded.steps
    device = found.each[0].kernels is not None
    hot = [of for of in found.each if of.ns > HOT * whole][: content.top]
    these, time, rate, unit = ("kernels", "GPU", "TFLOP/s", 1000)
    if not device:
        these, time, rate, unit = ("operators", "time", "GFLOP/s", 1)
    these += "" if steps is None else " in a step"
    title = f"operators above {100 * HOT:g} % of the {span(whole / (steps or 1))} of {these}"
    if found.why:
        title += f"; {found.why}"
        if any(of.flops is None for of in hot):
            title += f"; {DASH}: it has no formula"
    rows = [
        (
            f"{span(of.ns / (steps or 1))} ({share(of.ns, whole)})",
            f"{_per_step(of.calls, steps)} x",
            _rate(of.flops, of.ns, unit),
            _rate(of.nbytes, of.ns, 1),
            *((of.limit or of.why, share(of.share, 1)) if not found.why else ()),
            visible(f"{of.name} {clipped(of.shapes, _LONGEST)} {of.dtypes}".rstrip()),
        )
        for of in hot
    ]
    limits = () if found.why else ("bound by", "of the peak")
    return Breakdown(title, (time, "times", rate, "GB/s", *limits, "operator"), rows)


def _rate(amount: int | None, ns: int, unit: int) -> str:
    return DASH if amount is None or not ns else digits(amount / ns / unit) if amount else "0"


def _per_step(count: int, steps: int | None) -> str:
    each = count / (steps or 1)
    return f"{each:,.0f}" if each == int(each) or each >= 100 else digits(each)


def _name(cost: ModuleCost, with_model: bool) -> str:
    of = cost.module
    name = f"{of.model}: {of.name}" if with_model and of.name else of.name or of.model
    shown = name if len(name) <= _LONGEST else f"...{name[3 - _LONGEST :]}"
    kind = f" ({of.kind})" if of.name and not of.name.rpartition(".")[2].startswith(of.kind) else ""
    times = f", {cost.count} of them" if cost.count > 1 else ""
    return visible(f"{shown}{kind}{times}")
