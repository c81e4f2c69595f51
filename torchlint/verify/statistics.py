"""Paired comparison of times: the ratio, its intervals, and the verdict drawn from them.

Block i of the original and block i of a variant run in the same round, so they share the machine's
state::

    d_i   = ln(before_i / after_i)                    i = 1..n
    ratio = exp(Hodges-Lehmann estimate of d)         above 1 is a gain
    ci95, ci99 = exp(exact signed-rank interval of d)

`torchlint.verify.signed_rank` gives the formulae and sources of estimate, interval and p-value.
Launches are samples too: which memory a process got stays for the whole of it, so that many pairs
of one launch are one reading of that (see `Samples`; for functions and rules, whose versions are
made anew every few pairs, `of_makings`).

Many fixes: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 6 (1979).
"""

from __future__ import annotations

import itertools
import math
import statistics as numbers
from collections.abc import Sequence
from dataclasses import replace

from torchlint.base.effect import MIN_EFFECT
from torchlint.base.records import frozen
from torchlint.verify.model import Interval, NullControl, Ratio, Verdict
from torchlint.verify.signed_rank import hodges_lehmann, signed_rank_interval, signed_rank_p

LOOKS = (12, 24, 48)
"""The only numbers of pairs at which a verdict may be taken; the first that is not inconclusive may
end the run."""

MIN_PAIRS = 8
"""Below this an exact 99 % interval has infinite ends: 2 / 2**7 > 0.01."""

LAUNCH_PAIRS = 6
"""Below this a launch has no 95 % interval of its own: 2 / 2**5 > 0.05."""

HOLM_ABOVE = 10
"""With more fixes than this, p-values are adjusted for their number."""

ALPHA = 0.01
"""How often a verdict of ``faster`` or ``slower`` may be an accident: the 99 % interval's
remainder."""

SPENDING = 1.5
"""The error spent by the time that a share t of all pairs is there is ``ALPHA * t ** SPENDING``:
little at first, as in the power family of Kim and DeMets (1987). What each look may add is its own
level, so that all of them together err no more often than one test at `ALPHA`, however the looks
depend on each other."""

FAR_BEYOND = 2.0
"""By what factor, in logarithms, a change must exceed all that the null control reads where that
control differs from 1: then no noise of that size explains it."""

EQUIVALENCE = 0.05
"""How often ``no change`` may be an accident: the 95 % interval's remainder."""

_DIGITS = 12
"""Log ratios are rounded here: far below any clock, and it makes equal ratios equal in spite of
rounding in ``log``."""


def log_ratios(before: Sequence[float], after: Sequence[float]) -> tuple[float, ...]:
    """``ln(before_i / after_i)`` of paired times, in any unit; swapping the arguments only flips
    signs.

    Raises:
        ValueError: the lengths differ, there is no pair, or a time is not a positive finite number.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} times before, {len(after)} after: they must pair up")
    if not before:
        raise ValueError("no pair of times to compare")
    for time in itertools.chain(before, after):
        if not (math.isfinite(time) and time > 0):
            raise ValueError(f"a time must be positive and finite, not {time}")
    return tuple(
        round(math.log(b) - math.log(a), _DIGITS) for b, a in zip(before, after, strict=True)
    )


def ratio(before: Sequence[float], after: Sequence[float]) -> Ratio:
    """Time before over time after from paired blocks, with exact 95 % and 99 % intervals and the
    p-value.

    Args:
        before, after: times of the original and of the variant in the same round, in one unit.

    Raises:
        ValueError: the lengths differ, there is no pair, or a time is not a positive finite number.
    """
    logs = log_ratios(before, after)
    return Ratio(
        estimate=math.exp(hodges_lehmann(logs)),
        ci95=_exp(signed_rank_interval(logs, 0.95)),
        ci99=_exp(signed_rank_interval(logs, 0.99)),
        p=signed_rank_p(logs),
        n=len(logs),
    )


def _exp(interval: Interval) -> Interval:
    return (math.exp(interval[0]), math.exp(interval[1]))


def null_control(
    before: Sequence[float], after: Sequence[float], measured: Ratio | None = None
) -> NullControl:
    """A byte-identical copy measured like a fix; not ok where its 99 % interval excludes 1.

    Args:
        before, after: as of `ratio`.
        measured: where that of all pairs is not what decides (see `of_makings`).

    Raises:
        ValueError: as `ratio`.
    """
    measured = measured or ratio(before, after)
    return NullControl(
        ratio=measured,
        ok=measured.ci99[0] <= 1 <= measured.ci99[1],
        blocks_ns=tuple(zip(before, after, strict=True)),
    )


def levels(looks: Sequence[int], alpha: float = ALPHA) -> tuple[float, ...]:
    """Return the level of each look, in order; they add up to `alpha`.

    Args:
        looks: the numbers of pairs at which a verdict may be taken, ascending.
        alpha: the error of all looks together.
    """
    spent = [alpha * (pairs / looks[-1]) ** SPENDING for pairs in looks]
    return tuple(now - before for before, now in zip([0.0, *spent], spent, strict=False))


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given (Holm 1979): each the largest (m-i+1) p_(i) up to its
    rank, at most 1."""
    adjusted = [0.0] * len(ps)
    running = 0.0
    for place, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        running = max(running, min(1.0, (len(ps) - place) * ps[index]))
        adjusted[index] = running
    return tuple(adjusted)


def adjusted_ps(ratios: Sequence[Ratio | None]) -> tuple[float | None, ...]:
    """The `adjusted_p` of each single fix for `verdict`: Holm's with more than 10 measured fixes,
    else None for all."""
    measured = [ratio.p for ratio in ratios if ratio is not None]
    if len(measured) <= HOLM_ABOVE:
        return (None,) * len(ratios)
    values = iter(holm(measured))
    return tuple(None if ratio is None else next(values) for ratio in ratios)


def student_p(t: float, freedom: int) -> float:
    """Two-sided p-value of Student's t, which is not negative, with so many degrees of freedom.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4.
    """
    angle, odd = math.atan(t / math.sqrt(freedom)), freedom % 2
    term = total = math.cos(angle) if odd else 1.0
    for number in range(2 + odd, freedom - 1, 2):
        term *= math.cos(angle) ** 2 * (number - 1) / number
        total += term
    inside = math.sin(angle) * (total if freedom > 1 else 0.0)
    return 1 - ((angle + inside) * 2 / math.pi if odd else inside)


def student_quantile(confidence: float, freedom: int) -> float:
    """Return the t that a share `confidence` of Student's t lies within, by halving; with so many
    degrees of freedom."""
    low, high = 0.0, 1.0
    while student_p(high, freedom) > 1 - confidence:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > 1 - confidence else (low, middle)
    return high


def of_makings(pairs: Ratio, logs: Sequence[float]) -> Ratio:
    """Return a ratio for which each making of the versions is one sample.

    The estimate is that of Hodges and Lehmann over the makings. The intervals are Student's t over
    the makings, never narrower than those of the pairs, and so is p never smaller. With one making
    they have no end.

    Args:
        pairs: the ratio of all pairs.
        logs: the log ratio that each making reads, one at least.
    """
    centre, count = hodges_lehmann(logs), len(logs)
    error = numbers.stdev(logs) / math.sqrt(count) if count > 1 else math.inf

    def wider(own: Interval, confidence: float) -> Interval:
        reach = student_quantile(confidence, count - 1) * error if count > 1 else math.inf
        return (min(own[0], math.exp(centre - reach)), max(own[1], _grown(centre + reach)))

    p = student_p(abs(centre) / error, count - 1) if count > 1 and error else pairs.p
    return replace(
        pairs,
        estimate=math.exp(centre),
        ci95=wider(pairs.ci95, 0.95),
        ci99=wider(pairs.ci99, 0.99),
        p=max(pairs.p, p if count > 1 else 1.0),
    )


def _grown(log: float) -> float:
    """``exp(log)``, infinite where that is too large for a float."""
    return math.exp(log) if log < 700 else math.inf


@frozen
class Samples:
    """What each launch reads by itself.

    Args:
        logs: the log ratio of a version, one a launch.
        nulls: that of the null control, truly 0: how far launches of equal programs differ.
    """

    logs: tuple[float, ...]
    nulls: tuple[float, ...] = ()

    def doubt(self, found: Verdict, min_effect: float) -> str:
        """Return why the launches do not bear a verdict out; empty where they do.

        Each must be on its side, and the mean of all further from 1 (for ``no change``: further
        within ``min_effect``) than their spread explains, by Student's t. The spread is that of
        the version's launches and of the null control's.
        """
        count = len(self.logs)
        if count < 2:
            return "one launch decides nothing: each has a memory of its own (--launches, --budget)"
        mean = sum(self.logs) / count
        freedom = count - 1 + len(self.nulls)
        spread = sum((log - mean) ** 2 for log in self.logs) + sum(log**2 for log in self.nulls)
        error = math.sqrt(spread / freedom / count)
        margin, level = math.log1p(min_effect) - abs(mean), EQUIVALENCE
        if found is not Verdict.NO_CHANGE:
            side = 1 if found is Verdict.FASTER else -1
            margin, level = min(side * log for log in self.logs), ALPHA
            margin = abs(mean) if margin > 0 else 0.0
        if margin > 0 and (not error or student_p(margin / error, freedom) <= level):
            return ""
        return "launches differ: " + ", ".join(_times(math.exp(log)) for log in self.logs)


def verdict(
    ratio: Ratio | None,
    *,
    min_effect: float = MIN_EFFECT,
    exercised: bool | None = None,
    null: NullControl | None = None,
    adjusted_p: float | None = None,
    cpu: Ratio | None = None,
    events: Ratio | None = None,
    launches: Sequence[Ratio] = (),
    samples: Samples | None = None,
    level: float = ALPHA,
    remedy: str = "raise --epochs",
) -> tuple[Verdict, str]:
    """What the timing says, and why where that is not plain. Shown is the 95 % interval, decided is
    on the 99 % one::

        not exercised   no line that the fix changes ran
        inconclusive    fewer than 8 pairs, or the null control's 99 % interval excludes 1 and this
                        ratio's is not far beyond it, or its 95 % interval reaches into that of
                        what would be faster or slower
        faster          ci99 above 1 and ratio >= 1 + min_effect   (and adjusted_p < 0.01 where given)
        slower          ci99 below 1 and ratio <= 1 / (1 + min_effect)   (the same)
        no change       ci95 inside [1 / (1 + min_effect), 1 + min_effect]
        inconclusive    otherwise

    With `samples` a verdict stands only where the launches bear it out, and none comes from one.
    Launches whose 95 % intervals do not all overlap are called unstable; the verdict then stands
    only if each of them alone bears it out. Another clock that disagrees is told and decides
    nothing.

    Args:
        ratio: all pairs together; None where there is none.
        min_effect: the smallest change worth a verdict, 0.03 for 3 %.
        exercised: whether a changed line ran; None where not looked at.
        null: the run's null control.
        adjusted_p: from `adjusted_ps`; None with 10 fixes or fewer.
        cpu: the same ratio from process CPU times; only with one thread, as waiting threads burn
            CPU time.
        events: the same ratio from CUDA's events.
        launches: the ratio of each launch.
        samples: what each launch reads; None where launches are not looked at as samples.
        level: the error that may be spent here; less than `ALPHA` where it is looked at several
            times, see `levels`.
        remedy: what gives more rounds.
    """  # noqa: E501
    if exercised is False:
        return Verdict.NOT_EXERCISED, "no line that the fix changes ran"
    if ratio is None or ratio.n < MIN_PAIRS:
        rounds = 0 if ratio is None else ratio.n
        return Verdict.INCONCLUSIVE, f"only {rounds} round{'s' * (rounds != 1)}; {remedy}"
    noise = ""
    if null is not None and not null.ok:
        noise = f"null control read {_times(null.ratio.estimate)}"
        if not _far_beyond(ratio, null.ratio):
            return Verdict.INCONCLUSIVE, f"machine too noisy: {noise}"
    found, why = _from_intervals(ratio, min_effect)
    decided = found in (Verdict.FASTER, Verdict.SLOWER)
    if decided and level < ALPHA and ratio.p > level:
        found, why = (
            Verdict.INCONCLUSIVE,
            f"p = {ratio.p:.2g}, and {level:.2g} is what this look may decide at",
        )
    elif decided and adjusted_p is not None and adjusted_p >= level:
        found, why = (
            Verdict.INCONCLUSIVE,
            f"p = {adjusted_p:.2g} once adjusted for the number of fixes (Holm)",
        )
    elif decided and null is not None and _overlap([ratio.ci95, null.ratio.ci95]):
        found, why = (
            Verdict.INCONCLUSIVE,
            f"no more than the null control, the same code twice: {_shown(null.ratio)}",
        )
    doubt = ""
    if samples is not None and found is not Verdict.INCONCLUSIVE:
        doubt = samples.doubt(found, min_effect)
    if doubt:
        found, why = Verdict.INCONCLUSIVE, doubt
    reasons = [why] if why else []
    reasons += [f"{noise}, and this is far beyond it"] if noise else []
    if not _overlap([launch.ci95 for launch in launches]):
        reasons.append(
            "unstable across launches: " + ", ".join(_shown(launch) for launch in launches)
        )
        if not all(_bears_out(launch, found, min_effect) for launch in launches):
            found = Verdict.INCONCLUSIVE
    reasons += [
        f"{clock} {'disagrees' if clock == 'CPU time' else 'disagree'}: {_shown(other)}"
        for clock, other in (("CPU time", cpu), ("CUDA events", events))
        if other is not None
        and not _overlap([ratio.ci95, other.ci95])
        and abs(math.log(ratio.estimate / other.estimate)) >= math.log1p(min_effect)
    ]
    return found, "; ".join(reasons)


def _far_beyond(ratio: Ratio, null: Ratio) -> bool:
    """Whether the whole 99 % interval is further from 1, by `FAR_BEYOND`, than any of the null
    control's."""
    low, high, *noise = (math.log(end) if end else -math.inf for end in (*ratio.ci99, *null.ci99))
    return max(low, -high) > FAR_BEYOND * max(map(abs, noise))


def _from_intervals(ratio: Ratio, min_effect: float) -> tuple[Verdict, str]:
    if ratio.ci99[0] > 1 and ratio.estimate >= 1 + min_effect:
        return Verdict.FASTER, ""
    if ratio.ci99[1] < 1 and ratio.estimate <= 1 / (1 + min_effect):
        return Verdict.SLOWER, ""
    if _equivalent(ratio, min_effect):
        return Verdict.NO_CHANGE, ""
    if not ratio.ci95[0] <= 1 <= ratio.ci95[1] and ratio.ci99[0] <= 1 <= ratio.ci99[1]:
        return Verdict.INCONCLUSIVE, f"at 99 % it could be anything from {_span(ratio.ci99)}"
    return Verdict.INCONCLUSIVE, f"could be anything from {_span(ratio.ci95)}"


def _equivalent(ratio: Ratio, min_effect: float) -> bool:
    return ratio.ci95[0] >= 1 / (1 + min_effect) and ratio.ci95[1] <= 1 + min_effect


def _bears_out(launch: Ratio, found: Verdict, min_effect: float) -> bool:
    """Whether one launch, of which the others are apart, alone supports the verdict of all."""
    if found is Verdict.FASTER:
        return launch.ci95[0] > 1
    if found is Verdict.SLOWER:
        return launch.ci95[1] < 1
    return found is Verdict.NO_CHANGE and _equivalent(launch, min_effect)


def _overlap(intervals: Sequence[Interval]) -> bool:
    """Whether there is a value that lies in all intervals (for intervals: whether they overlap two
    by two)."""
    return not intervals or max(low for low, _ in intervals) <= min(high for _, high in intervals)


@frozen
class Makings(Samples):
    """What each making of the versions reads; `of_makings` has their spread in its interval."""

    def doubt(self, found: Verdict, min_effect: float) -> str:
        """Return why a change is less than equal versions show: below twice the root mean square
        of the null control's makings, over the root of their number."""
        if found is Verdict.NO_CHANGE or not self.nulls:
            return ""
        spread = math.sqrt(sum(log**2 for log in self.nulls) / len(self.nulls))
        least = 2 * spread / math.sqrt(len(self.logs))
        if abs(hodges_lehmann(self.logs)) >= least:
            return ""
        return f"two copies of the original may differ by {_times(math.exp(least))} here"


def _times(value: float) -> str:
    """``1.08x``; a third digit where two would read 1.00."""
    return f"{value:.2f}x" if f"{value:.2f}" != "1.00" else f"{value:.3f}x"


def _span(interval: Interval) -> str:
    return f"{_times(interval[0])} to {_times(interval[1])}"


def _shown(ratio: Ratio) -> str:
    return f"{_times(ratio.estimate)} [{ratio.ci95[0]:.2f}, {ratio.ci95[1]:.2f}]"
