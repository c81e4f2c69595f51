"""What is said beforehand of a busy machine, from recorded times."""

from __future__ import annotations

import itertools

import pytest

from torchlint.verify.machine import noise_probe


def test_quiet_machine_shows_small_changes() -> None:
    quiet = [(1 + number / 5000, 1.0) for number in range(12)]
    assert noise_probe.half_width(quiet, 24) < 0.01
    assert "changes of about" in noise_probe.words(noise_probe.half_width(quiet, 24), 24)


def test_busy_machine_is_told_beforehand() -> None:
    busy = [(1.0, 3.0), (3.0, 1.0), (1.0, 1.2), (2.0, 1.0)] * 3
    width = noise_probe.half_width(busy, 24)
    assert width >= noise_probe.HOPELESS
    assert "times will hardly answer" in noise_probe.words(width, 24)
    assert "results, waits and bytes do not depend on it" in noise_probe.words(width, 24)


def test_more_pairs_show_more() -> None:
    noise = [(1 + (number % 5) / 20, 1.0) for number in range(12)]
    assert noise_probe.half_width(noise, 48) == pytest.approx(
        noise_probe.half_width(noise, 12) / 2, rel=0.1
    )


def test_probe_gives_pairs() -> None:
    ticks = itertools.count(0, 0.03)
    found = noise_probe.probe(lambda: float(next(ticks)))
    assert len(found) == noise_probe.PAIRS
    assert [time for pair in found for time in pair] == pytest.approx([0.03] * 24)
