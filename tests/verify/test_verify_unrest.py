"""What is said beforehand of a busy machine, from recorded times."""

from __future__ import annotations

import itertools

import pytest

from torchlint.verify.machine import unrest


def test_quiet_machine_shows_small_changes() -> None:
    quiet = [(1 + number / 5000, 1.0) for number in range(12)]
    assert unrest.half_width(quiet, 24) < 0.01
    assert "changes of about" in unrest.words(unrest.half_width(quiet, 24), 24)


def test_busy_machine_is_told_beforehand() -> None:
    busy = [(1.0, 3.0), (3.0, 1.0), (1.0, 1.2), (2.0, 1.0)] * 3
    width = unrest.half_width(busy, 24)
    assert width >= unrest.HOPELESS
    assert "times will hardly answer" in unrest.words(width, 24)
    assert "results, waits and bytes do not depend on it" in unrest.words(width, 24)


def test_more_pairs_show_more() -> None:
    noise = [(1 + (number % 5) / 20, 1.0) for number in range(12)]
    assert unrest.half_width(noise, 48) == pytest.approx(unrest.half_width(noise, 12) / 2, rel=0.1)


def test_probe_gives_pairs() -> None:
    ticks = itertools.count(0, 0.03)
    found = unrest.probe(lambda: float(next(ticks)))
    assert len(found) == unrest.PAIRS
    assert [time for pair in found for time in pair] == pytest.approx([0.03] * 24)
