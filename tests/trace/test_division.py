"""What a step went into adds up to the step, for the host and for the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trace.program import Machine, steps, written
from torchlint.profile.replay import Replay
from torchlint.trace.columns import Trace
from torchlint.trace.division import Division, division
from torchlint.trace.stream import read
from torchlint.trace.window import window


def divided(trace: Trace) -> Division:
    replay = Replay(trace)
    waiting = np.zeros(len(trace.columns.ts), dtype=np.bool_)
    waiting[replay.calls[replay.blocking]] = True
    found = division(trace, waiting)
    assert found is not None
    return found


def test_the_hosts_side_adds_up_to_the_step(tmp_path: Path) -> None:
    found = divided(read(written(tmp_path / "t.json", steps(4).events)))
    assert found.steps == 4
    assert all(sum(part.host.values()) == part.time for part in found.each)
    assert sum(found.host.values()) == pytest.approx(found.step)
    assert found.device is not None
    assert found.device["computing"] == 300_000  # three kernels a step
    assert found.host["waiting for the device"] > 0
    assert found.host["calls of the driver"] > 0
    assert found.events["calls of the driver"] >= 3


def test_the_work_of_a_step_counts_whenever_it_runs(tmp_path: Path) -> None:
    """A step that waits for nothing is over long before what it launched."""
    machine = Machine()
    for number in range(3):
        begun = machine.now
        machine.launch(50_000)
        machine.launch(7_000, name="Memcpy DtoD (Device -> Device)", cat="gpu_memcpy")
        machine.event("user_annotation", f"ProfilerStep#{number}", begun, machine.now - begun)
    found = divided(read(written(tmp_path / "t.json", machine.events)))
    each = [part.device for part in found.each]
    assert each == [each[0]] * 3
    assert found.step < 20_000
    assert found.device == {
        "computing": 50_000, "copying alone": 7_000, "communicating alone": 0
    }  # fmt: skip


def test_a_trace_without_steps_is_not_divided(tmp_path: Path) -> None:
    events = [each for each in steps(2).events if "ProfilerStep" not in each["name"]]
    trace = read(written(tmp_path / "t.json", events))
    assert division(trace, np.zeros(len(trace.columns.ts), dtype=np.bool_)) is None


def host(name: str, ts: float, dur: float, cat: str = "cpu_op") -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}


def of_a_cpu(tmp_path: Path, **meta: Any) -> Trace:
    """Two steps of 100 us: a batch, an operator in a mark, and backward on a thread of its own; the
    last mark ends when its recorder has."""
    events = [
        host("ProfilerStep#1", 0, 100, "user_annotation"),
        host("ProfilerStep#2", 100, 100, "user_annotation"),
        host("enumerate(DataLoader)#_SingleProcess.__next__", 10, 20, "user_annotation"),
        host("aten::stack", 15, 10),  # in the loader: it is waiting for data
        host("tl#1", 40, 30),
        host("aten::mm", 45, 10),
        {**host("autograd::engine::evaluate_function: MmBackward0", 120, 40), "tid": 2},
        {**host("aten::mm", 130, 20), "tid": 3},  # of another thread, nobody's
        host("tl#2", 190, 500),
        host("aten::ones", 300, 20),
    ]
    return read(written(tmp_path / "t.json", events, **meta))


def test_a_step_of_a_cpu_is_data_operators_and_the_rest(tmp_path: Path) -> None:
    found = divided(of_a_cpu(tmp_path, torchlint_marks={}))
    assert found.device is None
    assert found.host == {
        "waiting for data": 10_000,
        "operators": 25_000,
        "other work of the host": 65_000,
    }
    assert found.events == {
        "waiting for data": 1,  # of two in one of two steps
        "operators": 1,
        "other work of the host": 2,
    }


def test_what_the_recorder_does_at_the_end_is_not_the_programs(tmp_path: Path) -> None:
    table = {"2": ["a.py", 1, 1, "f"]}
    trace = window(of_a_cpu(tmp_path, torchlint_marks=table))
    names = [trace.names[name] for name in trace.columns.name.tolist()]
    assert "aten::ones" not in names
    assert int(trace.columns.end.max() - trace.columns.ts.min()) == 200_000
    assert len(window(of_a_cpu(tmp_path), all_steps=True).columns.ts) == 10
