"""What a step goes into without the profiler, from what was measured under it."""

from __future__ import annotations

import pytest

from tests.profile.divided import divided
from torchlint.profile.account import account
from torchlint.trace.division import LOADING, REST, WAITING

CALLS, OPERATORS = "calls of the driver", "operators"
DEVICE = {"computing": 300, "copying alone": 80, "communicating alone": 0}
EVENTS = {WAITING: 9, CALLS: 20, OPERATORS: 50, REST: 10, LOADING: 9}


def test_a_device_takes_as_long_with_the_profiler_as_without() -> None:
    parts = divided(3, 2_000, {WAITING: 0, OPERATORS: 1_500}, DEVICE)
    for step in (500, 1_000, 2_000, 4_000):
        found = account(parts, step, None, 0.0)
        assert found.busy == 380
        assert found.device == {**DEVICE, "idle": step - 380}
        assert sum(found.host.values()) == pytest.approx(step)


def test_a_device_that_has_more_work_than_a_step_lasts_is_never_idle() -> None:
    found = account(divided(3, 400, {WAITING: 100}, DEVICE), 190, None, 0.0)
    assert found.busy == 380
    assert found.device == {
        "computing": 150, "copying alone": 40, "communicating alone": 0, "idle": 0
    }  # fmt: skip


def test_what_recording_took_is_taken_off_and_waiting_fills_the_step() -> None:
    host = {WAITING: 100, CALLS: 200, OPERATORS: 500}
    parts = divided(3, 1_000, host, DEVICE, EVENTS)
    found = account(parts, 900, None, 2.0)
    assert found.host == {LOADING: 0, WAITING: 160, CALLS: 160, OPERATORS: 400, REST: 180}
    assert list(found.host) == [LOADING, WAITING, CALLS, OPERATORS, REST]
    # It waits no longer than before, and what the step became shorter by: the rest is the host's.
    assert account(parts, 990, None, 4.0).host[WAITING] == 110
    # Where more than recording made it longer, all of the host's becomes shorter alike.
    tight = account(parts, 350, None, 2.0).host
    assert tight[WAITING] == 0
    assert tight[CALLS] / tight[OPERATORS] == pytest.approx(160 / 400)
    assert sum(tight.values()) == pytest.approx(350)


def test_data_is_waited_for_as_long_as_without_the_profiler() -> None:
    parts = divided(3, 1_000, {LOADING: 600, OPERATORS: 300})
    assert account(parts, 700, 450.0, 0.0).host == {LOADING: 450, OPERATORS: 187.5, REST: 62.5}
    assert account(parts, 1_000, None, 0.0).host[LOADING] == 600
    assert account(parts, 400, 900.0, 0.0).host[LOADING] == 400


def test_on_a_cpu_what_is_left_is_other_work_of_the_host() -> None:
    parts = divided(3, 1_000, {OPERATORS: 700}, None, EVENTS)
    found = account(parts, 950, None, 4.0)
    assert found.device is None
    assert found.busy is None
    assert found.host == {LOADING: 0, OPERATORS: 500, REST: 450}
