"""Traces played again: nothing dropped is the trace itself, dropping makes it shorter, and of
programs whose truth is known by how much."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.trace.program import BEGIN, HOST, OTHER, Machine, steps, written
from torchlint.base.declaration import EFFECTS
from torchlint.profile.bounds import Effects, ceiling, saved, together
from torchlint.profile.replay import Dropped, Replay
from torchlint.trace.columns import Trace
from torchlint.trace.stream import read

PROGRAMS = 300
Instruction = Callable[[Machine], None]


def ready(machine: Machine, tmp_path: Path) -> tuple[Trace, Replay]:
    trace = read(written(tmp_path / "t.json", machine.events))
    return trace, Replay(trace)


WAITS = "hhllllLLsSimdb"
"""Words of programs in which only waits can be fixed."""
KINDS = {
    "s": "wait",
    "S": "wait",
    "i": "wait",
    "u": "copy",
    "H": "host",
    "k": "launch",
    "g": "gpu",
    "n": "loader",
    "a": "memory",
    "f": "memory",
}
"""Words of a program that are places to fix, and the effects of fixing them."""


def program(seed: int, words: str = WAITS) -> list[Instruction]:
    """Return a random training loop, unrolled: what it does is the same whatever is dropped.

    Args:
        seed: of the random choice.
        words: what it may do: run the host (h), launch into one stream or the other (l, L), both
            (m), wait for all or for one (s, S), read a value (i), let a stream wait (d), run
            backward (b), upload (u), and as places that can be fixed host work (H), small launches
            (k), a launch (g), batches (n) and memory (a, f).
    """
    source = random.Random(seed)
    body = [source.choice(words) for _ in range(source.randrange(6, 20))]
    busy = source.choice((3_000, 20_000, 80_000, 300_000))
    slow = source.choice((2_000, 15_000, 60_000))
    load = source.choice((1_000_000, 10_000_000))
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

    def small(host: list[int], work: list[int], place: str) -> Instruction:
        def run(machine: Machine) -> None:
            once = place in machine.dropped
            longer = [took for took in work[1:] if took > 5_000]
            with machine.operator(f"aten::{place}"):
                machine.host(host[0])
                machine.launch(work[0] + sum(longer) if once else work[0])
                for pause, took in () if once else zip(host[1:], work[1:], strict=True):
                    machine.host(pause)
                    machine.launch(took)

        return run

    def instruction(word: str, place: str) -> Instruction:
        host, work, on = time(slow), time(busy), source.choice((7, 20))
        if word == "b":
            return backward([time(slow) for _ in range(3)], [time(busy) for _ in range(3)])
        if word == "k":
            return small([time(slow) for _ in range(5)], [time(busy) for _ in range(5)], place)
        shared = {"n": "loader", "a": "memory", "f": "memory"}.get(word, place)

        def run(machine: Machine) -> None:
            if word in KINDS and shared in machine.dropped:
                return
            if word in KINDS:
                with machine.operator(f"aten::{shared}"):
                    do(machine)
            else:
                do(machine)

        def do(machine: Machine) -> None:
            if word in "hmH":
                machine.host(host)
            if word in "lLmg":
                machine.launch(work, 20 if word == "L" else 7)
            if word in "sS":
                machine.sync(place, 7 if word == "S" else None)
            if word == "i":
                machine.item(place)
            if word == "u":
                machine.upload(work)
            if word == "n":
                machine.batch(load + 4 * work, 100_000)
            if word == "a":
                machine.allocate(30_000 + host)
            if word == "f":
                machine.free(30_000 + host)
            if word == "d":
                machine.depend(on, 27 - on)
                machine.launch(work, on)

        return run

    def begun(number: int) -> Instruction:
        name = f"ProfilerStep#{number}"
        return lambda machine: machine.event("user_annotation", name, machine.now, 0)

    for number in range(source.randrange(3, 9)):
        found.append(begun(number))
        found += [instruction(word, f"{word}{at}") for at, word in enumerate(body)]
    return found


def ran(instructions: list[Instruction], dropped: frozenset[str] = frozenset()) -> Machine:
    machine = Machine(dropped=dropped)
    for instruction in instructions:
        instruction(machine)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    return machine


def span(machine: Machine) -> int:
    ends = (round((event["ts"] + event["dur"]) * 1000) for event in machine.events)
    return max(ends) - BEGIN


def places(machine: Machine) -> dict[str, str]:
    """Return the places of a program that can be fixed, with their effects."""
    names = {event["name"].removeprefix("aten::") for event in machine.events}
    found = {name: KINDS[name[0]] for name in names if re.fullmatch(r"[sSiuHkg]\d+", name)}
    return {**found, **{name: name for name in ("loader", "memory") if name in names}}


def errors(tmp_path: Path, words: str) -> dict[str, list[float]]:
    """Return by effect how far the predicted saving of each place of the programs lies above the
    true one, as a share of the span; each replay is held against identity and monotony."""
    found: dict[str, list[float]] = {}
    for seed in range(PROGRAMS):
        instructions = program(seed, words)
        machine = ran(instructions)
        trace, replay = ready(machine, tmp_path)
        assert replay.span == replay.play(Dropped()) == span(machine)
        effects, taken = Effects(trace, replay), []
        for place, effect in sorted(places(machine).items()):
            rows = np.flatnonzero(trace.columns.name == trace.names.index(f"aten::{place}"))
            taken.append(effects.without(effect, rows))
            predicted = saved(replay, taken[-1])
            assert 0 <= predicted <= min(replay.span, ceiling(replay, taken[-1]))
            truth = span(machine) - span(ran(instructions, frozenset({place})))
            found.setdefault(effect, []).append((predicted - truth) / replay.span)
        whole = saved(replay, together(taken))
        assert all(saved(replay, one) <= whole <= replay.span for one in taken)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("words", [WAITS, f"{WAITS}uuHHkkggaf"])
def test_savings_of_programs_with_known_truth(tmp_path: Path, words: str) -> None:
    by_effect = errors(tmp_path, words)
    off = np.concatenate(list(map(np.array, by_effect.values())))
    assert len(off) > PROGRAMS
    assert np.percentile(np.abs(off), 95) <= 0.01
    assert np.mean(np.abs(off) > 0.01) <= 0.02
    assert np.mean(off > 0.01) <= 0.01


@pytest.mark.slow
def test_savings_of_programs_that_load(tmp_path: Path) -> None:
    """When a batch was ready is not known where nobody waited for it: more is promised then."""
    by_effect = errors(tmp_path, f"{WAITS}uuHHkkggnaf")
    off = np.concatenate(list(map(np.array, by_effect.values())))
    assert np.percentile(np.abs(off), 95) <= 0.01
    assert np.mean(off > 0.01) <= 0.05
    assert np.mean(off < -0.01) <= 0.01
    assert np.max(np.abs(by_effect["loader"])) <= 0.01


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


def test_a_batch_that_was_not_ready_is_ready_no_sooner(tmp_path: Path) -> None:
    machine = Machine()
    for _ in range(6):
        machine.launch(300_000)
        machine.sync("each")
        machine.batch(20_000_000, 100_000)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    trace, replay = ready(machine, tmp_path)
    waits = [at for at in replay.blocking.tolist() if not replay.loads[at]]
    assert len(waits) == 6
    assert replay.span - replay.play(Dropped(waits)) <= 4 * 400_000
    loader = Effects(trace, replay).without("loader", np.zeros(0, np.int64))
    assert replay.span - replay.play(loader) > 30_000_000


def test_a_batch_that_always_takes_as_long_is_work_of_the_host(tmp_path: Path) -> None:
    machine = Machine()
    for _ in range(6):
        machine.launch(300_000)
        machine.sync("each")
        machine.batch(1_000, 5_000_000)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    _, replay = ready(machine, tmp_path)
    assert replay.span - replay.play(Dropped(replay.blocking.tolist())) > 6 * 290_000


def test_a_call_that_was_long_by_itself_waits_for_nothing(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(60_000)
    machine.allocate(100_000)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    _, replay = ready(machine, tmp_path)
    assert len(replay.blocking) == 0
    assert replay.play(Dropped(work=[0])) == replay.span


def test_a_wait_for_one_stream_is_not_one_for_another(tmp_path: Path) -> None:
    machine = Machine()
    for _ in range(3):
        machine.launch(100_000)
        machine.launch(50_000, 20)
        machine.sync("all")
        machine.host(10_000)
        machine.sync("main", 7)
        machine.host(10_000)
    machine.launch(1_000)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    trace, replay = ready(machine, tmp_path)
    streams = trace.columns.stream[replay.work]
    begun = trace.columns.ts[replay.calls]
    for call in np.flatnonzero(np.isin(begun, machine.calls["main"])).tolist():
        assert streams[replay.awaited[call]] == 7


def test_the_profiler_says_which_stream_a_call_waited_for(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(100_000, 20)
    machine.launch(1_000)
    machine.launch(1_000)
    machine.host(300_000)
    machine.sync("told", 20)
    call = machine.events[-1]
    call["args"]["correlation"] = 77
    machine.event("cuda_sync", "Stream Sync", machine.now - 1_000, 900, stream=20, correlation=77)
    machine.event("cpu_op", "aten::end", machine.now, 0)
    trace, replay = ready(machine, tmp_path)
    (at,) = replay.blocking.tolist()
    assert trace.columns.stream[replay.work][replay.awaited[at]] == 20


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


@pytest.mark.skipif("TORCHLINT_TRACES" not in os.environ, reason="TORCHLINT_TRACES names no folder")
def test_of_real_traces_more_taken_out_saves_no_less() -> None:
    for path in sorted(Path(os.environ["TORCHLINT_TRACES"]).glob("*.json.gz")):
        trace = read(str(path))
        replay = Replay(trace)
        effects, source = Effects(trace, replay), random.Random(1)
        host = np.flatnonzero(trace.of_cat("cpu_op", "python_function"))
        names, so_far, last = trace.columns.name, [], 0
        for effect in EFFECTS * 2 if len(host) else ():
            rows = host[names[host] == names[source.choice(host.tolist())]]
            so_far.append(effects.without(effect, rows))
            assert saved(replay, so_far[-1]) <= ceiling(replay, so_far[-1]), (path.name, effect)
            now = saved(replay, together(so_far))
            assert last <= now <= replay.span, (path.name, effect)
            last = now
