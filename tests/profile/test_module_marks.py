"""Marks of modules in programs that are profiled: their names, and that nothing else changes."""

from __future__ import annotations

import copy
import gc
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("msgspec")

import torch
from jsonschema import validate
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tests.profile.test_live import MODEL, SCHEMA, TRAIN, Once, Profiled, lab, once  # noqa: F401
from torchlint.profile.modules import modules
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.sites import Sources
from torchlint.program.inside.module_marks import ModuleMarks
from torchlint.trace.stream import read


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any, fail: bool = False) -> Any:
        if fail:
            raise KeyError("fail")
        return self.last(torch.relu(self.first(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.layers.append(self.layers[0])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def marks() -> Iterator[ModuleMarks]:
    gc.collect()  # models of other tests
    call, found = nn.Module.__call__, ModuleMarks()
    yield found
    found.hide()
    assert nn.Module.__call__ is call


def names(run: Any) -> list[str]:
    """Return the marks of what is run, in order of their beginning."""
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        run()
    events = sorted(recorded.events(), key=lambda event: event.time_range.start)
    return [each.name.removeprefix("nn.Module: ") for each in events if "nn.Module" in each.name]


def test_names_are_those_of_named_modules(marks: ModuleMarks) -> None:
    model, x = Net(), torch.ones(1, 4)
    marks.find(torch)
    marks.show()
    inner = ["first (Linear)", "last (Linear)"]
    blocks = [
        f"Net: layers.{at}{end}"
        for at in (0, 1, 0)  # the third is the first one again
        for end in (" (Block)", *(f".{name}" for name in inner))
    ]
    assert names(lambda: model(x)) == ["Net", *blocks]
    assert {name for name, _ in model.named_modules()} >= {"layers.0", "layers.1.first"}


class Trainer:
    def __init__(self) -> None:
        self.teacher, self.student = Net(), Net()

    def find(self, marks: ModuleMarks) -> None:
        marks.find(torch)


def test_models_of_one_class_are_told_apart_by_their_variables(marks: ModuleMarks) -> None:
    model, other, trainer, x = Net(), Net(), Trainer(), torch.ones(1, 4)
    trainer.find(marks)
    marks.show()
    assert names(lambda: (model.layers[1].first(x), other(x)))[:2] == [
        "Net model: layers.1.first (Linear)",
        "Net other",
    ]
    assert names(lambda: trainer.student(x))[:2] == ["Net student", "Net student: layers.0 (Block)"]


def test_models_without_a_variable_have_numbers(marks: ModuleMarks) -> None:
    models, x = [Net(), Net()], torch.ones(1, 4)
    marks.find(torch)
    marks.show()
    made = Block()
    assert names(lambda: models[1](x))[0] == "Net"
    assert names(lambda: models[0].layers[0](x))[0] == "Net 2: layers.0 (Block)"
    assert names(lambda: made(x)) == ["Block", "Linear", "Linear"]  # made since: not looked up


def test_results_errors_copies_and_files_are_as_without(marks: ModuleMarks) -> None:
    model, x = Net(), torch.randn(3, 4)
    before = model(x)
    marks.find(torch)
    marks.show()
    assert torch.equal(model(x), before)
    with pytest.raises(KeyError, match="fail"):
        model.layers[0](x, fail=True)
    assert torch.equal(copy.deepcopy(model)(x), before)
    stored = io.BytesIO()
    torch.save(model, stored)
    marks.hide()
    stored.seek(0)
    assert torch.equal(torch.load(stored, weights_only=False)(x), before)
    assert names(lambda: model(x)) == []


def test_a_trace_with_stacks_tells_modules_by_class_and_number(tmp_path: Path) -> None:
    model, x = Net(), torch.ones(1, 4)
    model(x)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as recorded:
        model(x).sum().backward()
    recorded.export_chrome_trace(str(tmp_path / "t.json"))
    trace = read(str(tmp_path / "t.json"))
    found = modules(Places(trace, Sources(())), Replay(trace))
    assert found is not None
    told = {each.module.name: each for each in found.each}
    names = [f"Block_{at}.Linear_{2 * at + end}" for at in (0, 1) for end in (0, 1)]
    assert sorted(told) == ["", "Block_0", *names[:2], "Block_1", *names[2:]]
    assert [told[name].calls for name in ("", "Block_0", "Block_1", names[1])] == [1, 2, 1, 2]
    assert [told[name].operators for name in ("", "Block_0", names[0])] == [9, 6, 2]
    assert told[""].backward_ns >= sum(told[name].own_backward_ns for name in names) > 0
    assert not found.exact


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False], ids=["compiled before", "compiled meanwhile"])
def test_compiled_modules_are_compiled_once_and_whole(marks: ModuleMarks, first: bool) -> None:
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model, x = Net(), torch.ones(1, 4)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    marks.find(torch)
    if first:
        compiled(x)
    marks.show()
    assert len(names(lambda: (compiled(x), compiled(x)))) == 2
    assert len(graphs) == 1
    marks.hide()
    compiled(x)
    assert len(graphs) == (1 if first else 2)  # what saw the mark is compiled anew


@pytest.mark.slow
def test_a_run_tells_its_modules(once: Once) -> None:  # noqa: F811
    found = {each["name"]: each for each in once.document["modules"]}
    assert sorted(found) == ["", "first", "last"]
    model, first = found[""], found["first"]
    assert (model["model"], model["class"], first["class"]) == ("Net", "Net", "Linear")
    assert all(each["calls"] == 3 and each["exact"] for each in found.values())
    assert model["host_ns"] > first["host_ns"] > 0 < first["backward_ns"] < model["backward_ns"]
    assert model["gpu_ns"] is None is first["kernels"]
    assert (model["operators"], model["own_operators"], first["operators"]) == (9, 3, 3)
    assert "first (Linear)" not in once.ran.out


@pytest.mark.slow
def test_a_run_records_shapes_where_it_is_asked_to(once: Once, lab: Profiled) -> None:  # noqa: F811
    assert once.document["operators"] is None
    lab.write(train=TRAIN, model=MODEL)
    options = ("--shapes", "--device", "cpu", "--output-format", "json")
    ran = lab.profile(".", *options, "--", "train.py")
    found = json.loads(ran.out)
    validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    products = {
        each["shapes"]: each for each in found["operators"] if each["name"] == "aten::addmm"
    }
    first = products["64, 64x32, 32x64"]
    assert (first["calls"], first["flops"]) == (3, 3 * 2 * 64 * 32 * 64)
    assert first["limit"] is None is first["share"]
