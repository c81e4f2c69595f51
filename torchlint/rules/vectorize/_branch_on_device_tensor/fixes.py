"""Tests of a tensor's truth that can go: a parameter of which is asked whether it was given, the
best of a loop, and a constant that is returned early."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import (
    Fix,
    Module,
    NeedImport,
    Remove,
    Replace,
    Safety,
    inferred,
    on_device,
)
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.numbers import spelled_number
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name, parameters_of

_EFFECTS = (cst.NamedExpr, cst.Await, cst.Yield, cst.Lambda)
_GIVEN = (
    "What is zero, false or empty, but not None, counts as given, and a tensor of several elements "
    "no longer raises."
)
_BEST = (
    "What is kept is a tensor without a graph, also where nothing was better than the number that "
    "it began with."
)
_ALWAYS = (
    "What is returned is a tensor in both cases; both are computed, and a NaN or infinity in the "
    "one not taken can reach the gradients."
)


def _is_cheap_name(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a tensor on the device, or a slice of one, that costs nothing to
    name."""
    held = node
    while isinstance(held, cst.Subscript):
        if not all(isinstance(part.slice, cst.Slice) for part in held.slice):
            return False
        held = held.value
    return dotted_text(held) is not None and bool(on_device(module, held))


def _is_number(module: Module, node: cst.BaseExpression) -> bool:
    return spelled_number(module, node) is not None or (
        isinstance(node, (cst.Name, cst.Attribute)) and inferred(module, node).kind == "number"
    )


def kept_best(module: Module, choice: cst.IfExp, test: cst.BaseExpression) -> Fix | None:
    """Return the fix of ``best = loss if best is None or loss < best else best``: the device keeps
    the better one."""
    place = module.parent(choice)
    match place:
        case cst.Assign([cst.AssignTarget(cst.Name(kept))]):
            sides = [side for side in (choice.body, choice.orelse) if not is_name(side, kept)]
        case _:
            return None
    first = _asks_for_none(choice.test, test, kept)
    if first is None or len(sides) != 1 or kept not in module.names_in(test):
        return None
    value, taken = inferred(module, sides[0]), sides[0] is choice.body
    if value.rank != 0 or dotted_text(sides[0]) is None or (first and not taken):
        return None
    if inferred(module, test).dtype != "bool":
        return None
    torch, new = name_for_module(module, "torch", "torch"), module.source_of(sides[0])
    new = new if value.grad is False else f"{new}.detach()"
    pair = f"{new}, {kept}" if taken else f"{kept}, {new}"
    code = f"{torch}.where({module.source_of(test)}, {pair})"
    code = f"{new} if {kept} is None else {code}" if first else code
    edits = (Replace(place, cst.parse_statement(f"{kept} = {code}")), NeedImport("torch", torch))
    return Fix(edits, Safety.UNSAFE, "Keep the better one on the device", _BEST)


def _asks_for_none(whole: cst.BaseExpression, test: cst.BaseExpression, name: str) -> bool | None:
    """Say whether a test asks first whether there is anything yet, ``best is None or``; None where
    it asks for something else."""
    if whole is test:
        return False
    match whole:
        case cst.BooleanOperation(
            cst.Comparison(
                left,
                [cst.ComparisonTarget(cst.Is() | cst.Equal(), nothing)],
            ),
            cst.Or(),
            right,
        ) if right is test and is_name(left, name) and is_name(nothing, "None"):
            return True
    return None


def returned_where(module: Module, node: cst.If, test: cst.BaseExpression) -> Fix | None:
    """Return the fix of ``if error == 0: return float("inf")`` right before ``return`` of a number
    of the device: both are computed, and the device chooses."""
    block = module.parent(node)
    lines = list(block.body) if isinstance(block, cst.IndentedBlock) else []
    at = next((number for number, line in enumerate(lines) if line is node), len(lines))
    last = lines[at + 1] if at + 1 < len(lines) else None
    early, late = _returned(node.body), _returned(last)
    if node.orelse is not None or early is None or late is None or last is None:
        return None
    value = inferred(module, late)
    number = inferred(module, early).kind == "number" or spelled_number(module, early) is not None
    if not number or not value.tensor or value.rank != 0 or value.dtype == "bool":
        return None
    asked = inferred(module, test)
    if asked.rank != 0 or asked.dtype != "bool" or any(module.within(late, *_EFFECTS)):
        return None
    torch = name_for_module(module, "torch", "torch")
    source = module.source_of
    code = f"return {torch}.where({source(test)}, {source(early)}, {source(late)})"
    edits = (
        Replace(node, cst.parse_statement(code)),
        Remove(last),
        NeedImport("torch", torch),
    )
    return Fix(edits, Safety.UNSAFE, "Choose with torch.where on the device", _ALWAYS)


def _returned(suite: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return what the one line of a block, or a line, returns."""
    line = suite.body[0] if isinstance(suite, cst.IndentedBlock) and len(suite.body) == 1 else suite
    match line:
        case cst.SimpleStatementLine([cst.Return(cst.BaseExpression() as value)]):
            return value
    return None


def given_test(module: Module, test: cst.BaseExpression) -> Fix | None:
    """Return the fix that asks whether a parameter was given by ``is not None`` instead of by its
    truth."""
    function = module.function(test)
    if not isinstance(test, cst.Name) or function is None:
        return None
    if definitions_of(module, test) != [function]:
        return None
    defaults = [each.default for each in parameters_of(function) if each.name.value == test.value]
    if not any(is_name(each, "None") for each in defaults):
        return None
    above = module.parent(test)
    refused = isinstance(above, cst.UnaryOperation) and isinstance(above.operator, cst.Not)
    place = above if refused else test
    sign = "is" if refused else "is not"
    match above:
        case cst.IfExp(body=cst.Name(given), orelse=cst.Name("None")) if given == test.value:
            edits = (Replace(above, test.with_changes(lpar=above.lpar, rpar=above.rpar)),)
            return Fix(edits, Safety.UNSAFE, "Pass it on as it was given", _GIVEN)
    assert isinstance(place, cst.BaseExpression)
    new = cst.parse_expression(f"{test.value} {sign} None")
    edits = (Replace(place, new.with_changes(lpar=place.lpar, rpar=place.rpar)),)
    return Fix(edits, Safety.UNSAFE, "Ask whether it was given", _GIVEN)
