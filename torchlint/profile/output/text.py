"""The report for people: a table for each trace, several ranks beside each other, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchlint.profile.fleet import LEAST, Spread, spreads, table
from torchlint.profile.join import Costs
from torchlint.profile.lines import LineCost, unruled
from torchlint.profile.live import Steps
from torchlint.profile.output import run
from torchlint.profile.output.findings import findings
from torchlint.profile.output.hot import hot
from torchlint.profile.output.table import Row, rows, share, span
from torchlint.profile.output.waiting import waiting
from torchlint.profile.report import Rank, Report
from torchlint.profile.waits import Waits
from torchlint.report.kit.terminal import BOLD, DIM, aligned, paint
from torchlint.report.kit.words import DASH, clipped, visible

_LONGEST = 72
"""Characters of a kernel's name that are shown: templates have thousands."""
_FIGURES = {"step": "step", "idle": "GPU idle", "waits": "waits in collectives"}


def render(
    report: Report,
    *,
    rank: int | None,
    top: int,
    against: Report | None = None,
    color: bool = False,
    waits: Waits | None = None,
    costs: Costs | None = None,
    lines: Sequence[LineCost] = (),
    checked: bool = False,
    steps: Steps | None = None,
) -> str:
    """Return the report.

    Args:
        report: what was counted.
        rank: the rank to show, the lowest where None.
        top: how many kernels, waits and findings are shown.
        against: an older report, shown beside it.
        color: whether a terminal takes colours.
        waits: where the program waits.
        costs: findings, with what was measured at their places.
        lines: what places of the program cost.
        checked: whether the program's files were checked.
        steps: what a run of the program says of a step.
    """
    shown = report.rank(rank)
    found = [paint(visible(_title(shown)), BOLD, color)]
    if against is None:
        table = [*(run.rows(steps) if steps is not None else ()), *rows(shown, top)]
        found += aligned([(_label(name), visible(value)) for name, value in table])
    else:
        other = against.rank(rank)
        found[0] += paint(f", against {visible(other.path)}", DIM, color)
        found += aligned([*_beside(list(rows(shown, top)), list(rows(other, top)))])
    if waits is not None:
        found += waiting(waits, top, color)
        known = costs.each if costs is not None else ()
        if costs is not None:
            found += findings(costs, top, color, steps)
        if known and not waits.frames:
            found.append("the trace has no Python frames; record with with_stack=True to join them")
        rest = unruled(lines, (cost.finding for cost in known), waits.span)
        found += hot(list(rest), waits.span, top, color, checked=checked)
    found += _ranks(report, top, color)
    notes = (*report.notes, *(against.notes if against is not None else ()))
    found += [paint(f"note: {visible(note)}", DIM, color) for note in notes]
    return "\n".join(found) + "\n"


def _title(rank: Rank) -> str:
    world = f" of {rank.world}" if rank.world else ""
    device = f", {rank.device}" if rank.device else ""
    return f"{rank.path}: rank {rank.number}{world}{device}"


def _label(name: str) -> str:
    return clipped(visible(name), _LONGEST)


def _beside(new: list[Row], old: list[Row]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of two reports; what one of them lacks is a dash."""
    before, now = dict(old), dict(new)
    yield "", "now", "before"
    for name in {**now, **before}:
        yield _label(name), visible(now.get(name, DASH)), visible(before.get(name, DASH))


def _ranks(report: Report, top: int, color: bool) -> Iterator[str]:
    """Yield the table of ranks, where there are several, and how far they lie apart."""
    if len(report.ranks) < 2:
        return
    found = table(report)
    shown = found[: max(top, 1)]
    cells = [("rank", "step", "GPU idle", "waits in collectives")]
    for row in shown if len(shown) < len(found) else sorted(found, key=lambda row: row.rank):
        cells.append(
            (
                str(row.rank),
                span(row.step),
                share(row.idle, 1),
                span(row.waits),
            )
        )
    first, *others = aligned(cells)
    yield ""
    yield paint(first, BOLD, color)
    yield from others
    if len(shown) < len(found):
        longer = ", which wait longer for the others" if report.waiting.matched else ""
        yield f"and {len(found) - len(shown)} more{longer}"
    yield from _spread(spreads(found), len(found), color)
    least = found[0].waits
    waits = [row.waits for row in found if row.waits is not None]
    middle = sorted(waits)[len(waits) // 2] if waits else 0
    if least is not None and len(found) >= LEAST and least < middle / 2:
        yield (
            f"the others wait for rank {found[0].rank}: it waits {span(least)} in collectives, the "
            f"median rank {span(middle)}"
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
