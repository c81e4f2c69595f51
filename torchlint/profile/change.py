"""Whether the steps of one trace are faster than those of an older one.

The steps of two traces are two samples: the ratio is the Hodges-Lehmann estimate over all pairs,
the intervals are those of the exact rank-sum test (Hollander, Wolfe and Chicken, "Nonparametric
Statistical Methods", 2014, chapter 4). Each trace is of one run, and runs differ from one another
by more than their steps show: ``torchlint verify --against`` starts both anew, several times.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from torchlint.base.effect import MIN_EFFECT
from torchlint.base.records import frozen
from torchlint.profile.report import Rank

LEAST = 4
"""Steps of each trace below which there is no 95 % interval."""
_MOST = 50
"""Steps that are taken of one trace, evenly: neighbours say nearly the same."""


@frozen
class Change:
    """What became of a step.

    Args:
        verdict: "faster", "slower", "no change" or "inconclusive".
        ratio: time before over time now.
        ci95: its interval.
        before_ns, now_ns: the median steps.
        busy_ns: how long the device worked in a median step, before and now; None without one.
        steps: of both traces.
        queued: the part of the steps before and now in which the training thread had no core; None
            where that is not known.
    """

    verdict: str
    ratio: float
    ci95: tuple[float, float]
    before_ns: float
    now_ns: float
    busy_ns: tuple[float, float] | None
    steps: tuple[int, int]
    queued: tuple[float | None, float | None] = (None, None)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The interval, None for an end that the steps do not bound."""
        low, high = (end if 0 < end < math.inf else None for end in self.ci95)
        return low, high

    @property
    def longer(self) -> float:
        """By which part of itself a step became longer, where that is shown; else 0."""
        return 1 / self.ratio - 1 if self.verdict == "slower" else 0.0


def change(now: Rank, before: Rank) -> Change | None:
    """Compare the steps of two traces; None where one has too few that are marked.

    A verdict is that of the steps as they were, and of what they were without the time for which
    the training thread waited for a core, as other work on the machine had it.
    """
    ranks = before, now
    each = [[step for step in rank.figures.steps.each if step.time > 0] for rank in ranks]
    if min(map(len, each)) < LEAST:
        return None
    old, new = times = [[step.time for step in steps] for steps in each]
    waits = [
        [min(rank.queued.get(step.number, 0), step.time - 1) for step in steps]
        for rank, steps in zip(ranks, each, strict=True)
    ]
    own = ([a - b for a, b in zip(*both, strict=True)] for both in zip(times, waits, strict=True))
    ratio, interval, verdict = _compared(old, new)
    sure = _compared(*own)[2] == verdict
    busy = [
        [step.busy for step in rank.figures.steps.each if step.busy is not None] for rank in ranks
    ]
    shares = [
        sum(wait) / sum(time) if rank.queued else None
        for rank, wait, time in zip(ranks, waits, times, strict=True)
    ]
    return Change(
        verdict if sure else "inconclusive",
        ratio,
        interval,
        statistics.median(old),
        statistics.median(new),
        (statistics.median(busy[0]), statistics.median(busy[1])) if all(busy) else None,
        (len(old), len(new)),
        (shares[0], shares[1]),
    )


def _compared(old: Sequence[int], new: Sequence[int]) -> tuple[float, tuple[float, float], str]:
    """Return the ratio of two samples of times, its 95 % interval and the verdict."""
    one, two = map(_thinned, (old, new))
    logs = sorted(math.log(a / b) for a in one for b in two)
    ends = {level: _interval(logs, len(one), len(two), level) for level in (0.95, 0.99)}
    middle, least = statistics.median(logs), math.log1p(MIN_EFFECT)
    verdict = "inconclusive"
    if ends[0.99][0] > 0 and middle >= least:
        verdict = "faster"
    elif ends[0.99][1] < 0 and -middle >= least:
        verdict = "slower"
    elif max(map(abs, ends[0.95])) <= least:
        verdict = "no change"
    return math.exp(middle), (math.exp(ends[0.95][0]), math.exp(ends[0.95][1])), verdict


def _thinned(times: Sequence[int]) -> Sequence[int]:
    return times[:: -(-len(times) // _MOST)]


def _interval(logs: Sequence[float], one: int, two: int, level: float) -> tuple[float, float]:
    """Return the interval of the rank-sum test at a level, from all pairs in order."""
    most = (1 - level) / 2 * math.comb(one + two, one)
    left_out = sum(total <= most for total in accumulate(_orders(one, two)))
    if not left_out:
        return -math.inf, math.inf
    return logs[left_out - 1], logs[-left_out]


@lru_cache(maxsize=8)
def _orders(one: int, two: int) -> list[int]:
    """Return in how many orders of two samples each number of pairs lies the other way."""
    ways = [1] + [0] * (one * two)
    for factor in range(1, one + 1):  # how often each rank sum comes: a Gaussian binomial
        for at in range(len(ways) - 1, two + factor - 1, -1):
            ways[at] -= ways[at - two - factor]
        for at in range(factor, len(ways)):
            ways[at] += ways[at - factor]
    return ways
