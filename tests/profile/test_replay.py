"""Traces played again: nothing dropped is the trace itself, dropping makes it shorter, and of
programs whose truth is known by how much."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.trace.program import BEGIN, HOST, OTHER, Machine, steps, written
from torchlint.profile.replay import Dropped, Replay
from torchlint.trace.columns import Trace
from torchlint.trace.stream import read

PROGRAMS = 300
Instruction = Callable[[Machine], None]


def ready(machine: Machine, tmp_path: Path) -> tuple[Trace, Replay]:
    trace = read(written(tmp_path / "t.json", machine.events))
    return trace, Replay(trace)


def program(seed: int) -> list[Instruction]:
    """Return a random training loop, unrolled: what it does is the same whatever is dropped."""
    source = random.Random(seed)
    body = [source.choice("hhllllLLsSimdb") for _ in range(source.randrange(6, 20))]
    busy = source.choice((3_000, 20_000, 80_000, 300_000))
    slow = source.choice((2_000, 15_000, 60_000))
    found: list[Instruction] = []

    def time(most: int) -> int:
        return source.randrange(500, 2 * most)

    def backward(host: list[int], work: list[int]) -> Instruction:
        def run(machine: Machine) -> None:
            machine.thread = OTHER
            for pause, took in zip(host, work, strict=True):
                machine.event("cpu_op", "autograd::engine::evaluate_function", machine.now, pause)
                machine.host(pause)
                machine.launch(took)
            machine.thread = HOST

        return run

    def instruction(word: str, place: str) -> Instruction:
        host, work, on = time(slow), time(busy), source.choice((7, 20))
        if word == "b":
            return backward([time(slow) for _ in range(3)], [time(busy) for _ in range(3)])

        def run(machine: Machine) -> None:
            if word in "hm":
                machine.host(host)
            if word in "lLm":
                machine.launch(work, 20 if word == "L" else 7)
            if word in "sS":
                machine.sync(place, 7 if word == "S" else None)
            if word == "i":
                machine.item(place)
            if word == "d":
                machine.depend(on, 27 - on)
                machine.launch(work, on)

        return run

    for _ in range(source.randrange(3, 9)):
        found += [instruction(word, f"{word}{at}") for at, word in enumerate(body)]
    return found


def ran(instructions: list[Instruction], dropped: frozenset[str] = frozenset()) -> Machine:
    machine = Machine(dropped=dropped)
    machine.event("user_annotation", "ProfilerStep#1", machine.now, 0)
    for instruction in instructions:
        instruction(machine)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    return machine


def span(machine: Machine) -> int:
    ends = (round((event["ts"] + event["dur"]) * 1000) for event in machine.events)
    return max(ends) - BEGIN


def errors(tmp_path: Path) -> list[float]:
    """Return how far the predicted saving of each place of the programs lies above the true one, as
    a share of the span; each replay is held against identity and monotony."""
    found = []
    for seed in range(PROGRAMS):
        instructions = program(seed)
        machine = ran(instructions)
        trace, replay = ready(machine, tmp_path)
        assert replay.span == replay.play(Dropped()) == span(machine)
        starts = trace.columns.ts[replay.calls]
        for place, begun in machine.calls.items():
            calls = np.flatnonzero(np.isin(starts, begun))
            work = np.flatnonzero(np.isin(replay.launched, calls))
            dropped = Dropped(calls.tolist(), work.tolist())
            predicted = replay.span - replay.play(dropped)
            assert 0 <= predicted <= replay.span
            truth = span(machine) - span(ran(instructions, frozenset({place})))
            found.append((predicted - truth) / replay.span)
    return found


@pytest.mark.slow
def test_savings_of_programs_with_known_truth(tmp_path: Path) -> None:
    off = np.array(errors(tmp_path))
    assert len(off) > PROGRAMS
    assert np.percentile(np.abs(off), 95) <= 0.01
    assert np.mean(off > 0.01) <= 0.01


@pytest.mark.parametrize("seed", range(15))
def test_nothing_dropped_is_the_trace_and_more_dropped_is_never_longer(
    tmp_path: Path, seed: int
) -> None:
    machine = ran(program(seed))
    _, replay = ready(machine, tmp_path)
    assert replay.play(Dropped()) == replay.span
    source = random.Random(seed)
    waits: set[int] = set()
    work: set[int] = set()
    last = replay.span
    for _ in range(8):
        waits |= set(source.sample(range(len(replay.calls)), min(3, len(replay.calls))))
        work |= set(source.sample(range(len(replay.work)), min(3, len(replay.work))))
        now = replay.play(Dropped(waits, work))
        assert 0 <= now <= last
        last = now


def test_a_wait_that_the_next_one_takes_over_saves_nothing(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(500_000)
    machine.sync("first")
    machine.sync("second")
    machine.event("cpu_op", "aten::end", machine.now, 0)
    trace, replay = ready(machine, tmp_path)
    first = np.flatnonzero(trace.columns.ts[replay.calls] == machine.calls["first"][0])
    assert replay.waited[first] > 490_000
    assert replay.span - replay.play(Dropped(first.tolist())) <= 1_000


def test_a_wait_before_host_work_saves_what_overlaps(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(500_000)
    machine.sync("first")
    machine.host(200_000)
    machine.launch(100_000)
    machine.sync("last")
    machine.event("cpu_op", "aten::end", machine.now, 0)
    trace, replay = ready(machine, tmp_path)
    first = np.flatnonzero(trace.columns.ts[replay.calls] == machine.calls["first"][0])
    saved = replay.span - replay.play(Dropped(first.tolist()))
    assert saved == pytest.approx(200_000, abs=8_000)


def test_work_of_the_device_can_be_taken_out(tmp_path: Path) -> None:
    machine = Machine()
    machine.host(1_000_000)
    machine.launch(300_000)
    machine.sync("end")
    _, replay = ready(machine, tmp_path)
    assert replay.span - replay.play(Dropped(work=[0])) == pytest.approx(300_000, abs=3_000)


def test_host_work_that_the_device_hides_saves_nothing(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(2_000_000)
    begun = machine.now
    machine.host(300_000)
    ended = machine.now
    machine.launch(100_000)
    machine.host(50_000)
    late = machine.now
    machine.sync("end")
    machine.host(400_000)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    _, replay = ready(machine, tmp_path)
    hidden = np.array([begun]), np.array([ended])
    assert replay.play(Dropped(host=hidden)) == replay.span
    after = np.array([late + 2_000_000]), np.array([machine.now])
    assert replay.span - replay.play(Dropped(host=after)) == machine.now - late - 2_000_000


def test_a_trace_without_calls_is_as_long_as_it_is(tmp_path: Path) -> None:
    machine = Machine()
    machine.event("cpu_op", "aten::mm", machine.now, 5_000)
    _, replay = ready(machine, tmp_path)
    assert replay.play(Dropped()) == replay.span == 5_000
    assert len(replay.blocking) == 0
    machine.events.clear()
    machine.event("cpu_op", "aten::mm", machine.now, 0)
    _, replay = ready(machine, tmp_path)
    assert replay.play(Dropped()) == 0


def test_steps_are_played(tmp_path: Path) -> None:
    _, replay = ready(steps(5), tmp_path)
    assert len(replay.blocking) == 5
    everything = Dropped(replay.blocking.tolist(), range(len(replay.work)))
    assert replay.play(everything) < replay.play(Dropped(replay.blocking.tolist())) <= replay.span


@pytest.mark.skipif("TORCHLINT_TRACES" not in os.environ, reason="TORCHLINT_TRACES names no folder")
def test_real_traces_are_what_they_are() -> None:
    for path in sorted(Path(os.environ["TORCHLINT_TRACES"]).glob("*.json.gz")):
        replay = Replay(read(str(path)))
        assert replay.play(Dropped()) == replay.span, path.name
        last = replay.span
        for share in (4, 2, 1):
            now = replay.play(Dropped(replay.blocking[: len(replay.blocking) // share].tolist()))
            assert now <= last
            last = now
