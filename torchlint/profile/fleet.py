"""Ranks beside each other: how far their figures lie apart, and whom the others wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.report import Rank, Report, common_steps

LEAST = 3
"""Of so many ranks on a spread says more than the ranks themselves."""


@frozen
class Row:
    """A rank's median of the steps that all ranks have, the share of the time in which its device
    was idle, and its waits in collectives; times in nanoseconds, None where they are not known."""

    rank: int
    step: float | None
    idle: float | None
    waits: int | None


@frozen
class Spread:
    """A figure over all ranks: its median, its 5th and 95th percentile, and the ranks that have the
    least and the most of it."""

    median: float
    low: float
    high: float
    least: int
    most: int


def table(report: Report) -> tuple[Row, ...]:
    """Return a row for each rank, those first that the others wait for; by number where that is not
    known."""
    steps = common_steps(report.ranks)
    matched = report.waiting.matched
    rows = [
        Row(
            rank.number,
            float(np.median([of[rank.number] for of in steps.values()])) if steps else None,
            _idle(rank),
            report.waiting.by_rank[rank.number] if matched else None,
        )
        for rank in report.ranks
    ]
    return tuple(sorted(rows, key=lambda row: (row.waits or 0, row.rank)))


@frozen
class Straggler:
    """The rank that the others wait for: it waits less than half as long as the median rank does;
    nanoseconds in collectives."""

    rank: int
    waits: int
    median: int


def straggler(rows: Sequence[Row]) -> Straggler | None:
    """Return the rank that the others wait for, of three ranks or more; None where none stands out.

    Args:
        rows: of `table`.
    """
    waits = sorted(row.waits for row in rows if row.waits is not None)
    if len(rows) < LEAST or len(waits) < len(rows):
        return None
    least, median = rows[0], waits[len(waits) // 2]
    if least.waits is None or least.waits >= median / 2:
        return None
    return Straggler(least.rank, least.waits, median)


def _idle(rank: Rank) -> float | None:
    spent = rank.figures.temporal
    return spent.idle / spent.total if spent is not None and spent.total else None


def spreads(rows: Sequence[Row]) -> Mapping[str, Spread]:
    """Return the spread of each figure that all ranks have: ``"step"``, ``"idle"``, ``"waits"``;
    nothing for fewer than three ranks."""
    found = {}
    for name in ("step", "idle", "waits"):
        values = {row.rank: getattr(row, name) for row in rows}
        if len(rows) >= LEAST and None not in values.values():
            low, median, high = np.percentile([*values.values()], [5, 50, 95]).tolist()
            least, most = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
            found[name] = Spread(median, low, high, least, most)
    return found
