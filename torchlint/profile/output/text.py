"""The report for people: a table for each trace, several ranks beside each other, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchlint.profile.join import FindingCost
from torchlint.profile.output.table import Row, rows, share, span
from torchlint.profile.output.waiting import lines
from torchlint.profile.report import Rank, Report, common_steps
from torchlint.profile.waits import Waits
from torchlint.report.kit.terminal import BOLD, DIM, aligned, paint
from torchlint.report.kit.words import DASH, clipped, visible

_LONGEST = 72
"""Characters of a kernel's name that are shown: templates have thousands."""


def render(
    report: Report,
    *,
    rank: int | None,
    top: int,
    against: Report | None = None,
    color: bool = False,
    waits: Waits | None = None,
    costs: Sequence[FindingCost] = (),
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
    """
    shown = report.rank(rank)
    found = [paint(visible(_title(shown)), BOLD, color)]
    if against is None:
        found += aligned([(_label(name), visible(value)) for name, value in rows(shown, top)])
    else:
        other = against.rank(rank)
        found[0] += paint(f", against {visible(other.path)}", DIM, color)
        found += aligned([*_beside(list(rows(shown, top)), list(rows(other, top)))])
    if waits is not None:
        found += lines(waits, costs, top, color)
    found += _ranks(report, color)
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


def _ranks(report: Report, color: bool) -> Iterator[str]:
    """Yield the table of ranks, where there are several."""
    if len(report.ranks) < 2:
        return
    steps = common_steps(report.ranks)
    table = [("rank", "step", "GPU idle", "waits in collectives")]
    for rank in report.ranks:
        spent = rank.figures.temporal
        times = sorted(of[rank.number] for of in steps.values())
        table.append(
            (
                str(rank.number),
                span(times[len(times) // 2] if times else None),
                DASH if spent is None else share(spent.idle, spent.total),
                span(report.waiting.by_rank[rank.number]) if report.waiting.matched else DASH,
            )
        )
    first, *others = aligned(table)
    yield ""
    yield paint(first, BOLD, color)
    yield from others
