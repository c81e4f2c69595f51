"""The rule of the verdict on noise: played on synthetic drift with a fixed seed, and what the null
control is for.

No time is measured here; ``benchmarks/aa_noise.py`` records those of a machine.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchlint.verify import statistics
from torchlint.verify.model import Verdict
from torchlint.verify.signed_rank import signed_rank_p

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def noise() -> Iterator[Any]:
    """The benchmark as a module."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("aa_noise")
    finally:
        sys.path.remove(str(BENCHMARKS))
        sys.modules.pop("aa_noise", None)


@pytest.mark.slow
@pytest.mark.parametrize("launches", [1, 4])
def test_equal_programs_are_seldom_told_apart_and_gains_are_found(
    noise: Any, launches: int
) -> None:
    drifting = noise.synthetic(100, max(statistics.LOOKS), noise.SYNTHETIC_SEED)
    table = noise.rates(drifting, launches, runs=100, seed=launches)
    assert list(table) == ["n=12", "n=24", "n=48", "looks 12, 24, 48"]
    for cell, values in table.items():
        assert values["false_verdicts_%"] <= 3, cell
        assert values["power_1.25_%"] >= 90, cell
    assert table["n=48"]["power_1.10_%"] >= 90


def test_looks_together_err_no_more_often_than_one_test() -> None:
    levels = statistics.levels(statistics.LOOKS)
    assert sum(levels) == pytest.approx(statistics.ALPHA)
    assert all(
        level > 2 / 2**pairs for level, pairs in zip(levels, statistics.LOOKS, strict=True)
    ), "none is idle"
    chance = random.Random(7)
    wrong = 0
    for _ in range(300):
        logs = [chance.gauss(0, 0.1) for _ in range(max(statistics.LOOKS))]
        looks = zip(levels, statistics.LOOKS, strict=True)
        wrong += any(signed_rank_p(logs[:pairs]) <= level for level, pairs in looks)
    assert wrong <= 6, "300 runs at 1 % err three times; more than six times in 3 of 100 such tests"


def test_looks_err_seldom_on_recorded_noise(noise: Any) -> None:
    import json

    recording = json.loads(
        (BENCHMARKS / "results" / "aa-noise-2026-11-21.json").read_text(encoding="utf-8")
    )
    launches = [tuple(map(tuple, one["ms_per_step"])) for one in recording["recording"]["launches"]]
    for count, table in noise.all_rates(launches, 30).items():
        assert table["looks 12, 24, 48"]["false_verdicts_%"] <= 7, count


def shifted(noise: Any, role: int, factor: float) -> list[tuple[tuple[float, ...], ...]]:
    """Return a launch of equal programs in which one process is slower by a factor."""
    chance = random.Random(1)
    series = [[100 + chance.random() for _ in range(24)] for _ in range(noise.ROLES)]
    series[role] = [time * factor for time in series[role]]
    return [tuple(map(tuple, series))]


def test_a_slow_original_is_caught_by_the_null_control(noise: Any) -> None:
    played = noise.play(shifted(noise, 0, 1.1), 24, 1.0)
    assert (played.found, played.null_ok, played.without_null) == (
        Verdict.INCONCLUSIVE,
        False,
        Verdict.FASTER,
    )


def test_a_slow_fix_is_not_the_null_controls_business(noise: Any) -> None:
    played = noise.play(shifted(noise, 2, 1.1), 24, 1.0)
    assert (played.found, played.null_ok) == (Verdict.SLOWER, True)


def test_looks_end_with_the_first_that_decides(noise: Any) -> None:
    def looks(*found: Verdict) -> list[Any]:
        return [noise.Played(verdict, True, verdict) for verdict in found]

    unsure, faster, same = Verdict.INCONCLUSIVE, Verdict.FASTER, Verdict.NO_CHANGE
    assert noise.by_looks(looks(unsure, faster, same)) is faster
    assert noise.by_looks(looks(same, faster, faster)) is same
    assert noise.by_looks(looks(unsure, unsure, unsure)) is unsure


def test_short_recordings_are_left_out(noise: Any) -> None:
    long, short = noise.synthetic(1, 48, 1), noise.synthetic(1, 24, 1)
    assert list(noise.all_rates([*long, *short], 1)) == ["1 launch", "2 launches"]
    assert list(noise.all_rates(short * 2, 1)) == ["2 launches"]
