"""Which steps are of another kind than the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trace.program import Machine, written
from torchlint.trace.division import division
from torchlint.trace.stream import read
from torchlint.trace.typical import kind_of, odd

NOTHING: list[str] = []


@pytest.mark.parametrize(
    ("times", "waits", "found"),
    [
        ((20, 22, 24, 689, 26), (), [3]),
        ((20, 22, 24, 9, 26), (), [3]),
        ((20, 22, 24, 26, 30), (), []),
        # What more than one in four do is the program's way.
        ((10, 30, 10, 30, 10), (), []),
        ((10, 12, 50), (), []),
        # Workers hand out their batches in bursts.
        ((10, 10, 10, 110), (0, 0, 0, 100), []),
        ((10, 10, 10, 110), (0, 0, 0, 50), [3]),
    ],
)
def test_a_step_far_from_the_others_is_of_another_kind(
    times: tuple[int, ...], waits: tuple[int, ...], found: list[int]
) -> None:
    known = odd(times, waits or [0] * len(times), [NOTHING] * len(times))
    assert [at for at, far in enumerate(known) if far] == found


def test_what_a_step_did_that_others_did_not_makes_it_one_where_it_took_longer() -> None:
    why = [NOTHING, ["save"], ["evaluation"], NOTHING]
    assert odd((10, 9, 13, 11), [0] * 4, why) == [False, False, True, False]
    assert odd((10, 13), [0] * 2, [["save"], ["evaluation"]]) == [False, False]
    assert odd((10, 9, 11), [0] * 3, [["pass"], ["pass"], NOTHING]) == [False] * 3
    assert kind_of(("pass", "evaluation")) == "evaluation"
    assert kind_of(()) == ""


def program(
    tmp_path: Path, evaluating: int | None, again: int | None = None, **meta: Any
) -> list[tuple[str, ...]]:
    """Return what each of four steps did: a forward pass of three operators with a graph, and in
    one of them or two, if any, two passes more without."""
    machine = Machine()
    for number in range(4):
        begun = machine.now
        for place in range(3 * (3 if number in (evaluating, again) else 1)):
            recorded = {"Sequence number": place} if place < 3 else {}
            machine.event("cpu_op", "aten::linear", machine.now, 1_000, **recorded)
            machine.host(1_000)
        for _ in range(5):  # of the optimizer
            machine.event("cpu_op", "aten::_foreach_add_", machine.now, 1_000)
            machine.host(1_000)
        machine.event("user_annotation", f"ProfilerStep#{number}", begun, machine.now - begun)
    trace = read(written(tmp_path / "t.json", machine.events, **meta))
    found = division(trace, np.zeros(len(trace.columns.ts), dtype=np.bool_))
    assert found is not None
    return [part.why for part in found.each]


def test_a_forward_pass_without_a_graph_is_seen(tmp_path: Path) -> None:
    found = program(tmp_path, 2, torchlint_marks={})
    assert found == [(), (), ("forward",), ()]
    assert program(tmp_path, None, torchlint_marks={}) == [()] * 4
    assert program(tmp_path, 2, again=3, torchlint_marks={}) == [()] * 4  # the program's way
    assert program(tmp_path, 2) == [()] * 4  # not ours: nothing is known of it


def test_the_recorder_tells_what_steps_did(tmp_path: Path) -> None:
    told = {"1": ["save"], "2": ["pass"], "3": []}
    found = program(tmp_path, 2, torchlint_marks={}, torchlint_steps=told)
    assert found == [(), ("save",), ("pass", "forward"), ()]
    for strange in ({"1": 5, "2": ["other", 7]}, [], 3):
        found = program(tmp_path, None, torchlint_marks={}, torchlint_steps=strange)
        assert found == [()] * 4
