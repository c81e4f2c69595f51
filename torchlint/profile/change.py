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
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from torchlint.base.effect import MIN_EFFECT
from torchlint.profile.report import Rank

LEAST = 4
"""Steps of each trace below which there is no 95 % interval."""
_MOST = 50
"""Steps that are taken of one trace, evenly: neighbours say nearly the same."""


@dataclass(frozen=True, slots=True)
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

    A step may be as much shorter as the training thread waited for a core in it, as other work on
    the machine took that: what this may explain is no change of the program.
    """
    steps = before.figures.steps, now.figures.steps
    old, new = ([step.time for step in each.each if step.time > 0] for each in steps)
    if min(len(old), len(new)) < LEAST:
        return None
    one, two = map(_thinned, (old, new))
    logs = sorted(math.log(a / b) for a in one for b in two)
    ends = {level: _interval(logs, len(one), len(two), level) for level in (0.95, 0.99)}
    ratio = math.exp(statistics.median(logs))
    least = math.log1p(MIN_EFFECT)
    before_wait, now_wait = (-math.log1p(-min(each.queued or 0, 0.99)) for each in (before, now))
    verdict = "inconclusive"
    if ends[0.99][0] > before_wait and math.log(ratio) >= least + before_wait:
        verdict = "faster"
    elif ends[0.99][1] < -now_wait and -math.log(ratio) >= least + now_wait:
        verdict = "slower"
    elif ends[0.95][0] - before_wait >= -least and ends[0.95][1] + now_wait <= least:
        verdict = "no change"
    busy = [[step.busy for step in each.each if step.busy is not None] for each in steps]
    return Change(
        verdict,
        ratio,
        (math.exp(ends[0.95][0]), math.exp(ends[0.95][1])),
        statistics.median(old),
        statistics.median(new),
        (statistics.median(busy[0]), statistics.median(busy[1])) if all(busy) else None,
        (len(old), len(new)),
        (before.queued, now.queued),
    )


def _thinned(times: Sequence[int]) -> Sequence[int]:
    return times[:: -(-len(times) // _MOST)]


def _interval(logs: Sequence[float], one: int, two: int, level: float) -> tuple[float, float]:
    """Return the interval of the rank-sum test at a level, from all pairs in order."""
    most = (1 - level) / 2 * math.comb(one + two, one)
    left_out = sum(total <= most for total in accumulate(_ways(one, two)))
    if not left_out:
        return -math.inf, math.inf
    return logs[left_out - 1], logs[-left_out]


@lru_cache(maxsize=8)
def _ways(one: int, two: int) -> list[int]:
    """Return in how many orders of two samples each number of pairs lies the other way."""
    ways = [1] + [0] * (one * two)
    for factor in range(1, one + 1):  # how often each rank sum comes: a Gaussian binomial
        for at in range(len(ways) - 1, two + factor - 1, -1):
            ways[at] -= ways[at - two - factor]
        for at in range(factor, len(ways)):
            ways[at] += ways[at - factor]
    return ways
