"""A logarithmic axis: where a value lies on it, and which ticks fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MOST = 6
"""Ticks that fit beside each other on a telephone."""
_APART = 0.11
"""Share of the axis between neighbouring ticks at least, so that their labels do not touch."""
_DIGITS = ((1, 2, 5), (1, 1.5, 2, 3, 5, 7))
_STEPS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Steps of evenly spaced ticks, as shares of the decade below the high end."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis from `low` to `high`, both above 0, with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return where `value` lies, from 0.0 at `low` to 1.0 at `high`; values beyond the ends lie on them."""
        if value <= self.low:
            return 0.0
        return min(1.0, math.log(value / self.low) / math.log(self.high / self.low))


def fitting(values: Iterable[float], *, least_span: float = 1.1) -> Scale:
    """Return an axis that holds all `values`, with a margin and at most six ticks.

    Args:
        values: what to show; values that are not finite or not above 0 are left out.
        least_span: ratio of the ends that the axis has at least.
    """
    known = [value for value in values if math.isfinite(value) and value > 0] or [1.0]
    low, high = min(known), max(known)
    span = max(high / low, least_span) ** 1.1
    middle = math.sqrt(low) * math.sqrt(high)
    low, high = middle / math.sqrt(span), middle * math.sqrt(span)
    return Scale(low, high, _ticks(low, high))


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Return the roundest numbers of which three or more fit, or as many as there are."""
    choices = [tuple(tick for tick in ticks if low <= tick <= high) for ticks in _choices(low, high)]
    fit = [ticks for ticks in choices if 1 <= len(ticks) <= _MOST and _gap(ticks, low, high) >= _APART]
    return next((ticks for ticks in fit if len(ticks) >= 3), max(fit, key=len, default=()))


def _choices(low: float, high: float) -> Iterator[list[float]]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _DIGITS:
        yield [float(f"{digit}e{decade}") for decade in decades for digit in digits]
    for step in (1, 2, 4):
        yield [float(f"1e{decade}") for decade in decades if decade % step == 0]
    for share in _STEPS:
        size = share * 10 ** math.floor(math.log10(high))
        first, last = math.ceil(low / size), math.floor(high / size)
        if last - first <= _MOST:
            yield [float(f"{number * size:.6g}") for number in range(first, last + 1)]


def _gap(ticks: tuple[float, ...], low: float, high: float) -> float:
    gaps = [math.log(after / before) for before, after in itertools.pairwise(ticks)]
    return min(gaps, default=math.inf) / math.log(high / low)
