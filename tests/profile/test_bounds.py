"""What fixing takes out of a trace, by effect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.trace.program import Machine, written
from torchlint.base.declaration import EFFECTS
from torchlint.profile.bounds import (
    Bound,
    Effects,
    Recording,
    Whole,
    bounds,
    ceiling,
    saved,
    together,
)
from torchlint.profile.replay import Dropped, Replay
from torchlint.trace.columns import Ints, Trace
from torchlint.trace.stream import read


@pytest.fixture
def played(tmp_path: Path) -> tuple[Trace, Replay]:
    """Return a step that has one of each: the host is late, so that all of it counts."""
    machine = Machine()
    machine.batch(2_000_000, 50_000)
    for _ in range(4):
        with machine.operator("aten::to"):
            machine.host(10_000)
            machine.upload(100_000)
        with machine.operator("aten::item"):
            machine.host(7_000)
            machine.item("item")
        with machine.operator("aten::mul"):
            machine.host(20_000)
            machine.launch(30_000)
            machine.host(20_000)
            machine.launch(2_000)
        machine.allocate(200_000)
        machine.free(90_000)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    trace = read(written(tmp_path / "t.json", machine.events))
    return trace, Replay(trace)


def rows(trace: Trace, name: str) -> Ints:
    return np.flatnonzero(trace.columns.name == trace.names.index(name))


def test_effects_take_out_what_they_say(played: tuple[Trace, Replay]) -> None:
    trace, replay = played
    effects = Effects(trace, replay)

    def less(effect: str, name: str = "aten::end") -> float:
        return saved(replay, effects.without(effect, rows(trace, name))) / 1_000

    assert less("none", "aten::to") == 0
    assert less("wait", "aten::item") == less("copy", "aten::item") == pytest.approx(4 * 15.5)
    assert less("copy", "aten::to") == pytest.approx(4 * 117, abs=1)
    assert less("wait", "aten::to") < less("copy", "aten::to")  # the next one waits for the copy
    assert less("host", "aten::to") == less("copy", "aten::to")
    assert less("wait", "aten::mul") == less("copy", "aten::mul") == 0
    # The device works behind the allocations, so that its time is worth nothing.
    assert less("host", "aten::mul") == less("gpu", "aten::mul") == pytest.approx(4 * 48)
    # No step is marked, so one launch of all is kept.
    assert less("launch", "aten::mul") < less("gpu", "aten::mul")
    assert less("loader") == pytest.approx(2_050, abs=1)
    assert less("memory") == pytest.approx(4 * 290, abs=10)


def test_what_is_taken_out_together_saves_no_less(played: tuple[Trace, Replay]) -> None:
    trace, replay = played
    effects = Effects(trace, replay)
    names = ("aten::to", "aten::item", "aten::mul")
    each = [(effect, effects.without(effect, rows(trace, name)))
            for effect in EFFECTS for name in names]  # fmt: skip
    nothing = Recording(replay, trace, Whole(replay.span))
    whole, found = bounds(replay, each, range(len(each)), nothing)
    assert whole == saved(replay, together(dropped for _, dropped in each))
    assert all(saved(replay, dropped) <= ceiling(replay, dropped) for _, dropped in each)
    assert all(0 <= bound.alone_ns <= whole for bound in found)
    assert all(0 <= bound.joint_ns <= whole for bound in found)
    assert [bound.basis for bound in found] == [effect for effect, _ in each]


def test_of_two_that_hide_each_other_each_counts_once_the_other_is_mended(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(500_000)
    for name in ("aten::first", "aten::second"):
        with machine.operator(name):
            machine.sync(name)
    machine.host(300_000)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    trace = read(written(tmp_path / "t.json", machine.events))
    replay = Replay(trace)
    effects = Effects(trace, replay)
    each = [("wait", effects.without("wait", rows(trace, name)))
            for name in ("aten::first", "aten::second")]  # fmt: skip
    for bound in bounds(replay, each, (0, 1), Recording(replay, trace, Whole(replay.span)))[1]:
        assert isinstance(bound, Bound)
        assert bound.alone_ns <= 2_000
        assert bound.joint_ns == pytest.approx(300_000, abs=8_000)


def looped(tmp_path: Path, *, device: bool = False) -> tuple[Trace, Replay]:
    """Return a step with many small operators in one statement, and few in another."""
    machine = Machine()
    if device:
        machine.launch(1_000)
    for name, operators in (("aten::loop", 90), ("aten::rest", 10)):
        with machine.operator(name):
            for _ in range(operators):
                with machine.operator("aten::add"):
                    machine.host(900_000 // operators)
    trace = read(written(tmp_path / "t.json", machine.events))
    return trace, Replay(trace)


def test_what_recording_took_is_no_part_of_a_bound(tmp_path: Path) -> None:
    trace, replay = looped(tmp_path)
    effects = Effects(trace, replay)
    each = [("host", effects.without("host", rows(trace, name)))
            for name in ("aten::loop", "aten::rest")]  # fmt: skip
    # A step without the profiler takes half as long; 4 us an event are sure.
    whole = Whole(replay.span // 2, 1, None, 4_000.0, 0.5)
    joint, found = bounds(replay, each, (0, 1), Recording(replay, trace, whole))
    assert [bound.recorded_ns for bound in found] == [900_000] * 2
    assert [bound.seen_ns for bound in found] == [900_000] * 2
    assert found[0].alone_ns == 900_000 - 91 * 4_000
    assert found[1].alone_ns == 900_000 - 11 * 4_000
    assert found[0].joint_ns == found[0].alone_ns
    assert joint == 1_800_000 - 102 * 4_000
    # Never below what is left where all became longer alike.
    dear = Whole(replay.span // 2, 1, None, 9_000.0, 0.5)
    assert bounds(replay, each, (0,), Recording(replay, trace, dear))[1][0].alone_ns == 450_000


def test_of_a_device_nothing_is_taken_off(tmp_path: Path) -> None:
    """The host's time in what is dropped becomes less, and what waits and work save stays."""
    trace, replay = looped(tmp_path, device=True)
    dropped = Effects(trace, replay).without("host", rows(trace, "aten::loop"))
    whole = Whole(replay.span // 2, 1, None, 4_000.0, 0.5)
    (bound,) = bounds(replay, [("host", dropped)], (0,), Recording(replay, trace, whole))[1]
    assert (bound.alone_ns, bound.recorded_ns) == (900_000 - 91 * 4_000, 900_000)
    waits = Dropped(dropped.waits, range(len(replay.work)), None)
    (bound,) = bounds(replay, [("wait", waits)], (0,), Recording(replay, trace, whole))[1]
    assert bound.recorded_ns is None


def test_where_the_device_is_what_a_step_waits_for_the_host_saves_no_more(tmp_path: Path) -> None:
    machine = Machine()
    with machine.operator("aten::loop"):
        for _ in range(10):
            with machine.operator("aten::add"):
                machine.host(10_000)
            machine.launch(30_000)
    with machine.operator("aten::item"):
        machine.item("item")
    trace = read(written(tmp_path / "t.json", machine.events))
    replay = Replay(trace)
    dropped = Effects(trace, replay).without("host", rows(trace, "aten::add"))
    seen = saved(replay, dropped)
    assert 0 < seen < 20_000  # of 100 us: the device is what takes long
    recording = Recording(replay, trace, Whole(replay.span // 2, 1, None, 800.0, 0.5))
    (bound,) = bounds(replay, [("host", dropped)], (0,), recording)[1]
    assert bound.alone_ns == seen
