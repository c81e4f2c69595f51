"""Figures of traces whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.trace.program import Machine, steps, written
from torchlint.trace.figures import Figures, figures
from torchlint.trace.intervals import covered, length, overlap, union
from torchlint.trace.kinds import COMMUNICATION, COMPUTE, MEMORY, OTHER, kind_of
from torchlint.trace.ranks import Collectives, waiting
from torchlint.trace.stream import read
from torchlint.trace.window import window


def of(tmp_path: Path, machine: Machine) -> Figures:
    return figures(window(read(written(tmp_path / "t.json", machine.events))))


def test_a_gap_is_the_hosts_where_the_launch_came_late(tmp_path: Path) -> None:
    machine = Machine()
    first = machine.launch(10_000)
    machine.host(first + 500_000 - machine.now)
    machine.launch(20_000)
    machine.launch(20_000)
    found = of(tmp_path, machine)
    assert found.idle[7].host == 500_000 + 4_000 + 2_000
    assert (found.idle[7].kernel, found.idle[7].other) == (0, 0)
    assert found.temporal is not None
    assert (found.temporal.idle, found.temporal.compute) == (512_000, 50_000)
    assert found.temporal.total == found.span == 562_000


@pytest.mark.parametrize(("gap", "kind"), [(29_999, "kernel"), (30_000, "other")])
def test_a_gap_behind_a_queue_is_between_kernels_where_it_is_short(
    tmp_path: Path, gap: int, kind: str
) -> None:
    machine = Machine()
    end = machine.launch(1_000_000)
    machine.streams[7] = end + gap
    machine.launch(10_000)
    idle = of(tmp_path, machine).idle[7]
    assert getattr(idle, kind) == gap
    assert idle.host == 0
    assert idle.kernel + idle.other == gap


def test_launches_are_counted_with_their_delays(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(1_000)  # shorter than its call
    machine.launch(200_000)
    machine.launch(5_000)  # behind 200 us
    found = of(tmp_path, machine).launches
    assert found is not None
    assert (found.count, found.short, found.slow_calls, found.long_delays) == (3, 1, 0, 1)
    assert found.calls_ns == 12_000
    assert found.work_ns == 206_000
    assert found.delay_ns == 2_000 + 2_000 + (200_000 - 4_000 + 2_000)


def test_a_queue_grows_with_launches_and_shrinks_with_starts(tmp_path: Path) -> None:
    machine = Machine()
    for _ in range(5):
        machine.launch(1_000_000)
    found = of(tmp_path, machine).queues[7]
    assert (found.changes, found.longest, found.full_ns) == (10, 4, 0)


def test_a_full_queue_is_seen(tmp_path: Path) -> None:
    machine = Machine()
    for _ in range(1_100):
        machine.launch(100_000)
    found = of(tmp_path, machine).queues[7]
    assert found.longest > 1024
    assert found.full_ns > 0


def test_copies_have_bytes_and_speeds(tmp_path: Path) -> None:
    found = of(tmp_path, steps(3)).bandwidth["Memcpy HtoD"]
    assert (found.count, found.nbytes, found.time_ns) == (2, 80_000, 20_000)
    assert (found.mean, found.peak) == (4.0, 4.0)


def test_the_last_step_is_left_out(tmp_path: Path) -> None:
    found = of(tmp_path, steps(4))
    assert sum(kernel.count for kernel in found.kernels if kernel.name == "gemm") == 9
    assert len(found.steps.each) == 3
    assert found.steps.median == found.steps.each[1].time
    alone = of(tmp_path, steps(1))
    assert sum(kernel.count for kernel in alone.kernels if kernel.name == "gemm") == 3


def test_the_last_step_counts_where_that_is_wanted_or_torchlint_recorded_it(
    tmp_path: Path,
) -> None:
    def gemms(found: Figures) -> int:
        return sum(kernel.count for kernel in found.kernels if kernel.name == "gemm")

    path = written(tmp_path / "t.json", steps(4).events)
    assert gemms(figures(window(read(path), all_steps=True))) == 12
    own = written(tmp_path / "own.json", steps(4).events, torchlint_marks={})
    assert gemms(figures(window(read(own)))) == 12


def test_communication_is_hidden_by_computation(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(100_000)
    machine.launch(100_000, 20, "ncclKernel_AllReduce")  # starts 4 us later
    found = of(tmp_path, machine)
    assert found.hidden_communication == pytest.approx(0.96)
    assert {each.kinds: each.time for each in found.by_kinds} == {
        ("compute",): 4_000,
        ("communication", "compute"): 96_000,
        ("communication",): 4_000,
    }


def test_without_a_device_its_figures_are_not_known(tmp_path: Path) -> None:
    machine = Machine()
    machine.event("cpu_op", "aten::mm", machine.now, 1_000)
    found = of(tmp_path, machine)
    assert found.temporal is None
    assert found.launches is None
    assert found.hidden_communication is None
    assert (found.idle, found.queues, found.bandwidth, found.kernels) == ({}, {}, {}, ())
    assert found.loading is None
    assert found.span == 1_000


def test_waiting_for_data_is_measured_step_by_step(tmp_path: Path) -> None:
    machine = Machine()
    for number, wait in enumerate((1_000, 1_000, 90_000, 1_000)):
        begun = machine.now
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        machine.event("user_annotation", name, machine.now, wait)
        machine.host(wait)
        machine.launch(10_000)
        machine.step(number, begun)
    found = of(tmp_path, machine)
    assert (found.batches, found.loading) == (3, 92_000)  # the last step is left out
    assert [step.loading for step in found.steps.each] == [1_000, 1_000, 90_000]
    assert found.steps.why == "waiting for data"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce", COMMUNICATION),
        ("void ncclKernel<float>", COMMUNICATION),
        ("Memcpy HtoD (Pageable -> Device)", MEMORY),
        ("hipMemcpyAsync", MEMORY),
        ("Memset (Device)", MEMORY),
        ("void at::native::gemm", COMPUTE),
        ("Context Sync", OTHER),
    ],
)
def test_kinds_go_by_name(name: str, kind: int) -> None:
    assert kind_of(name) == kind


def test_spans_are_joined_and_cut() -> None:
    starts, ends = np.array([5, 0, 3, 20]), np.array([8, 4, 6, 30])
    joined = union(starts, ends)
    assert [part.tolist() for part in joined] == [[0, 20], [8, 30]]
    assert length(joined) == 18
    assert overlap(joined, (np.array([6]), np.array([25]))) == 7
    times = np.array([-1, 4, 8, 10, 20, 25, 99])
    assert covered(joined, times).tolist() == [0, 4, 8, 8, 8, 13, 18]


def test_who_comes_last_to_a_collective_lets_the_others_wait() -> None:
    names, order = ("a", "b"), (0, 1)
    ranks = {
        0: (Collectives(names, order, (100, 10)),),
        1: (Collectives(names, order, (40, 30)),),
    }
    found = waiting(ranks)
    assert found.matched == 2
    assert found.by_rank == {0: 60, 1: 20}
    other = {**ranks, 1: (Collectives(("a", "c"), order, (40, 30)),)}
    assert waiting(other).matched == 1
    assert waiting({0: ranks[0]}).matched == 0
