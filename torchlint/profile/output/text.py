"""The report for people: a table for each trace, several ranks beside each other, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchlint.profile.fleet import Spread, spreads, straggler, table
from torchlint.profile.output import growing, run, tables
from torchlint.profile.output.content import Content
from torchlint.profile.output.findings import bounded, unbounded
from torchlint.profile.output.sentences import compared, headline
from torchlint.profile.output.table import beside, rows, share, span
from torchlint.profile.report import Rank, Report
from torchlint.report.kit.terminal import BOLD, DIM, aligned, paint
from torchlint.report.kit.words import clipped, visible

_LONGEST = 72
"""Characters of a kernel's name that are shown: templates have thousands."""
_FIGURES = {"step": "step", "idle": "GPU idle, of the span", "waits": "waits in collectives"}


def render(content: Content, color: bool = False) -> str:
    """Return the report.

    Args:
        content: what is shown.
        color: whether a terminal takes colours.
    """
    shown, older, top = content.shown, content.before, content.top
    answer = headline(shown, content.waits, content.steps, content.whole)
    found = [paint(answer, BOLD, color)]
    found += [paint(visible(words), BOLD, color) for words in compared(content)]
    found.append(paint(visible(title(shown)), BOLD, color))
    if older is None:
        cells = run.with_trace(content.steps, rows(shown, top))
        found += aligned([(_label(name), visible(value)) for name, value in cells])
    else:
        found[-1] += paint(f", against {visible(older.path)}", DIM, color)
        both = [("", "now", "before"), *beside(rows(shown, top), rows(older, top))]
        found += aligned([(_label(name), *map(visible, values)) for name, *values in both])
    found += [paint(words, BOLD, color) for words in growing.sentences(content.growth)]
    found += places(content, color)
    found += _ranks(content.report, top, color)
    found += [paint(f"note: {visible(note)}", DIM, color) for note in content.notes]
    return "\n".join(found) + "\n"


def places(content: Content, color: bool) -> Iterator[str]:
    """Yield what places of the program cost: waits, findings with a bound, tables, the findings
    that have none, and what is predicted for a GPU."""
    costs, waits = content.costs, content.waits
    for found in tables.waits(content):
        yield from found.text(color)
    if costs is not None and costs.each:
        yield from bounded(content, costs, color)
        if waits is not None and not waits.frames:
            yield "the trace has no Python frames; record with with_stack=True to join them"
    for found in tables.costs(content):
        yield from found.text(color)
    if costs is not None:
        yield from unbounded(content, costs)
    for found in tables.predicted(content):
        yield from found.text(color)


def title(rank: Rank) -> str:
    world = f" of {rank.world}" if rank.world else ""
    device = f", {rank.device}" if rank.device else ""
    return f"{rank.path}: rank {rank.number}{world}{device}"


def _label(name: str) -> str:
    return clipped(visible(name), _LONGEST)


def _ranks(report: Report, top: int, color: bool) -> Iterator[str]:
    """Yield the table of ranks, where there are several, and how far they lie apart."""
    if len(report.ranks) < 2:
        return
    found = table(report)
    shown = found[: max(top, 1)]
    cells = [("rank", "step", "GPU idle, of the span", "waits in collectives")]
    for row in shown if len(shown) < len(found) else sorted(found, key=lambda row: row.rank):
        cells.append((str(row.rank), span(row.step), share(row.idle, 1), span(row.waits)))
    first, *others = aligned(cells)
    yield ""
    yield paint(first, BOLD, color)
    yield from others
    if len(shown) < len(found):
        longer = ", which wait longer for the others" if report.waiting.matched else ""
        yield f"and {len(found) - len(shown)} more{longer}"
    yield from _spread(spreads(found), len(found), color)
    late = straggler(found)
    if late is not None:
        yield (
            f"the others wait for rank {late.rank}: it waits {span(late.waits)} in collectives, "
            f"the median rank {span(late.median)}"
        )


def _spread(found: Mapping[str, Spread], ranks: int, color: bool) -> Iterator[str]:
    """Yield how far ranks lie apart, where there are enough of them."""
    if not found:
        return
    cells = [(f"{ranks} ranks", "median", "5 % to 95 %", "least", "most")]
    for name, words in _FIGURES.items():
        if name in found:
            of = found[name]
            low, middle, high = (
                share(value, 1) if name == "idle" else span(value)
                for value in (of.low, of.median, of.high)
            )
            cells.append((words, middle, f"{low} to {high}", f"rank {of.least}", f"rank {of.most}"))
    first, *others = aligned(cells)
    yield ""
    yield paint(first, BOLD, color)
    yield from others
