"""The tables of a report, which each form draws in its own way: waits, where the time goes, and
what is predicted for a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchlint.base.finding import Finding
from torchlint.base.records import frozen
from torchlint.profile.bounds import Whole
from torchlint.profile.limits import Operators
from torchlint.profile.lines import HOT, LineCost, about, unruled
from torchlint.profile.modules import ModuleCost, Modules
from torchlint.profile.output import forecast
from torchlint.profile.output.content import Content
from torchlint.profile.output.source import place, source
from torchlint.profile.output.table import kind_words, measure, part, recorded, share, span
from torchlint.profile.workers import Workers
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import DASH, clipped, digits, size, visible

COSTS = (
    *("host", "backward", "GPU", "waits", "copied", "allocated"),
    *("times", "place", "statement"),
)
"""What is shown of a place."""
CODE = frozenset({"line", "module", "operator", "place", "statement"})
"""Columns of code."""
_LONGEST = 72
"""Characters of a module's name that are shown: its end, where it is longer."""
_DEAR = 1.5
"""From which ratio on it is told that timing lines makes batches longer."""


@frozen
class Table:
    """A table: its name on a page, what stands above it, and how many rows are left out."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    more: int = 0

    @property
    def caption(self) -> str:
        """The title as the beginning of a sentence."""
        return f"{self.title[0].upper()}{self.title[1:]}"

    def text(self, color: bool) -> Iterator[str]:
        """Yield the table as lines of text."""
        yield ""
        yield paint(visible(self.title), BOLD, color)
        if self.rows:
            yield from aligned([self.head, *self.rows])
        if self.more:
            yield f"and {self.more} more"


def tables(content: Content) -> Iterator[Table]:
    """Yield all of which something is known."""
    yield from waits(content)
    yield from costs(content)
    yield from predicted(content)


def waits(content: Content) -> Iterator[Table]:
    """Yield where the program waits for the device."""
    found = content.waits
    if found is None or not found.each:
        return
    whole = content.whole or content.recorded
    within = Whole(found.span, whole.steps)
    title = (
        f"waits for the device: without all of them {measure(whole)} would be shorter by at most "
        f"{part(found.joint, whole)}"
    )
    rows = [
        (
            part(wait.alone, whole),
            part(wait.waited, within),
            f"{wait.calls:,}" if whole.steps is None else digits(wait.calls / whole.steps),
            visible(place(wait.site)),
        )
        for wait in found.each[: content.top]
    ]
    yield Table("waits", title, ("saves at most", "waits", "calls", "place"), rows)


def costs(content: Content) -> Iterator[Table]:
    """Yield where the time goes: by statement, module, operator, place, and line of a worker."""
    whole = content.recorded
    if content.statements:
        goes = "a step's time goes" if whole.steps is not None else "the host's time goes"
        title = f"where {goes}, each statement with all it calls: of {recorded(whole)}"
        rows = [
            (
                part(one.cost.inclusive_ns, whole),
                visible(", from ".join(place(of.site) for of in (one.cost, *one.callers[::-1]))),
                source(one.cost.site, content.texts),
            )
            for one in content.statements
        ]
        yield Table("statements", title, ("time", "place", "statement"), rows)
    if content.modules is not None:
        yield from _modules(content, content.modules)
    if content.operators is not None and content.operators.each:
        yield _operators(content, content.operators)
    known = content.costs.each if content.costs is not None else ()
    told = [cost.finding for cost in known if cost.bound is not None]
    found = list(unruled(content.lines or (), told, whole.ns))
    title = "hot, no bound" if content.checked else "hot places"
    yield from _places("places", title, found, whole, content.unbounded, content)
    for at, one in enumerate(content.aside):
        found = list(unruled(one.lines, (), one.whole.ns))
        title = f"hot, only in steps {kind_words(one.kind)}"
        yield from _places(f"places{at}", title, found, one.whole, content.findings, content)
    if content.workers is not None:
        yield from _loading(content, content.workers)


def predicted(content: Content) -> Iterator[Table]:
    """Yield what steps would wait for and copy on a GPU."""
    found = content.predicted
    if found is not None:
        rows, more = forecast.rows(found, content.top), max(0, len(found.each) - content.top)
        yield Table("predicted", forecast.headline(found), forecast.HEAD, rows, more)


def _modules(content: Content, found: Modules) -> Iterator[Table]:
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
                *(part(each, whole) for each in (cost.most_ns, own, more)),
                _per_step(count or 0, whole.steps),
                f"{_per_step(cost.calls, whole.steps)} x",
                _name(cost, len(models) > 1),
            )
        )
    yield Table("modules", title, (time, "without those", beside, counted, "times", "module"), rows)


def _name(cost: ModuleCost, with_model: bool) -> str:
    of = cost.module
    name = f"{of.model}: {of.name}" if with_model and of.name else of.name or of.model
    shown = name if len(name) <= _LONGEST else f"...{name[3 - _LONGEST :]}"
    kind = f" ({of.kind})" if of.name and not of.name.rpartition(".")[2].startswith(of.kind) else ""
    times = f", {cost.count} of them" if cost.count > 1 else ""
    return visible(f"{shown}{kind}{times}")


def _operators(content: Content, found: Operators) -> Table:
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
    return Table("operators", title, (time, "times", rate, "GB/s", *limits, "operator"), rows)


def _rate(amount: int | None, ns: int, unit: int) -> str:
    return DASH if amount is None or not ns else digits(amount / ns / unit) if amount else "0"


def _per_step(count: int, steps: int | None) -> str:
    each = count / (steps or 1)
    return f"{each:,.0f}" if each == int(each) or each >= 100 else digits(each)


def _places(
    name: str,
    title: str,
    found: Sequence[LineCost],
    whole: Whole,
    findings: Sequence[Finding],
    content: Content,
) -> Iterator[Table]:
    """Yield a table of places, of those of `COSTS` that were measured in some row; findings are
    named beside their lines."""
    if not found:
        return
    title += f": above {100 * HOT:g} % of {recorded(whole)} by one of the times, which overlap"
    cells = [place_row(cost, whole, findings, content.texts) for cost in found[: content.top]]
    shown = [at for at in range(len(COSTS)) if any(row[at] not in (DASH, "0", "") for row in cells)]
    head, *rows = (tuple(row[at] for at in shown) for row in (COSTS, *cells))
    yield Table(name, title, head, rows, len(found) - len(cells))


def place_row(
    cost: LineCost, whole: Whole, findings: Iterable[Finding], texts: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what a place cost, one cell for each of `COSTS`: of a run, what it did in one step.

    Args:
        cost: of the place.
        whole: what was recorded.
        findings: those of them that are about the place are named beside it.
        texts: the files of the program by their names.
    """
    codes = sorted({finding.code for finding in findings if about(finding, cost.site)})
    times = (cost.host_ns, cost.backward_ns, cost.gpu_ns, cost.wait_ns)
    sizes = (cost.copied_bytes, cost.alloc_bytes)
    return (
        *(part(time, whole) for time in times),
        *(
            DASH if nbytes is None else size(nbytes // (whole.steps or 1)) if nbytes else "0"
            for nbytes in sizes
        ),
        f"{_per_step(cost.calls, whole.steps)} x" if whole.steps and cost.calls else "",
        visible(" ".join((place(cost.site), *codes))),
        source(cost.site, texts),
    )


def _loading(content: Content, of: Workers) -> Iterator[Table]:
    """Yield the costly lines of workers, which are in no trace, with the rules that found something
    there."""
    rows = []
    for line in of.lines[: content.top]:
        if line.ns < HOT * of.timed_batch:
            break
        codes = sorted({one.code for one in content.findings if of.holds(one, line)})
        where = " ".join((f"{line.file}:{line.line}, in {line.function}", *codes))
        times = digits(line.calls) if line.calls < 1000 else f"{line.calls:,.0f}"
        cost = f"{span(line.ns)} ({share(line.ns, of.timed_batch)})"
        rows.append((cost, times, visible(where)))
    if rows:
        yield Table("loading", loading_title(of), ("a batch", "times", "place"), rows)


def loading_title(of: Workers) -> str:
    """Return what stands above the lines of workers."""
    batches = f"{of.timed} batch{'es' * (of.timed != 1)}"
    dear = f", which timing them makes {of.slower:.1f} x as long" if of.slower > _DEAR else ""
    return f"in the workers: lines above 3 % of a batch, {span(of.timed_batch)} in {batches}{dear}"
