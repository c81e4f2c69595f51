"""An analysis that wanted no more budget is not made again; one that did is, and gives the better
answer."""

from __future__ import annotations

import libcst as cst
import pytest

from torchlint.semantic.code.tree import Function
from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.values.facts import BUDGET, Values, values
from torchlint.semantic.values.value import Value

TEXT = """import torch

def make():
    return torch.zeros(3).cuda()

def one():
    return make()

def two():
    return one()

def three():
    return two()

def user(x):
    a = three()
    return a
"""


def _module(text: str) -> tuple[Module, dict[str, cst.FunctionDef]]:
    module = Module(cst.parse_module(text), text, "m.py", Outside())
    return module, {
        f.name.value: f for f in module.nodes(cst.FunctionDef) if isinstance(f, cst.FunctionDef)
    }


def test_a_full_analysis_serves_every_amount_of_fuel() -> None:
    module, functions = _module(TEXT)
    found = values(module)
    least = found.run(functions["make"], 1)
    assert found.run(functions["make"], BUDGET) is least


def test_parameters_that_no_call_gives_want_no_fuel() -> None:
    text = (
        "def take(b=1):\n    return b\n\ndef given(b=1):\n    return b\n\nprint(take(), given(2))\n"
    )
    module, functions = _module(text)
    found = values(module)
    assert found.run(functions["take"], 0) is found.run(functions["take"], BUDGET)
    assert found.run(functions["given"], 0) is not found.run(functions["given"], BUDGET)


def test_an_analysis_cut_short_is_made_again() -> None:
    module, functions = _module(TEXT)
    found = values(module)
    short = found.run(functions["two"], 0)
    full = found.run(functions["two"], BUDGET)
    assert full is not short
    assert short.result().kind == "?"
    assert full.result().device == "cuda"


def test_what_rests_on_a_short_answer_is_short_itself() -> None:
    module, functions = _module(TEXT)
    found = values(module)
    assert (
        found.run(functions["three"], 1).result().kind == "?"
    )  # its callee's callee had none left
    assert found.run(functions["three"], BUDGET).result().device == "cuda"


def test_attributes_follow_the_same_rule() -> None:
    text = (
        "import torch\n\nclass A:\n    def __init__(self):\n        self.x = self.make()\n       "
        " self.n = 3\n\n"
        "    def make(self):\n        return torch.zeros(3).cuda()\n"
    )
    module, _ = _module(text)
    cls = module.nodes(cst.ClassDef)[0]
    assert isinstance(cls, cst.ClassDef)
    found = values(module)
    assert found.class_attribute(cls, "x", 0).kind == "?"
    assert found.class_attribute(cls, "x", BUDGET).device == "cuda"
    assert found.class_attribute(cls, "n", 1) is found.class_attribute(cls, "n", BUDGET)


def test_what_is_asked_in_the_middle_of_an_analysis_is_asked_again_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "import torch\n\nprint(unknown())\nmade = torch.zeros(3)\n"
    module, _ = _module(text)
    found = values(module)
    target = module.nodes(cst.AssignTarget)[0].target
    callees, early = found.flow.callees, list[Value]()

    def asking(call: cst.Call) -> tuple[Function, ...]:
        early.append(found.value(target))
        return callees(call)

    monkeypatch.setattr(found.flow, "callees", asking)
    assert not found.value(module.nodes(cst.Call)[0]).tensor
    assert early
    assert not early[0].tensor
    assert found.value(target).tensor


def test_what_is_asked_twice_after_it_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    module, _ = _module("import torch\n\nmade = torch.zeros(3)\n")
    found = values(module)
    target = module.nodes(cst.AssignTarget)[0].target
    first = found.value(target)
    monkeypatch.setattr(Values, "run", lambda *_: pytest.fail("analysed again"))
    assert found.value(target) is first
    with pytest.raises(pytest.fail.Exception):
        found.value(target, 0)
