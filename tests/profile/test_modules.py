"""What modules cost, and what they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec")

from tests.profile.test_lines import EVALUATE, Run
from tests.trace.program import HOST, OTHER, written
from torchlint.profile.modules import ModuleCost, Modules, modules
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.sites import Sources
from torchlint.trace.columns import PYTHON
from torchlint.trace.marks import TABLE
from torchlint.trace.modules import Module, apart
from torchlint.trace.stream import read


def told(tmp_path: Path, run: Run, **meta: Any) -> Modules:
    trace = apart(read(written(tmp_path / "t.json", run.events, **meta)))
    found = modules(Places(trace, Sources(())), Replay(trace))
    assert found is not None
    return found


def named(found: Modules) -> dict[str, ModuleCost]:
    return {f"{each.module.model}|{each.module.name}": each for each in found.each}


def block(run: Run, cat: str, names: list[str], sequence: int) -> None:
    """Run a block that launches a kernel itself and one in each of two layers."""
    with run.inside(cat, f"nn.Module: {names[0]}"):
        with run.inside("cpu_op", "aten::add"):
            run.launch(10_000)
        for at, name in enumerate(names[1:]):
            with (
                run.inside(cat, f"nn.Module: {name}"),
                run.inside("cpu_op", "aten::linear", 500, 0),
                run.inside("cpu_op", "aten::mm", 500, 0, **{"Sequence number": sequence + at}),
            ):
                run.launch(20_000)


def backward(run: Run, *sequences: int) -> None:
    run.thread = OTHER
    for sequence in sequences:
        args = {"Sequence number": sequence}
        with run.inside("cpu_op", f"{EVALUATE}MmBackward0", 3_000, 0, **args):
            run.launch(40_000)
    run.thread = HOST


def framed() -> Run:
    """Run a model of two blocks as the profiler records it with Python frames."""
    run = Run()
    with run.inside(PYTHON, "nn.Module: Net_0"):
        block(run, PYTHON, ["Block_0", "Linear_0", "Linear_1"], 0)
        block(run, PYTHON, ["Block_1", "Linear_2", "Linear_3"], 2)
    with run.inside("cpu_op", "aten::mul"):
        run.launch(5_000)
    backward(run, 3, 2, 1, 0, 99)
    return run


def test_a_module_costs_what_it_calls_with_and_without_others(tmp_path: Path) -> None:
    found = told(tmp_path, framed())
    assert not found.exact
    costs = named(found)
    linear = costs["Net_0|Block_0.Linear_0"]
    assert linear.module == Module("Net_0", "Block_0.Linear_0", "Linear")
    assert (linear.calls, linear.host_ns, linear.own_host_ns) == (1, 7_000, 7_000)
    assert (linear.gpu_ns, linear.own_gpu_ns, linear.kernels) == (60_000, 60_000, 2)
    assert (linear.backward_ns, linear.operators) == (7_000, 1)  # aten::mm lies in aten::linear
    of = costs["Net_0|Block_1"]
    assert (of.host_ns, of.own_host_ns) == (2_000 + 6_000 + 14_000, 8_000)
    assert (of.gpu_ns, of.own_gpu_ns) == (130_000, 10_000)
    assert (of.kernels, of.own_kernels, of.operators, of.own_operators) == (5, 1, 3, 1)
    assert (of.backward_ns, of.own_backward_ns) == (14_000, 0)
    whole = costs["Net_0|"]
    assert (whole.gpu_ns, whole.own_gpu_ns) == (260_000, 0)  # without aten::mul, and backward of 99
    assert found.each[0] == whole


def test_modules_whose_names_differ_in_numbers_are_folded(tmp_path: Path) -> None:
    folded = told(tmp_path, framed()).folded()
    assert [(each.module.name, each.count, each.gpu_ns) for each in folded] == [
        ("", 1, 260_000),
        ("Block_*", 2, 260_000),
        ("Block_*.Linear_*", 4, 240_000),
    ]


def marked(*names: str) -> Run:
    run = Run()
    for at in range(0, len(names), 2):
        with run.inside("cpu_op", f"nn.Module: {names[at]}"):
            block(run, "cpu_op", [names[at + 1], f"{names[at + 1][:-8]}.a (Linear)"], at)
    return run


def test_marks_have_the_names_of_named_modules_and_are_no_operators(tmp_path: Path) -> None:
    run = marked("Net", "Net: layers.0 (Block)", "Net", "Net: layers.1 (Block)")
    found = told(tmp_path, run, **{TABLE: {}})
    assert found.exact
    costs = named(found)
    assert costs["Net|layers.0.a"].module == Module("Net", "layers.0.a", "Linear")
    assert (costs["Net|"].calls, costs["Net|"].operators) == (2, 4)
    assert [each.module.name for each in found.folded()] == ["", "layers.*", "layers.*.a"]
    trace = apart(read(written(tmp_path / "t.json", run.events, **{TABLE: {}})))
    of = {trace.names[name] for name in trace.columns.name.tolist()}
    assert of == {"aten::add", "aten::linear", "aten::mm", "cudaLaunchKernel", "gemm"}


def test_other_classes_and_other_models_are_not_folded(tmp_path: Path) -> None:
    run = marked(
        "Net", "Net: body.0 (Block)", "Net", "Net: body.1 (Other)", "Net 2", "Net 2: body.0 (Block)"
    )
    found = told(tmp_path, run, **{TABLE: {}})
    assert sorted((each.module.model, each.module.name, each.count) for each in found.folded()) == [
        ("Net", "", 1),
        ("Net", "body.*.a", 2),
        ("Net", "body.0", 1),
        ("Net", "body.1", 1),
        ("Net 2", "", 1),
        ("Net 2", "body.0", 1),
        ("Net 2", "body.0.a", 1),
    ]


def test_a_module_that_calls_itself_counts_each_time_once(tmp_path: Path) -> None:
    run = Run()
    name = "nn.Module: Net"
    with run.inside("cpu_op", name), run.inside("cpu_op", name), run.inside("cpu_op", "aten::mm"):
        run.launch(20_000)
    (only,) = told(tmp_path, run, **{TABLE: {}}).each
    assert (only.calls, only.host_ns, only.gpu_ns, only.kernels) == (2, 10_000, 20_000, 1)


def test_what_other_threads_do_meanwhile_is_no_part_of_a_module(tmp_path: Path) -> None:
    run = Run()
    with run.inside("cpu_op", "nn.Module: Net"):
        run.thread = OTHER
        with run.inside("cpu_op", "aten::mm"):
            run.launch(20_000)
        run.thread = HOST
    (only,) = told(tmp_path, run, **{TABLE: {}}).each
    assert (only.operators, only.gpu_ns, only.kernels) == (0, 0, 0)


def test_a_trace_without_modules_tells_none(tmp_path: Path) -> None:
    run = Run()
    with run.inside("cpu_op", "nn.Module: a mark of the program's own"):
        run.launch(10_000)
    trace = apart(read(written(tmp_path / "t.json", run.events)))
    assert modules(Places(trace, Sources(())), Replay(trace)) is None


def test_backward_that_a_module_starts_belongs_to_the_modules_of_its_operators(
    tmp_path: Path,
) -> None:
    run = Run()
    args = {"Sequence number": 3}
    with run.inside("cpu_op", "nn.Module: Whole"):
        with (
            run.inside("cpu_op", "nn.Module: Whole: inner (Linear)"),
            run.inside("cpu_op", "aten::mm", **args),
        ):
            run.launch(20_000)
        with run.inside("cpu_op", f"{EVALUATE}MmBackward0", 3_000, 0, **args):
            run.launch(40_000)
    costs = named(told(tmp_path, run, **{TABLE: {}}))
    inner, whole = costs["Whole|inner"], costs["Whole|"]
    assert (inner.backward_ns, inner.gpu_ns, inner.kernels) == (7_000, 60_000, 2)
    assert (whole.backward_ns, whole.own_backward_ns, whole.own_gpu_ns) == (7_000, 0, 0)


def test_what_a_checkpoint_computes_again_is_backward(tmp_path: Path) -> None:
    run = Run()
    args = {"Sequence number": 3}
    with run.inside("cpu_op", "nn.Module: Net"):
        block(run, "cpu_op", ["Net: a (Block)", "Net: a.b (Linear)"], 3)
    with run.inside("cpu_op", f"{EVALUATE}MmBackward0", 3_000, 0, **args):
        block(run, "cpu_op", ["Net: a (Block)", "Net: a.b (Linear)"], 7)
        run.host(1_000)
        run.launch(40_000)
    costs = named(told(tmp_path, run, **{TABLE: {}}))
    inner, outer = costs["Net|a.b"], costs["Net|a"]
    assert (inner.calls, inner.host_ns, inner.kernels) == (2, 7_000, 3)
    assert (outer.calls, outer.host_ns, outer.own_host_ns) == (2, 15_000, 8_000)
    assert (inner.own_backward_ns, outer.own_backward_ns) == (3_000 + 1_000 + 4_000 + 7_000, 8_000)
    assert (inner.backward_ns, outer.backward_ns) == (15_000, 23_000)
    whole = costs["Net|"]
    assert (whole.calls, whole.host_ns, whole.backward_ns, whole.kernels) == (1, 17_000, 23_000, 5)
