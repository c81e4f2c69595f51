"""Wilcoxon's signed-rank statistic for a location: estimate, exact interval, exact p-value.

For values d_1..d_n::

    A        = the M = n(n+1)/2 Walsh averages (d_i + d_j) / 2, i <= j, sorted
    estimate = median(A)                                             Hodges-Lehmann
    interval = [A_(k+1), A_(M-k)],  k = max{w : 2 P(W <= w) <= 1 - confidence}

W is the signed-rank sum: where the values are symmetric about 0, each rank 1..n counts with
probability 1/2, so P(W = w) is the number of subsets of {1..n} with sum w, over 2^n. It is counted
exactly, in integers.

Sources: Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1 (1945); Hodges
and Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34
(1963); Walsh, "Some significance tests for the median", Annals of Mathematical Statistics 20
(1949); Pratt, "Remarks on zeros and ties in the Wilcoxon signed rank procedures", JASA 54 (1959);
Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd ed. (2014), sections 3.1 to
3.3.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from fractions import Fraction

from torchlint.verify.model import Interval


def walsh_averages(values: Sequence[float]) -> list[float]:
    """All ``(x_i + x_j) / 2`` with i <= j, sorted: n(n+1)/2 of them."""
    return sorted((x + y) / 2 for x, y in itertools.combinations_with_replacement(values, 2))


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the Walsh averages (Hodges and Lehmann 1963)."""
    return statistics.median(walsh_averages(values))


@functools.lru_cache(maxsize=64)
def subset_sums(weights: tuple[int, ...]) -> tuple[int, ...]:
    """How many subsets of `weights` have the sum 0, 1, 2 and so on; exact.

    The generating polynomial prod(1 + x**weight) is held in one integer, a slot of whole bytes for
    each power.
    """
    slot = len(weights) // 8 + 1
    packed = 1
    for weight in weights:
        packed += packed << (8 * slot * weight)
    raw = packed.to_bytes(slot * (sum(weights) + 1), "little")
    return tuple(int.from_bytes(raw[at : at + slot], "little") for at in range(0, len(raw), slot))


@functools.lru_cache(maxsize=64)
def critical_value(n: int, confidence: float) -> int:
    """The largest w with ``2 P(W <= w) <= 1 - confidence`` for n pairs without ties; -1 where there
    is none.

    These are the entries of the printed tables of the two-sided signed-rank test (5 %: n = 6 gives
    0, n = 20 gives 52).

    Raises:
        ValueError: `confidence` is not between 0 and 1, or n is negative.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    if n < 0:
        raise ValueError(f"a number of pairs is not negative: {n}")
    # 1 - 0.95 in floats is above 0.05; the decimal that was typed is what is meant.
    limit = (1 - Fraction(str(confidence))) * 2**n / 2
    return (
        bisect.bisect_right(list(itertools.accumulate(subset_sums(tuple(range(1, n + 1))))), limit)
        - 1
    )


def signed_rank_interval(values: Sequence[float], confidence: float) -> Interval:
    """The interval of the location of `values` that the exact signed-rank test does not reject.

    The test assumes a symmetric distribution. With ties the interval, being closed, covers no less
    often than it says. Both ends are infinite where n is too small for the confidence: 95 % needs 6
    values and 99 % needs 8.
    """
    k = critical_value(len(values), confidence)
    if k < 0:
        return (-math.inf, math.inf)
    averages = walsh_averages(values)
    return (averages[k], averages[-1 - k])


def signed_rank_p(values: Sequence[float]) -> float:
    """The exact two-sided p-value of "the location is 0": ``min(1, 2 P(W <= min(W+, W-)))``.

    Zeros and ties: zeros are ranked with the others and then take no part (Pratt 1959); equal
    magnitudes share the mean of their ranks. The null distribution is the one over the signs of the
    values that are not zero, given those ranks, so the p-value stays exact with ties. It is 1 where
    all values are zero.
    """
    # Twice the rank of each magnitude, equal ones sharing the mean of theirs: twice a midrank is
    # whole.
    magnitudes = [abs(value) for value in values]
    rank_of: dict[float, int] = {}
    first = 1
    for magnitude, group in itertools.groupby(sorted(magnitudes)):
        last = first + len(list(group)) - 1
        rank_of[magnitude] = first + last
        first = last + 1
    doubled = [rank_of[magnitude] for magnitude in magnitudes]
    plus = sum(rank for value, rank in zip(values, doubled, strict=True) if value > 0)
    minus = sum(rank for value, rank in zip(values, doubled, strict=True) if value < 0)
    ranks = tuple(sorted(rank for value, rank in zip(values, doubled, strict=True) if value != 0))
    ways = sum(subset_sums(ranks)[: min(plus, minus) + 1])
    return float(min(Fraction(1), Fraction(2 * ways, 2 ** len(ranks))))
