"""Passes over data in a function that also trains, where the call says that it shall not."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Module, conditions_around, inferred
from torchlint.semantic.code.decided import Decided, Given
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.reaching import reaching
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import LOOPS, is_name, parameters_of
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.question import question
from torchlint.semantic.uses.graph_use import GraphOutcome, graph_fate
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.inferred import is_model_call

_LIBRARIES = ("builtins.", "torch.")
_BACKWARD = ".backward("
_NUMBERS = ("number", "none", "bool", "str")


def calls_trainer(module: Module, call: cst.Call) -> bool:
    """Say whether a call reaches a function that makes backward passes itself."""
    name = module.name(call.func) or ""
    if name.startswith(_LIBRARIES):
        return False
    there = module.outside.find(name)
    text = module.text if there is None else module.outside.text(there)
    inherited = isinstance(call.func, cst.Attribute) and is_name(call.func.value, "self")
    if text is not None and _BACKWARD not in text and not inherited:
        return False
    return any(
        _BACKWARD in where.source(function)
        for where, function in definitions_behind.functions(module, call)
    )


@question(
    yes="the call runs a network over data, and switches off all training there",
    no="the call is not known to run a network without training it",
)
def passes_without_training(module: Module, call: cst.Call) -> bool:
    """Say whether a function that trains behind a flag is called with the flag off, records graphs
    of a network in its loop, and nothing goes back through what it returns:
    ``run(model, data, train=False)``."""
    match definitions_behind.functions(module, call):
        case [(where, cst.FunctionDef() as function)]:
            pass
        case _:
            return False
    steps = [each for each in where.within(function, cst.Call) if is_step(where, each)]
    if not steps or not _runs_network(where, function):
        return False
    result = inferred(module, call)
    given_back = result.items if result.kind == "tuple" and result.items else (result,)
    numbers = all(each.kind in _NUMBERS for each in given_back)
    if not numbers and graph_fate(module, call) >= GraphOutcome.UNKNOWN:
        return False
    decided, here = (Decided(m.text, m.names, reaching(m)) for m in (where, module))
    values: dict[str, object] = {
        each.name.value: decided.value(each.default) for each in parameters_of(function)
    }
    for name, value in where.bind(function, call).items():
        values[name] = here.value(value)
    left = {k: v for k, v in values.items() if not writes_of(where, function.body, k)}
    given = Given(decided, left)
    return all(
        any(
            given.truth(test) is (not needed)
            for test, needed in conditions_around(where, step, function)
        )
        for step in steps
    )


def _runs_network(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether a loop of a function runs a network, with autograd as its caller has it."""
    inside = scopes(module)
    runs = [
        call
        for loop in module.within(function, *LOOPS)
        for call in module.within(loop, cst.Call)
        if is_model_call(module, call)
    ]
    return bool(runs) and not any(
        inside.lexical_no_grad(call) is not None or inside.conditional_grad(call) for call in runs
    )
