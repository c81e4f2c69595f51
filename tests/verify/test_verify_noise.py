"""The rule of the verdict on noise: played on synthetic drift with a fixed seed, and what the null control is for.

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


@pytest.mark.parametrize("launches", [1, 2])
def test_equal_programs_are_seldom_told_apart_and_gains_are_found(noise: Any, launches: int) -> None:
    drifting = noise.synthetic(100, max(statistics.LOOKS), noise.SYNTHETIC_SEED)
    table = noise.rates(drifting, launches, runs=100, seed=launches)
    assert list(table) == ["n=12", "n=24", "n=48", "looks 12, 24, 48"]
    for cell, values in table.items():
        assert values["false_verdicts_%"] <= 3, cell
        assert values["power_1.25_%"] >= 90, cell
    assert table["n=48"]["power_1.10_%"] >= 90


def shifted(noise: Any, role: int, factor: float) -> list[tuple[tuple[float, ...], ...]]:
    """Return a launch of equal programs in which one process is slower by a factor."""
    chance = random.Random(1)
    series = [[100 + chance.random() for _ in range(24)] for _ in range(noise.ROLES)]
    series[role] = [time * factor for time in series[role]]
    return [tuple(map(tuple, series))]


def test_a_slow_original_is_caught_by_the_null_control(noise: Any) -> None:
    played = noise.play(shifted(noise, 0, 1.1), 24, 1.0)
    assert (played.found, played.null_ok, played.without_null) == (Verdict.INCONCLUSIVE, False, Verdict.FASTER)


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
