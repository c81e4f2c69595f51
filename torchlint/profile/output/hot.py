"""What places of the program cost, in words: those that are hot, and have no finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchlint.base.finding import Finding
from torchlint.profile.bounds import Whole
from torchlint.profile.lines import HOT, LineCost, about, unruled
from torchlint.profile.output.content import Content
from torchlint.profile.output.source import source
from torchlint.profile.output.table import kind_words, part, recorded
from torchlint.profile.output.waiting import place
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import DASH, digits, size, visible

COSTS = (
    *("host", "backward", "GPU", "waits", "copied", "allocated"),
    *("times", "place", "statement"),
)
"""What is shown of a place."""


def hot(found: Sequence[LineCost], content: Content, color: bool) -> Iterator[str]:
    """Yield the section on hot places, where there are any; findings that have no bound are named
    beside their lines.

    Args:
        found: the places.
        content: what is shown.
        color: whether a terminal takes colours.
    """
    title = "hot, no bound" if content.checked else "hot places"
    yield from _section(title, found, content.recorded, content.unbounded, content, color)


def hot_aside(content: Content, color: bool) -> Iterator[str]:
    """Yield the section on hot places that ran only in steps of another kind, where there are
    any; arguments as of `hot`."""
    for one in content.aside:
        found = list(unruled(one.lines, (), one.whole.ns))
        title = f"hot, only in steps {kind_words(one.kind)}"
        yield from _section(title, found, one.whole, content.findings, content, color)


def _section(
    title: str,
    found: Sequence[LineCost],
    whole: Whole,
    findings: Sequence[Finding],
    content: Content,
    color: bool,
) -> Iterator[str]:
    if not found:
        return
    top = content.top
    yield ""
    yield paint(
        f"{title}: above {100 * HOT:g} % of {recorded(whole)} by one of the times, which overlap",
        BOLD,
        color,
    )
    yield from aligned(hot_table(found, whole, findings, content))
    if len(found) > top:
        yield f"and {len(found) - top} more"


def hot_table(
    found: Sequence[LineCost], whole: Whole, findings: Sequence[Finding], content: Content
) -> list[tuple[str, ...]]:
    """Return places as a table, its head first, of those of `COSTS` that were measured in some row;
    arguments as of `hot_row`, but for what is shown."""
    cells = [hot_row(cost, whole, findings, content.texts) for cost in found[: content.top]]
    shown = [at for at in range(len(COSTS)) if any(row[at] not in (DASH, "0", "") for row in cells)]
    return [tuple(row[at] for at in shown) for row in (COSTS, *cells)]


def hot_row(
    cost: LineCost,
    whole: Whole,
    findings: Iterable[Finding] = (),
    texts: Mapping[str, str] | None = None,
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
        _times(cost.calls / whole.steps) if whole.steps else "",
        visible(" ".join((place(cost.site), *codes))),
        source(cost.site, texts or {}),
    )


def _times(count: float) -> str:
    """Return how often a place ran in a step: ``64 x``."""
    if not count:
        return ""
    return f"{count:,.0f} x" if count == int(count) or count >= 100 else f"{digits(count)} x"
