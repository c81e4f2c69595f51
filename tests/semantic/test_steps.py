"""A step is evaluated once for the values that it meets, again for others, and again with the
budget that it wants."""

from __future__ import annotations

from collections import Counter

import libcst as cst
import pytest

from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.values.facts import BUDGET, values
from torchlint.semantic.values.interpreter import Interpreter

HEAD = "import torch\n\ndef make(n):\n    return torch.zeros(n).cuda()\n\n"


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each expression is evaluated, by its source."""
    count: Counter[str] = Counter()
    whole = Interpreter.eval

    def counted(self: Interpreter, node: cst.CSTNode) -> object:
        count[cst.Module([]).code_for_node(node)] += 1
        return whole(self, node)

    monkeypatch.setattr(Interpreter, "eval", counted)
    return count


def _analysed(text: str) -> Module:
    return Module(cst.parse_module(HEAD + text), HEAD + text, "m.py", Outside())


def _function(module: Module, name: str) -> cst.FunctionDef:
    return next(
        f
        for f in module.nodes(cst.FunctionDef)
        if isinstance(f, cst.FunctionDef) and f.name.value == name
    )


def _target(module: Module, name: str) -> cst.CSTNode:
    every = [node for node in module.nodes(cst.AssignTarget) if isinstance(node, cst.AssignTarget)]
    return next(
        node.target
        for node in every
        if isinstance(node.target, cst.Name) and node.target.value == name
    )


def test_fuel_is_nothing_to_a_step_that_wants_none(evaluated: Counter[str]) -> None:
    module = _analysed("def user(x):\n    a = 1 + 2\n    b = make(x)\n    return b\n\nuser(3)\n")
    for budget in range(BUDGET + 1):
        values(module).run(_function(module, "user"), budget)
    assert evaluated["1 + 2"] == 1
    assert evaluated["make(x)"] > 1
    assert values(module).value(_target(module, "b")).device == "cuda"


def test_a_loop_s_second_round_evaluates_only_what_meets_other_values(
    evaluated: Counter[str],
) -> None:
    module = _analysed(
        "def user(x):\n    total = 0\n    for i in x:\n        c = 5 * 6\n        total = total "
        "+ make(3)\n"
    )
    values(module).value(_target(module, "c"))
    assert evaluated["5 * 6"] == 1
    assert evaluated["total + make(3)"] > 1


def test_what_a_step_puts_into_a_list_is_put_there_again() -> None:
    text = (
        "def user(x):\n    o.kept = []\n    for i in x:\n        "
        "o.kept.append(torch.ones(3))\n    y = o.kept[0]\n"
    )
    module = _analysed(text)
    for budget in range(BUDGET + 1):
        assert values(module).value(_target(module, "y"), budget).kind == "tensor"


def test_other_values_are_other_steps() -> None:
    text = (
        "def user(flag):\n    y = 1\n    for i in range(3):\n        z = y\n        y = "
        "make(2)\n    return z\n"
    )
    module = _analysed(text)
    assert values(module).value(_target(module, "z")).kind == "accumulated"
