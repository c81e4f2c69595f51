"""The drawing of a step: what is where, how much of it, and that it stays small."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from tests.trace.program import Machine, steps, written
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.report import report, summarised
from torchlint.profile.sites import Sources
from torchlint.profile.timeline import DATA, LAUNCHES, MOST, OPERATORS, WAITS, Timeline, timeline
from torchlint.profile.waits import waits


def drawn(folder: Path, machine: Machine) -> Timeline:
    path = written(folder / "t.json", machine.events)
    counted, trace = summarised([path], keep=lambda number: True)
    assert trace is not None
    rank = report(counted, (), "").ranks[0]
    return timeline(trace, rank, waits(Replay(trace), Places(trace, Sources(())), 0).rows)


def test_a_step_shows_what_ran_where(tmp_path: Path) -> None:
    machine = steps(5, work=300_000)
    found = drawn(tmp_path, machine)
    assert found.step is not None
    assert found.step < 4  # the last one may lack work
    host, main, talk = found.tracks
    assert {bar.kind for bar in host.bars} == {LAUNCHES, WAITS}
    assert main.name == "GPU stream 7"
    assert sum(bar.time for bar in main.bars if bar.kind == "compute") == 900_000
    assert [bar.kind for bar in talk.bars] == ["communication"]
    waited = [bar for bar in host.bars if bar.kind == WAITS]
    assert [bar.name for bar in waited] == ["cudaDeviceSynchronize"]
    ends = [bar.start + bar.time for track in found.tracks for bar in track.bars]
    assert max(ends) <= found.time


def test_the_median_step_is_the_one_that_took_the_median_time(tmp_path: Path) -> None:
    machine = Machine()
    for number, work in enumerate((900_000, 100_000, 300_000, 5_000_000)):
        begun = machine.now
        machine.launch(work)
        machine.sync()
        machine.step(number, begun)
    assert drawn(tmp_path, machine).step == 2


def test_without_steps_all_is_drawn(tmp_path: Path) -> None:
    machine = Machine()
    machine.event("cpu_op", "aten::mm", machine.now, 40_000)
    machine.event("cpu_op", "aten::inner", machine.now + 10_000, 10_000)
    machine.host(50_000)
    machine.event(
        "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        machine.now, 30_000,
    )  # fmt: skip
    found = drawn(tmp_path, machine)
    assert (found.step, found.time) == (None, 80_000)
    (host,) = found.tracks
    assert [(bar.kind, bar.time, bar.name) for bar in host.bars if bar.kind == OPERATORS] == [
        (OPERATORS, 40_000, "aten::mm")
    ]
    assert [bar.time for bar in host.bars if bar.kind == DATA] == [30_000]


def test_what_is_too_short_to_see_becomes_one_bar(tmp_path: Path) -> None:
    """Nothing is lost by it: counts and times add up."""
    rng = random.Random(3)
    machine = Machine()
    begun = machine.now
    count = 30_000
    for _ in range(count):
        machine.launch(rng.randrange(500, 3_000), rng.choice((7, 8, 9)))
        machine.host(rng.randrange(200))
    machine.sync()
    machine.step(0, begun)
    found = drawn(tmp_path, machine)
    bars = [bar for track in found.tracks for bar in track.bars]
    assert 500 < len(bars) <= MOST
    inside = [
        event
        for event in machine.events
        if event["cat"] == "kernel" and event["ts"] * 1000 < machine.now
    ]
    assert sum(bar.count for bar in bars if bar.kind == "compute") == len(inside) == count
    worked = sum(event["dur"] * 1000 for event in inside)
    busy = sum(bar.busy for bar in bars if bar.kind == "compute")
    assert abs(worked - busy) < 1_000


def test_a_queue_rises_and_falls(tmp_path: Path) -> None:
    machine = Machine()
    begun = machine.now
    for _ in range(10):
        machine.launch(1_000_000)
    machine.sync()
    machine.step(0, begun)
    (level,) = drawn(tmp_path, machine).queues
    most = np.array(level.most)
    assert most.max() == 9
    assert (np.diff(most[1:]) <= 0).all()
    assert most[-1] == 0
