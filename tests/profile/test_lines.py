"""What places of the program cost: on the host, backward, on the device, in waiting and bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trace.program import Machine, written
from torchlint.base.finding import Finding, Severity
from torchlint.base.span import Position
from torchlint.profile.lines import LineCost, Lines, unruled
from torchlint.profile.places import GRADIENTS, UNKNOWN_BACKWARD, Places
from torchlint.profile.replay import Dropped, Replay
from torchlint.profile.sites import Site, Source, Sources
from torchlint.trace.intervals import length
from torchlint.trace.stream import read

TEXT = """def main(x):
    for _ in range(3):
        y = x.cuda()
        z = helper(y)
        print(z.item())

def helper(y):
    return y.mm(y)
"""
SOURCES = Sources([Source("/home/me/train.py", "train.py", TEXT)])
EVALUATE = "autograd::engine::evaluate_function: "


class Run(Machine):
    """A machine that also writes down what ran inside of what."""

    def inside(
        self, cat: str, name: str, before: int = 1_000, after: int = 1_000, **args: Any
    ) -> Any:
        """Run a block inside of an event, with time of its own before and after it."""
        return _Inside(self, cat, name, before, after, args)


class _Inside:
    def __init__(self, run: Run, *event: Any) -> None:
        self.run, self.event = run, event

    def __enter__(self) -> None:
        self.begun = self.run.now
        self.run.now += self.event[2]

    def __exit__(self, *_: object) -> None:
        cat, name, _before, after, args = self.event
        self.run.now += after
        self.run.event(cat, name, self.begun, self.run.now - self.begun, **args)


def trained(steps: int = 3) -> Run:
    """Run the program above: a copy, a kernel of a function, a read, and backward."""
    run = Run()
    with run.inside("python_function", "train.py(1): main"):
        for step in range(steps):
            with run.inside("python_function", "<built-in method cuda of Tensor object at 0x1>"):
                run.launch(10_000, 7, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", bytes=4_000)
            with (
                run.inside("python_function", "train.py(7): helper", 500, 700),
                run.inside("python_function", "<built-in method mm of Tensor object at 0x1>"),
                run.inside("cpu_op", "aten::mm", 2_000, 0, **{"Sequence number": step}),
            ):
                run.launch(50_000)
            with run.inside("python_function", "<built-in method item of Tensor object at 0x1>"):
                run.item("item")
        run.thread = "101"
        for step in reversed(range(steps)):
            with run.inside(
                "cpu_op", EVALUATE + "MmBackward0", 3_000, 0, **{"Sequence number": step}
            ):
                run.launch(70_000)
        with run.inside("cpu_op", EVALUATE + "torch::autograd::AccumulateGrad"):
            run.launch(5_000)
        with run.inside("cpu_op", EVALUATE + "LostBackward0", **{"Sequence number": 99}):
            run.launch(6_000)
        run.thread = "100"
    return run


def measured(tmp_path: Path, run: Machine, **meta: Any) -> tuple[Lines, Replay]:
    trace = read(written(tmp_path / "t.json", run.events, **meta))
    replay = Replay(trace)
    return Lines(Places(trace, SOURCES), replay), replay


def line(lines: Lines, number: int) -> tuple[int, LineCost]:
    """Return the place of a line, with its number."""
    return next(
        (at, cost)
        for at, cost in enumerate(lines.each)
        if cost.site.line == number and cost.site.has_line
    )


def test_a_line_costs_what_it_calls_without_functions_of_the_program(tmp_path: Path) -> None:
    lines, replay = measured(tmp_path, trained())
    _, copies = line(lines, 3)
    assert copies == LineCost(
        Site("train.py", 3, "main", "unique"), 3, 3 * 6_000, 0, 30_000, 0, 12_000, None, 3 * 6_000
    )
    at, product = line(lines, 8)
    assert (product.calls, product.host_ns, product.backward_ns) == (3, 3 * 8_000, 3 * 7_000)
    assert product.gpu_ns == 3 * 50_000 + 3 * 70_000
    assert product.copied_bytes == 0
    assert len(lines.calls(at)) == len(lines.work(at)) == 6
    assert set(replay.calls[lines.calls(at)]) < set(lines.rows(at))
    own = next(cost for cost in lines.each if cost.site.function == "helper" and cost != product)
    assert (own.site.certainty, own.site.line, own.host_ns) == ("function", 7, 3 * 1_200)
    at, call = line(lines, 4)
    assert (call.calls, call.host_ns, call.inclusive_ns) == (3, 0, 3 * 9_200)
    assert set(lines.rows(at)) == set()
    assert len(lines.called(at)) == 3
    _, read_back = line(lines, 5)
    assert read_back.wait_ns == replay.waited[replay.blocking].sum() > 0


def test_times_of_the_host_are_those_of_its_events(tmp_path: Path) -> None:
    """What belongs to places is the training thread's time, once; spans can be played."""
    run = trained()
    lines, replay = measured(tmp_path, run)
    assert (
        sum(cost.host_ns for cost in lines.each)
        == run.events[-1]["dur"] * 1000
        - sum(
            event["dur"] * 1000
            for event in run.events
            if event["tid"] == "101" and "evaluate" in event["name"]
        )
        * 0
    )
    for at, cost in enumerate(lines.each):
        assert length(lines.host(at)) == cost.host_ns + cost.backward_ns
    at, product = line(lines, 8)
    played = replay.play(Dropped(host=lines.host(at)))
    assert played < replay.span
    assert replay.span - played <= product.host_ns + product.backward_ns


def test_backward_belongs_to_the_line_of_its_operator(tmp_path: Path) -> None:
    lines, _ = measured(tmp_path, trained())
    by_site = {cost.site: cost for cost in lines.each}
    assert by_site[GRADIENTS].gpu_ns == 5_000
    assert by_site[UNKNOWN_BACKWARD].gpu_ns == 6_000
    assert by_site[UNKNOWN_BACKWARD].host_ns == 0
    assert by_site[UNKNOWN_BACKWARD].calls == 0


def test_of_operators_with_one_number_the_last_before_backward_owns_it(tmp_path: Path) -> None:
    """An operator that autograd does not follow leaves the number to the next one; a number that
    another thread counted is not the training thread's."""
    run = Run()
    with run.inside("python_function", "train.py(1): main"):
        for name in ("item", "cuda"):
            with (
                run.inside("python_function", f"<built-in method {name} of Tensor object at 0x1>"),
                run.inside("cpu_op", f"aten::{name}", **{"Sequence number": 4, "Fwd thread id": 0}),
            ):
                run.launch(1_000)
        run.thread = "101"
        for thread, count in ((1, 3), (2, 1)):
            for _ in range(count):
                args = {"Sequence number": 4, "Fwd thread id": thread}
                with run.inside("cpu_op", EVALUATE + "CudaBackward0", **args):
                    run.launch(2_000)
        run.thread = "100"
    lines, _ = measured(tmp_path, run)
    assert line(lines, 5)[1].backward_ns == 0
    assert line(lines, 3)[1].backward_ns == 3 * 6_000
    assert {cost.site: cost for cost in lines.each}[UNKNOWN_BACKWARD].backward_ns == 6_000


def test_memory_belongs_to_the_line_that_allocates(tmp_path: Path) -> None:
    run = trained(2)
    assert line(measured(tmp_path, run)[0], 8)[1].alloc_bytes is None
    for event in [event for event in run.events if event["name"] == "aten::mm"]:
        for nbytes, kind in ((512, 1), (-512, 1), (64, 0)):
            args = {"Bytes": nbytes, "Device Type": kind}
            run.events.append(
                {**event, "ph": "i", "name": "[memory]", "ts": event["ts"] + 1, "args": args}
            )
    lines, _ = measured(tmp_path, run)
    assert line(lines, 8)[1].alloc_bytes == 2 * 512
    assert line(lines, 3)[1].alloc_bytes == 0


def test_a_mark_names_its_statement(tmp_path: Path) -> None:
    run = Run()
    with run.inside("cpu_op", "tl#17"), run.inside("cpu_op", "aten::mm"):
        run.launch(20_000)
        with run.inside("cpu_op", "tl#18"), run.inside("cpu_op", "aten::add"):
            run.launch(3_000)
    marks = {"17": ["/home/me/train.py", 3, 4, "main"], "18": ["/x/b.py", 9, 9, "f"], "19": "?"}
    lines, _ = measured(tmp_path, run, torchlint_marks=marks)
    found = {cost.site: cost.gpu_ns for cost in lines.each}
    assert found == {
        Site("train.py", 3, "main", "marked"): 20_000,
        Site("/x/b.py", 9, "f", "marked"): 3_000,
    }


def test_a_statement_has_what_it_calls_and_what_runs_within_itself_once(tmp_path: Path) -> None:
    run = Run()
    for _ in range(2):
        with run.inside("cpu_op", "tl#17"), run.inside("cpu_op", "tl#18"):
            for _ in range(5):
                with run.inside("cpu_op", "aten::add"):
                    run.now += 1_000
            with run.inside("cpu_op", "tl#18"), run.inside("cpu_op", "aten::mm"):
                run.now += 5_000
        with run.inside("cpu_op", "aten::zeros"):
            run.now += 1_000
    marks = {"17": ["/home/me/train.py", 4, 4, "main"], "18": ["/home/me/train.py", 8, 8, "helper"]}
    lines, _ = measured(tmp_path, run, torchlint_marks=marks)
    inner = 5 * 3_000 + 2_000 + 2_000 + 5_000 + 2_000
    (_, outer), (_, again) = line(lines, 4), line(lines, 8)
    assert (outer.host_ns, outer.inclusive_ns) == (2 * 2_000, 2 * (2_000 + inner))
    assert again.host_ns == again.inclusive_ns == 2 * inner
    # How often a statement ran, whatever it called.
    assert (outer.calls, again.calls) == (2, 4)
    loose = next(cost for cost in lines.each if cost.site.function == "aten::zeros")
    assert (loose.calls, loose.inclusive_ns) == (2, None)


def test_a_call_stack_is_used_as_given(tmp_path: Path) -> None:
    run = Run()
    stack = "torch/nn/modules/linear.py(96): forward;train.py(4): main;train.py(12): <module>"
    with run.inside("cpu_op", "aten::linear", **{"Call stack": stack}):
        run.launch(20_000)
    with run.inside("cpu_op", "aten::add", **{"Call stack": "torch/a.py(9): f"}):
        run.launch(1_000)
    found = {cost.site: cost.gpu_ns for cost in measured(tmp_path, run)[0].each}
    assert found == {
        Site("train.py", 4, "main", "unique"): 20_000,
        Site("", 0, "aten::add", "call"): 1_000,
    }


def test_functions_of_the_program_are_taken_before_those_of_other_libraries(tmp_path: Path) -> None:
    run = Run()
    with (
        run.inside("python_function", "train.py(1): main"),
        run.inside("python_function", "other/library.py(7): cuda"),
        run.inside("python_function", "typing.py(9): cast"),
    ):
        run.launch(20_000)
    with run.inside("python_function", "other/library.py(7): cuda"):
        run.launch(1_000)
    found = {cost.site: cost.gpu_ns for cost in measured(tmp_path, run)[0].each if cost.gpu_ns}
    assert found == {
        Site("train.py", 3, "main", "unique"): 20_000,
        Site("other/library.py", 7, "cuda", "function"): 1_000,
    }


def finding(row: int, end: int) -> Finding:
    return Finding(
        "TL101", "", "", Severity.WARNING, "train.py", Position(row, 1), Position(row, 2), row, end
    )


@pytest.mark.parametrize(
    ("rows", "hot"), [((8, 8), {3, 5, 0}), ((1, 9), {0}), ((7, 7), {3, 5, 8, 0})]
)
def test_hot_lines_without_a_finding_are_told(
    tmp_path: Path, rows: tuple[int, int], hot: set[int]
) -> None:
    lines, replay = measured(tmp_path, trained())
    found = list(unruled(lines.each, [finding(*rows)], replay.span))
    assert {cost.site.line if cost.site.has_line else 0 for cost in found} == hot
    assert not list(unruled(lines.each, [], replay.span * 1000))


def test_the_body_of_a_loop_is_its_findings(tmp_path: Path) -> None:
    """A finding about a loop names its head as the statement, and ends where the loop does."""
    lines, replay = measured(tmp_path, trained())
    loop = replace(finding(2, 2), end=Position(5, 9))
    found = list(unruled(lines.each, [loop], replay.span))
    assert {cost.site.line for cost in found if cost.site.has_line} == {8}


def test_nothing_at_all_has_no_lines(tmp_path: Path) -> None:
    lines, _ = measured(tmp_path, Machine())
    assert lines.each == ()
    run = Machine()
    run.event("cpu_op", "aten::mm", run.now, 1_000)
    lines, _ = measured(tmp_path, run)
    (cost,) = lines.each
    assert (cost.host_ns, cost.gpu_ns, cost.wait_ns, cost.copied_bytes) == (1_000, None, None, None)
    assert np.array_equal(lines.rows(0), [0])
