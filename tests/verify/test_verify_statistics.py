"""Estimate, exact intervals, p-values and verdicts, against printed tables, enumeration and
hand-made samples."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from torchlint.verify import signed_rank, statistics
from torchlint.verify.model import NullControl, Ratio, Verdict

# Two-sided 5 % and 1 %, from n = 6 and n = 8 on: the printed tables; OEIS A226330 lists the first
# ones.
TABLE_95 = [
    0,
    2,
    3,
    5,
    8,
    10,
    13,
    17,
    21,
    25,
    29,
    34,
    40,
    46,
    52,
    58,
    65,
    73,
    81,
    89,
    98,
    107,
    116,
    126,
    137,
]
TABLE_99 = [0, 1, 3, 5, 7, 9, 12, 15, 19, 23, 27, 32, 37, 42, 48, 54, 61, 68, 75, 83, 91, 100, 109]

# No deadline: a busy machine is no failure.
property_test = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
times = st.integers(1_000, 10_000_000_000)
pairs = st.lists(st.tuples(times, times), min_size=1, max_size=20)


def enumerated_p(values: list[float]) -> float:
    """Return the two-sided p-value by trying every sign of every value that is not zero."""
    magnitudes = sorted(map(abs, values))
    first = {m: magnitudes.index(m) + 1 for m in magnitudes}
    ranks = [Fraction(2 * first[abs(v)] + magnitudes.count(abs(v)) - 1, 2) for v in values if v]
    signs = [v > 0 for v in values if v]
    seen = sum(rank for rank, plus in zip(ranks, signs, strict=True) if plus)
    low = min(seen, sum(ranks) - seen)
    sums = [
        sum(itertools.compress(ranks, chosen))
        for chosen in itertools.product((False, True), repeat=len(ranks))
    ]
    return float(min(Fraction(1), 2 * Fraction(sum(s <= low for s in sums), len(sums))))


def made(
    estimate: float, ci95: tuple[float, float], ci99: tuple[float, float], n: int = 24
) -> Ratio:
    return Ratio(estimate=estimate, ci95=ci95, ci99=ci99, p=0.001, n=n)


def flat(ratio: Ratio) -> list[float]:
    return [ratio.estimate, *ratio.ci95, *ratio.ci99, ratio.p, ratio.n]


FASTER = made(1.2, (1.15, 1.25), (1.1, 1.3))
SLOWER = made(0.8, (0.75, 0.85), (0.7, 0.9))
SAME = made(1.001, (0.99, 1.01), (0.98, 1.02))
QUIET = NullControl(SAME, ok=True)
NOISY = NullControl(made(1.08, (1.05, 1.11), (1.03, 1.14)), ok=False)


# The signed-rank statistic


@pytest.mark.parametrize(
    ("confidence", "first", "table"), [(0.95, 6, TABLE_95), (0.99, 8, TABLE_99)]
)
def test_critical_values_are_those_of_the_tables(
    confidence: float, first: int, table: list[int]
) -> None:
    assert [
        signed_rank.critical_value(n, confidence) for n in range(first, first + len(table))
    ] == table
    assert [signed_rank.critical_value(n, confidence) for n in range(first)] == [-1] * first


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", range(1, 13))
def test_critical_value_is_the_last_that_enumeration_allows(n: int, confidence: float) -> None:
    sums = [
        sum(itertools.compress(range(1, n + 1), chosen))
        for chosen in itertools.product((0, 1), repeat=n)
    ]
    limit = 1 - Fraction(str(confidence))
    k = signed_rank.critical_value(n, confidence)
    assert 2 * Fraction(sum(s <= k for s in sums), 2**n) <= limit
    assert 2 * Fraction(sum(s <= k + 1 for s in sums), 2**n) > limit


def test_a_tail_of_exactly_the_rest_is_allowed() -> None:
    # 2 P(W <= 0) = 1/8 for n = 4: what 87.5 % leaves, to the last bit.
    assert signed_rank.critical_value(4, 0.875) == 0


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_critical_value_refuses_what_is_no_confidence(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        signed_rank.critical_value(10, confidence)


def test_critical_value_refuses_a_negative_number_of_pairs() -> None:
    with pytest.raises(ValueError, match="not negative"):
        signed_rank.critical_value(-1, 0.95)


@property_test
@given(st.lists(st.integers(1, 30), max_size=11))
def test_subset_sums_are_those_of_enumeration(weights: list[int]) -> None:
    expected = [0] * (sum(weights) + 1)
    for chosen in itertools.product((0, 1), repeat=len(weights)):
        expected[sum(itertools.compress(weights, chosen))] += 1
    assert signed_rank.subset_sums(tuple(weights)) == tuple(expected)


def test_subset_sums_do_not_spill_where_counts_are_large() -> None:
    assert signed_rank.subset_sums((1,) * 64) == tuple(math.comb(64, k) for k in range(65))


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ([1.0], 1.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2 / 64),
        ([-1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4 / 64),
        # Ranks 1.5, 1.5, 3: the sums below or at 1.5 are 0, 1.5, 1.5 of 8.
        ([1.0, -1.0, 2.0], 6 / 8),
        # The zero takes rank 1 with it: 2 and 3 are left, both positive.
        ([0.0, 1.0, 2.0], 2 / 4),
        ([0.0, 0.0], 1.0),
        ([], 1.0),
    ],
)
def test_p_by_hand(values: list[float], p: float) -> None:
    assert signed_rank.signed_rank_p(values) == p


def test_zeros_keep_their_ranks() -> None:
    # Dropped first (Wilcoxon 1945), the ranks would be 1, 2 and 3 and the p-value 1: -3 against 1 +
    # 2. Ranked with the others (Pratt 1959) they are 3, 4 and 5: 5 against 3 + 4, of 0, 3, 4, 5, 7,
    # 8, 9, 12.
    assert signed_rank.signed_rank_p([0.0, 0.0, 1.0, 2.0, -3.0]) == 1.0
    assert signed_rank.signed_rank_p([0.0, 0.0, -1.0, 2.0, 3.0]) == 0.5
    assert signed_rank.signed_rank_p([-1.0, 2.0, 3.0]) == 0.5
    assert signed_rank.signed_rank_p([0.0] * 3 + [-1.0, -2.0, 3.0, 4.0]) == enumerated_p(
        [0.0] * 3 + [-1, -2, 3, 4]
    )


@property_test
@given(st.lists(st.integers(-4, 4).map(float), max_size=11))
def test_p_is_that_of_enumeration_with_ties_and_zeros(values: list[float]) -> None:
    assert signed_rank.signed_rank_p(values) == enumerated_p(values)


def test_estimate_and_intervals_by_hand() -> None:
    # 1..6: 21 averages; the 95 % interval runs from the first to the last, the median is the 11th.
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert signed_rank.hodges_lehmann(values) == 3.5
    assert signed_rank.signed_rank_interval(values, 0.95) == (1.0, 6.0)
    # With 8 values k is 3 at 95 %: averages 1, 1.5, 2, 2 come first, so the interval opens at the
    # fourth.
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert signed_rank.signed_rank_interval(values, 0.95) == (2.0, 7.0)
    assert signed_rank.signed_rank_interval(values, 0.99) == (1.0, 8.0)


def test_one_wild_value_moves_the_estimate_little() -> None:
    assert signed_rank.hodges_lehmann([0.0] * 9 + [1000.0]) == 0.0


@pytest.mark.parametrize(("confidence", "enough"), [(0.95, 6), (0.99, 8)])
def test_too_few_values_bound_nothing(confidence: float, enough: int) -> None:
    values = [0.1 * i for i in range(enough)]
    assert signed_rank.signed_rank_interval(values[:-1], confidence) == (-math.inf, math.inf)
    assert signed_rank.signed_rank_interval(values, confidence) == (values[0], values[-1])


@property_test
@given(
    st.sampled_from([0.95, 0.99]), st.lists(st.integers(-10_000, 10_000), min_size=8, max_size=14)
)
def test_interval_holds_just_what_the_test_does_not_reject(
    confidence: float, values: list[int]
) -> None:
    averages = [(x + y) / 2 for x, y in itertools.combinations_with_replacement(values, 2)]
    assume(len(set(averages)) == len(averages))  # with ties the interval may be wider
    low, high = signed_rank.signed_rank_interval(values, confidence)
    for at, inside in [
        (low + 0.25, True),
        (high - 0.25, True),
        (low - 0.25, False),
        (high + 0.25, False),
    ]:
        p = signed_rank.signed_rank_p([value - at for value in values])
        assert (p > 1 - confidence + 1e-12) is inside


# Ratios


def test_ratio_by_hand() -> None:
    before = [100.0 * 2**i for i in (1, 2, 3, 4, 5, 6, 7, 8)]
    ratio = statistics.ratio(before, [100.0] * 8)
    assert ratio.estimate == pytest.approx(2**4.5)
    assert ratio.ci95 == pytest.approx((2**2, 2**7))
    assert ratio.ci99 == pytest.approx((2**1, 2**8))
    assert ratio.p == 2 / 2**8
    assert ratio.n == 8


def test_ratio_of_equal_times_is_one() -> None:
    assert statistics.ratio([5] * 10, [5] * 10) == Ratio(1.0, (1.0, 1.0), (1.0, 1.0), 1.0, 10)


def test_few_pairs_have_infinite_ends() -> None:
    ratio = statistics.ratio([2.0, 3.0], [1.0, 1.0])
    assert ratio.ci95 == ratio.ci99 == (0.0, math.inf)


@property_test
@given(pairs)
def test_swapping_before_and_after_inverts_the_ratio(sample: list[tuple[int, int]]) -> None:
    before, after = zip(*sample, strict=True)
    one, other = statistics.ratio(before, after), statistics.ratio(after, before)
    assert one.estimate * other.estimate == pytest.approx(1)
    assert one.p == other.p
    for this, that in ((one.ci95, other.ci95), (one.ci99, other.ci99)):
        if len(sample) >= 8:
            assert this[0] * that[1] == pytest.approx(1)
            assert this[1] * that[0] == pytest.approx(1)


@property_test
@given(pairs, st.sampled_from([1e-9, 1e-3, 7.0, 1e6]))
def test_the_unit_of_time_does_not_matter(sample: list[tuple[int, int]], unit: float) -> None:
    before, after = zip(*sample, strict=True)
    one = statistics.ratio(before, after)
    other = statistics.ratio([b * unit for b in before], [a * unit for a in after])
    assert flat(other) == pytest.approx(flat(one))


@property_test
@given(pairs, st.sampled_from([0.5, 2.0, 20.0]))
def test_a_variant_c_times_slower_reads_c_times_less(
    sample: list[tuple[int, int]], factor: float
) -> None:
    before, after = zip(*sample, strict=True)
    one = statistics.ratio(before, after)
    other = statistics.ratio(before, [a * factor for a in after])
    assert other.estimate * factor == pytest.approx(one.estimate)


@property_test
@given(pairs)
def test_intervals_nest_around_the_estimate(sample: list[tuple[int, int]]) -> None:
    ratio = statistics.ratio(*zip(*sample, strict=True))
    assert ratio.ci99[0] <= ratio.ci95[0] <= ratio.estimate <= ratio.ci95[1] <= ratio.ci99[1]
    assert 0 < ratio.p <= 1


def test_ties_survive_rounding_in_the_logarithm() -> None:
    # ln 3 - ln 1 and ln 6 - ln 2 differ in the last bit; as ratios they are one value.
    assert len(set(statistics.log_ratios([3, 6, 9, 12, 15, 21], [1, 2, 3, 4, 5, 7]))) == 1


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ([1.0], [1.0, 2.0], "1 times before, 2 after"),
        ([], [], "no pair"),
        ([0.0], [1.0], "positive and finite, not 0.0"),
        ([1.0], [-1.0], "positive and finite, not -1.0"),
        ([1.0], [math.nan], "positive and finite, not nan"),
        ([math.inf], [1.0], "positive and finite, not inf"),
    ],
)
def test_ratio_refuses_what_is_no_pair_of_times(
    before: list[float], after: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        statistics.ratio(before, after)


# The null control and many fixes


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (1.2, False), (0.8, False)])
def test_null_control_must_contain_one(factor: float, ok: bool) -> None:
    before = [100.0 + i for i in range(12)]
    after = [time * factor * (1.001 if i % 2 else 0.999) for i, time in enumerate(before)]
    control = statistics.null_control(before, after)
    assert control.ok is ok
    assert control.ratio == statistics.ratio(before, after)
    assert control.blocks_ns == tuple(zip(before, after, strict=True))


def test_null_control_of_few_pairs_proves_nothing_bad() -> None:
    assert statistics.null_control([2.0] * 7, [1.0] * 7).ok


@pytest.mark.parametrize(
    ("ps", "adjusted"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.9], [1.0, 1.0]),
        # 2 x 0.02 is more than 1 x 0.03: the larger one is carried on.
        ([0.02, 0.03], [0.04, 0.04]),
    ],
)
def test_holm_by_hand(ps: list[float], adjusted: list[float]) -> None:
    assert statistics.holm(ps) == pytest.approx(tuple(adjusted))


@property_test
@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_never_lowers_and_keeps_the_order(ps: list[float]) -> None:
    adjusted = statistics.holm(ps)
    assert all(p <= a <= 1 for p, a in zip(ps, adjusted, strict=True))
    ranked = [a for _, a in sorted(zip(ps, adjusted, strict=True))]
    assert ranked == sorted(ranked)


def test_only_many_fixes_are_adjusted() -> None:
    assert statistics.adjusted_ps([FASTER] * 10 + [None]) == (None,) * 11
    assert statistics.adjusted_ps([FASTER] * 11) == pytest.approx((0.011,) * 11)
    assert statistics.adjusted_ps([None, *[FASTER] * 11]) == pytest.approx((None, *[0.011] * 11))


# Verdicts


@pytest.mark.parametrize(
    ("ratio", "found", "why"),
    [
        (FASTER, Verdict.FASTER, ""),
        (SLOWER, Verdict.SLOWER, ""),
        (SAME, Verdict.NO_CHANGE, ""),
        # Surely a gain, but a smaller one than asked for; and its mirror image.
        (
            made(1.02, (1.01, 1.05), (1.005, 1.06)),
            Verdict.INCONCLUSIVE,
            "could be anything from 1.01x to 1.05x",
        ),
        (
            made(0.98, (0.95, 0.99), (0.94, 0.995)),
            Verdict.INCONCLUSIVE,
            "could be anything from 0.95x to 0.99x",
        ),
        (made(1.02, (1.01, 1.029), (1.005, 1.06)), Verdict.NO_CHANGE, ""),
        # The 95 % interval alone does not decide.
        (
            made(1.1, (1.03, 1.18), (0.98, 1.21)),
            Verdict.INCONCLUSIVE,
            "at 99 % it could be anything from 0.98x to 1.21x",
        ),
        (
            made(0.9, (0.8, 0.97), (0.7, 1.02)),
            Verdict.INCONCLUSIVE,
            "at 99 % it could be anything from 0.70x to 1.02x",
        ),
        (
            made(1.03, (0.97, 1.09), (0.95, 1.1)),
            Verdict.INCONCLUSIVE,
            "could be anything from 0.97x to 1.09x",
        ),
        (
            made(1.0, (0.96, 1.01), (0.95, 1.02)),
            Verdict.INCONCLUSIVE,
            "could be anything from 0.96x to 1.01x",
        ),
        (
            made(1.0, (0.99, 1.04), (0.95, 1.05)),
            Verdict.INCONCLUSIVE,
            "could be anything from 0.99x to 1.04x",
        ),
        (
            made(1.01, (0.999, 1.04), (0.95, 1.05)),
            Verdict.INCONCLUSIVE,
            "could be anything from 0.999x to 1.04x",
        ),
        (
            made(1.2, (1.1, 1.3), (1.0, 1.4)),
            Verdict.INCONCLUSIVE,
            "at 99 % it could be anything from 1.000x to 1.40x",
        ),
    ],
)
def test_verdict_of_intervals(ratio: Ratio, found: Verdict, why: str) -> None:
    assert statistics.verdict(ratio, exercised=True, null=QUIET) == (found, why)


def test_minimum_effect_is_the_users() -> None:
    assert statistics.verdict(FASTER, min_effect=0.2)[0] is Verdict.FASTER
    assert statistics.verdict(FASTER, min_effect=0.21)[0] is Verdict.INCONCLUSIVE
    assert statistics.verdict(FASTER, min_effect=0.3)[0] is Verdict.NO_CHANGE
    assert statistics.verdict(SAME, min_effect=0.005)[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("ratio", [None, FASTER])
def test_a_line_that_did_not_run_has_no_speed(ratio: Ratio | None) -> None:
    expected = (Verdict.NOT_EXERCISED, "no line that the fix changes ran")
    assert statistics.verdict(ratio, exercised=False, null=NOISY) == expected
    assert statistics.verdict(FASTER, exercised=None)[0] is Verdict.FASTER


@pytest.mark.parametrize(
    ("ratio", "why"),
    [
        (None, "only 0 rounds; raise --epochs"),
        (dataclasses.replace(FASTER, n=1), "only 1 round; raise --epochs"),
        (dataclasses.replace(FASTER, n=7), "only 7 rounds; raise --epochs"),
    ],
)
def test_few_rounds_decide_nothing(ratio: Ratio | None, why: str) -> None:
    assert statistics.verdict(ratio, null=QUIET) == (Verdict.INCONCLUSIVE, why)


def test_eight_rounds_decide_and_the_remedy_is_the_callers() -> None:
    assert statistics.verdict(dataclasses.replace(FASTER, n=8)) == (Verdict.FASTER, "")
    few = statistics.verdict(dataclasses.replace(FASTER, n=5), remedy="raise --pairs")
    assert few == (Verdict.INCONCLUSIVE, "only 5 rounds; raise --pairs")


@pytest.mark.parametrize("ratio", [FASTER, SLOWER, SAME])
def test_a_noisy_machine_decides_nothing(ratio: Ratio) -> None:
    why = "machine too noisy: null control read 1.08x"
    assert statistics.verdict(ratio, null=NOISY) == (Verdict.INCONCLUSIVE, why)


@pytest.mark.parametrize(
    ("ratio", "control", "found"),
    [
        (made(1.04, (1.01, 1.06), (1.003, 1.08)), (1.02, (1.0, 1.04)), Verdict.INCONCLUSIVE),
        (made(1.04, (1.02, 1.05), (1.01, 1.06)), (0.99, (0.97, 1.0)), Verdict.FASTER),
        (made(0.96, (0.94, 0.99), (0.93, 0.995)), (0.98, (0.96, 1.0)), Verdict.INCONCLUSIVE),
        (made(0.96, (0.95, 0.98), (0.94, 0.99)), (1.01, (0.99, 1.03)), Verdict.SLOWER),
        (made(1.001, (0.99, 1.01), (0.98, 1.02)), (1.01, (0.99, 1.03)), Verdict.NO_CHANGE),
    ],
)
def test_a_change_is_more_than_what_the_null_control_reads(
    ratio: Ratio, control: tuple[float, tuple[float, float]], found: Verdict
) -> None:
    null = NullControl(made(*control, (0.95, 1.05)), ok=True)
    got, why = statistics.verdict(ratio, null=null)
    assert got is found
    assert ("the same code twice: " in why) == (found is Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("ratio", "found"),
    [
        (made(4.48, (4.0, 5.06), (1.3, 5.26)), Verdict.FASTER),
        (made(4.48, (4.0, 5.06), (1.29, 5.26)), Verdict.INCONCLUSIVE),
        (made(0.25, (0.2, 0.3), (0.19, 0.76)), Verdict.SLOWER),
        (made(0.25, (0.2, 0.3), (0.19, 0.78)), Verdict.INCONCLUSIVE),
        (made(4.48, (0.0, math.inf), (0.0, math.inf)), Verdict.INCONCLUSIVE),
    ],
)
def test_a_noisy_machine_decides_what_is_far_beyond_its_noise(ratio: Ratio, found: Verdict) -> None:
    """Of an H200: two copies of the original read 1.03 to 1.14; 1.14 squared is 1.2996."""
    got, why = statistics.verdict(ratio, null=NOISY)
    assert got is found
    noise = "null control read 1.08x"
    decided = found is not Verdict.INCONCLUSIVE
    assert why == (
        f"{noise}, and this is far beyond it" if decided else f"machine too noisy: {noise}"
    )


def test_a_null_control_off_by_little_is_not_shown_as_one() -> None:
    null = NullControl(made(1.004, (1.003, 1.005), (1.002, 1.2)), ok=False)
    assert statistics.verdict(FASTER, null=null)[1] == "machine too noisy: null control read 1.004x"


@pytest.mark.parametrize(
    ("ratio", "adjusted", "found"),
    [
        (FASTER, 0.0099, Verdict.FASTER),
        (FASTER, 0.01, Verdict.INCONCLUSIVE),
        (SLOWER, 0.02, Verdict.INCONCLUSIVE),
        (SAME, 1.0, Verdict.NO_CHANGE),
    ],
)
def test_many_fixes_need_a_smaller_p(ratio: Ratio, adjusted: float, found: Verdict) -> None:
    got, why = statistics.verdict(ratio, adjusted_p=adjusted)
    assert got is found
    assert ("Holm" in why) is (found is Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("ratio", "launches", "found", "unstable"),
    [
        # They overlap, if only just.
        (
            FASTER,
            [made(1.1, (1.0, 1.15), (0.9, 1.2)), made(1.3, (1.15, 1.5), (1.1, 1.6))],
            Verdict.FASTER,
            False,
        ),
        # Apart, and both alone a gain: it stands, with the remark.
        (
            FASTER,
            [made(1.1, (1.05, 1.15), (1.0, 1.2)), made(1.3, (1.2, 1.5), (1.1, 1.6))],
            Verdict.FASTER,
            True,
        ),
        # Apart, and one of them alone no gain.
        (
            FASTER,
            [made(1.0, (0.95, 1.1), (0.9, 1.2)), made(1.3, (1.2, 1.5), (1.1, 1.6))],
            Verdict.INCONCLUSIVE,
            True,
        ),
        (
            SLOWER,
            [made(0.7, (0.65, 0.72), (0.6, 0.8)), made(0.9, (0.85, 0.95), (0.8, 1.0))],
            Verdict.SLOWER,
            True,
        ),
        (
            SLOWER,
            [made(0.7, (0.65, 0.72), (0.6, 0.8)), made(1.0, (0.9, 1.05), (0.8, 1.1))],
            Verdict.INCONCLUSIVE,
            True,
        ),
        (
            SAME,
            [made(0.98, (0.975, 0.99), (0.97, 1)), made(1.02, (1.01, 1.025), (1, 1.03))],
            Verdict.NO_CHANGE,
            True,
        ),
        (
            SAME,
            [made(0.95, (0.94, 0.96), (0.93, 1)), made(1.02, (1.01, 1.025), (1, 1.03))],
            Verdict.INCONCLUSIVE,
            True,
        ),
    ],
)
def test_launches_apart_are_called_unstable(
    ratio: Ratio, launches: list[Ratio], found: Verdict, unstable: bool
) -> None:
    got, why = statistics.verdict(ratio, null=QUIET, launches=launches)
    assert got is found
    assert why.startswith("unstable across launches: ") is unstable
    assert unstable or why == ""


def test_unstable_launches_are_shown_beside_what_else_is_wrong() -> None:
    wide = made(1.03, (0.97, 1.09), (0.95, 1.1))
    launches = [made(0.98, (0.96, 0.99), (0.9, 1.1)), made(1.08, (1.02, 1.2), (0.9, 1.3))]
    assert statistics.verdict(wide, launches=launches) == (
        Verdict.INCONCLUSIVE,
        (
            "could be anything from 0.97x to 1.09x; unstable across launches: 0.98x [0.96, 0.99], "
            "1.08x [1.02, 1.20]"
        ),
    )


@pytest.mark.parametrize(
    ("cpu", "why"),
    [
        (made(1.0, (0.99, 1.01), (0.98, 1.02)), "CPU time disagrees: 1.000x [0.99, 1.01]"),
        (made(0.8, (0.7, 0.9), (0.6, 1)), "CPU time disagrees: 0.80x [0.70, 0.90]"),
        (made(1.0, (0.8, 1.15), (0.7, 1.3)), ""),  # the intervals meet
        (made(1.26, (1.255, 1.27), (1.25, 1.28)), "CPU time disagrees: 1.26x [1.25, 1.27]"),
        (None, ""),
    ],
)
def test_cpu_time_that_disagrees_is_told_and_decides_nothing(cpu: Ratio | None, why: str) -> None:
    assert statistics.verdict(FASTER, cpu=cpu) == (Verdict.FASTER, why)


def test_cpu_time_within_the_minimum_effect_agrees() -> None:
    near = made(1.21, (1.205, 1.215), (1.2, 1.22))
    tight = made(1.2, (1.199, 1.201), (1.19, 1.21))
    assert statistics.verdict(tight, cpu=near) == (Verdict.FASTER, "")


@property_test
@given(pairs, st.sampled_from([0.0, 0.03, 0.2]))
def test_swapping_before_and_after_turns_the_verdict(
    sample: list[tuple[int, int]], min_effect: float
) -> None:
    turned = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    before, after = zip(*sample, strict=True)
    one, _ = statistics.verdict(statistics.ratio(before, after), min_effect=min_effect)
    other, _ = statistics.verdict(statistics.ratio(after, before), min_effect=min_effect)
    assert other is turned.get(one, one)


def test_looks_are_fixed_and_each_can_decide() -> None:
    assert statistics.LOOKS == (12, 24, 48)
    assert all(
        signed_rank.critical_value(n, 0.99) >= 0 for n in (*statistics.LOOKS, statistics.MIN_PAIRS)
    )
    assert signed_rank.critical_value(statistics.MIN_PAIRS - 1, 0.99) < 0


# Launches as samples


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [
        (63.657, 1, 0.01),
        (9.925, 2, 0.01),
        (5.841, 3, 0.01),
        (4.604, 4, 0.01),
        (2.947, 15, 0.01),
        (2.228, 10, 0.05),
    ],
)
def test_student_p_is_that_of_the_tables(t: float, freedom: int, p: float) -> None:
    assert statistics.student_p(t, freedom) == pytest.approx(p, rel=2e-3)


@pytest.mark.parametrize(
    ("confidence", "freedom", "t"),
    [(0.95, 1, 12.706), (0.99, 3, 5.841), (0.95, 5, 2.571), (0.99, 5, 4.032), (0.99, 23, 2.807)],
)
def test_student_quantile_is_that_of_the_tables(confidence: float, freedom: int, t: float) -> None:
    assert statistics.student_quantile(confidence, freedom) == pytest.approx(t, rel=1e-3)


def test_the_interval_is_that_of_makings_where_these_differ() -> None:
    """Pairs within a making agree, so that their own interval is narrow: 99 % by the table, t =
    5.841 for 3 degrees of freedom."""
    logs = (0.1, 0.2, 0.3, 0.4)
    pairs = statistics.ratio([math.exp(log) for log in logs for _ in range(6)], [1.0] * 24)
    found = statistics.of_makings(pairs, logs)
    error = math.sqrt(sum((log - 0.25) ** 2 for log in logs) / 3 / 4)
    assert math.log(found.estimate) == pytest.approx(0.25)
    assert [math.log(end) for end in found.ci99] == pytest.approx(
        [0.25 - 5.841 * error, 0.25 + 5.841 * error], abs=1e-3
    )
    assert pairs.ci99[0] > 1 > found.ci99[0]
    assert (pairs.p < 0.01 < found.p, found.n) == (True, 24)


def test_the_interval_of_makings_is_never_narrower_than_that_of_pairs() -> None:
    pairs = statistics.ratio([1.2, 0.9, 1.3, 0.8, 1.1, 1.0, 1.15, 0.95] * 3, [1.0] * 24)
    found = statistics.of_makings(pairs, (0.031, 0.03, 0.029, 0.03))
    assert (found.ci95, found.ci99, found.p) == (pairs.ci95, pairs.ci99, pairs.p)


def test_one_making_decides_nothing() -> None:
    found = statistics.of_makings(statistics.ratio([2.0] * 12, [1.0] * 12), (math.log(2),))
    assert (found.estimate, found.ci95, found.p) == (pytest.approx(2), (0, math.inf), 1.0)
    assert statistics.verdict(found)[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("found", "logs", "nulls", "doubt"),
    [
        (Verdict.FASTER, (0.3, 0.29, 0.31, 0.3), (0.01, -0.01, 0.0, 0.01), ""),
        (Verdict.FASTER, (0.3, 0.3), (), ""),
        (Verdict.SLOWER, (-0.3, -0.29, -0.31, -0.3), (0.01, -0.01, 0.0, 0.01), ""),
        (Verdict.NO_CHANGE, (0.002, -0.001, 0.001, 0.0), (0.001, 0.0, -0.001, 0.0), ""),
        (Verdict.FASTER, (0.3,), (0.0,), "one launch decides nothing"),
        (Verdict.FASTER, (0.5, 0.5, 0.5, -0.01), (0.0,) * 20, "launches differ: 1.65x, 1.65x"),
        (Verdict.FASTER, (0.05, 0.5, 0.02, 0.9), (0.0,) * 4, "launches differ: 1.05x, 1.65x"),
        (Verdict.FASTER, (0.1, 0.1, 0.1, 0.1), (0.2, -0.2, 0.2, -0.2), "launches differ: 1.11x"),
        (Verdict.NO_CHANGE, (0.1, -0.1, 0.1, -0.1), (0.0,) * 4, "launches differ: 1.11x, 0.90x"),
    ],
)
def test_launches_bear_a_verdict_out_or_not(
    found: Verdict, logs: tuple[float, ...], nulls: tuple[float, ...], doubt: str
) -> None:
    said = statistics.Samples(logs, nulls).doubt(found, 0.03)
    assert said.startswith(doubt)
    assert bool(said) is bool(doubt)


def test_equal_programs_of_which_each_launch_has_a_speed_of_its_own_are_not_told_apart() -> None:
    chance = random.Random(3)

    def times(bias: float) -> list[float]:
        return [math.exp(bias + chance.gauss(0, 0.03)) for _ in range(6)]

    alone = wrong = 0
    for _ in range(200):
        launches = [[times(chance.gauss(0, 0.2)) for _ in range(3)] for _ in range(4)]
        before, after, null = (
            [time for one in launches for time in one[role]] for role in range(3)
        )
        found, control = statistics.ratio(before, after), statistics.null_control(before, null)
        logs, nulls = (
            tuple(math.log(statistics.ratio(one[0], one[role]).estimate) for one in launches)
            for role in (1, 2)
        )
        samples = statistics.Samples(logs, nulls)
        decided = (Verdict.FASTER, Verdict.SLOWER)
        alone += statistics.verdict(found, null=control)[0] in decided
        wrong += statistics.verdict(found, null=control, samples=samples)[0] in decided
    assert wrong <= 6 < alone
