"""``profile --against``: what became of a step, its exit code and its line of history."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.trace.program import steps, written
from torchlint.cli.main import run
from torchlint.profile.change import Change, _interval, change
from torchlint.profile.report import Rank
from torchlint.report.history import read


def rank(*times: int, queued: float = 0.0) -> Rank:
    """Return a rank of which nothing but steps is known, which are as long as is said; in a part of
    each the training thread had no core."""
    each = tuple(
        SimpleNamespace(number=number, time=time, busy=None) for number, time in enumerate(times)
    )
    figures = SimpleNamespace(steps=SimpleNamespace(each=each))
    waits = {step.number: int(step.time * queued) for step in each} if queued else {}
    return cast(Rank, SimpleNamespace(figures=figures, queued=waits))


def found(now: tuple[int, ...], before: tuple[int, ...]) -> Change:
    result = change(rank(*now), rank(*before))
    assert result is not None
    return result


SLOW = tuple(range(1_300, 1_320))
FAST = tuple(range(1_000, 1_020))


def test_steps_that_lie_apart_have_a_verdict() -> None:
    faster, slower = found(FAST, SLOW), found(SLOW, FAST)
    assert (faster.verdict, slower.verdict) == ("faster", "slower")
    assert faster.ratio == pytest.approx(1 / slower.ratio)
    assert faster.ci95[0] < faster.ratio < faster.ci95[1]
    assert (faster.before_ns, faster.now_ns, faster.steps) == (1309.5, 1009.5, (20, 20))
    assert faster.longer == 0
    assert slower.longer == pytest.approx(0.297, abs=0.001)


def test_equal_steps_are_no_change_and_few_or_scattered_ones_are_open() -> None:
    assert found(FAST, FAST).verdict == "no change"
    assert found((900, 1_200, 800, 1_500), (1_000, 950, 1_300, 1_100)).verdict == "inconclusive"
    assert found((1_300,) * 4, (1_000,) * 4).verdict == "inconclusive"
    small = found(tuple(range(1_010, 1_030)), FAST)
    assert small.ci95[1] < 1
    assert small.verdict == "no change"
    assert change(rank(*FAST), rank(1, 2, 3)) is None


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [(0.0, 0.1, "slower"), (0.8, 0.8, "slower"), (0.0, 0.25, "inconclusive")],
)
def test_what_waiting_for_a_core_explains_is_no_change_of_the_program(
    before: float, now: float, verdict: str
) -> None:
    slower = change(rank(*SLOW, queued=now), rank(*FAST, queued=before))
    faster = change(rank(*FAST, queued=before), rank(*SLOW, queued=now))
    assert slower is not None
    assert faster is not None
    assert slower.verdict == verdict
    assert faster.verdict == {"slower": "faster"}.get(verdict, verdict)
    assert bool(slower.longer) == (verdict == "slower")
    assert slower.queued == (
        pytest.approx(before, abs=0.01) if before else None,
        pytest.approx(now, abs=0.01),
    )


def test_equal_steps_of_which_some_waited_for_a_core_are_open() -> None:
    waited = change(rank(*FAST, queued=0.3), rank(*FAST))
    assert waited is not None
    assert waited.verdict == "inconclusive"


def test_many_steps_are_thinned_evenly() -> None:
    many = found(tuple(range(100_000, 101_000)), tuple(range(130_000, 131_000)))
    assert many.verdict == "faster"
    assert many.steps == (1_000, 1_000)


@pytest.mark.parametrize(("one", "two"), [(4, 4), (5, 5), (3, 7), (6, 4)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_is_the_exact_one(one: int, two: int, level: float) -> None:
    """By counting all orders: of two equal samples, how often so few pairs lie below 0."""
    sums = [
        sum(sum(1 for late in range(early) if late not in chosen) for early in chosen)
        for chosen in map(set, itertools.combinations(range(one + two), one))
    ]
    at_most = [sum(each <= below for each in sums) / len(sums) for below in range(one * two)]
    cut = sum(share <= (1 - level) / 2 for share in at_most)
    logs = [float(number) for number in range(one * two)]
    wanted = (logs[cut - 1], logs[-cut]) if cut else (-math.inf, math.inf)
    assert _interval(logs, one, two, level) == wanted


def traces(folder: Path, before: int, now: int, count: int = 8) -> tuple[str, str]:
    """Write traces whose kernels, and so steps, are as long as is said."""
    old = written(folder / "old.json", steps(count, work=before).events)
    return old, written(folder / "new.json", steps(count, work=now).events)


def test_the_report_says_it_in_every_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = traces(tmp_path, 300_000, 900_000)
    arguments = ["profile", "-q", "--trace", new, "--against", old]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert f"Against {old}: a step is " in out
    assert re.search(r": slower; the GPU works for [\d.]+ us of it before, [\d.]+ ms now\. ", out)
    assert run([*arguments, "--output-format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)["change"]
    assert document["verdict"] == "slower"
    assert document["ratio"] == pytest.approx(document["before_ns"] / document["now_ns"], rel=0.1)
    for form in ("markdown", "html"):
        assert run([*arguments, "--output-format", form]) == 0
        assert "a step is" in capsys.readouterr().out


def test_a_step_that_takes_longer_than_the_limit_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = traces(tmp_path, 300_000, 900_000)
    slower = ["profile", "-q", "--trace", new, "--against", old]
    assert run([*slower, "--fail-above", "5%"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("torchlint: a step takes ")
    assert err.endswith(" % longer than before, more than 5 %\n")
    faster = ["profile", "-q", "--trace", old, "--against", new]
    assert run([*faster, "--fail-above", "5%"]) == 0
    same = ["profile", "-q", "--trace", new, "--against", new]
    assert run([*same, "--fail-above", "0%"]) == 0
    assert capsys.readouterr().err == ""


def test_what_a_trace_says_of_waiting_for_a_core_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = {**{str(number): 2_000_000 for number in range(7)}, "x": 1, "8": None}
    old = written(tmp_path / "old.json", steps(8, work=300_000).events)
    events = steps(8, work=900_000).events
    new = written(tmp_path / "new.json", events, torchlint_queued=waits)
    assert run(["profile", "-q", "--trace", new, "--against", old, "--fail-above", "5%"]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"now, .*\): inconclusive; .* no core for – of the steps before, \d\d\.\d % now", out
    )


def test_too_few_steps_give_no_verdict_and_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = traces(tmp_path, 300_000, 900_000, count=3)
    arguments = ["profile", "-q", "--trace", new, "--against", old]
    assert run(arguments) == 0
    assert "no verdict, as a trace has fewer than 4 marked steps" in capsys.readouterr().out
    assert run([*arguments, "--fail-above", "5%"]) == 2
    assert "has fewer than 4 marked steps" in capsys.readouterr().err


def test_it_is_kept_in_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = traces(tmp_path, 300_000, 900_000)
    place = str(tmp_path / "h.jsonl")
    arguments = ["profile", "-q", "--trace", new, "--history", place]
    assert run([*arguments, "--against", old]) == 0
    (entry,) = read(place)
    assert (entry.verdict, entry.before, entry.after) == ("slower", old, "new.json")
    assert run(arguments) == 2
    assert "--history goes with --against" in capsys.readouterr().err
    assert run(["profile", "--trace", new, "--against", old, "--history", old]) == 2
