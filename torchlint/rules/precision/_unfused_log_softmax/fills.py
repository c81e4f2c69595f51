"""Tensors that a number was written into which stands for an infinity: ``masked_fill(mask,
-1e9)``."""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Module, inferred
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.numbers import spelled_number
from torchlint.semantic.code.reaching import assigned_to, definitions_of
from torchlint.semantic.code.tree import is_name, method_called, root_of
from torchlint.semantic.question import question
from torchlint.semantic.values.definitions_behind import returned

_LOW = -100
"""Below this a sigmoid is zero, or nearly so."""
_HIGH = 1000
"""No scale of logits is that large."""


@question(
    yes="a number that stands for an infinity was written into `{0}`",
    no="no such number is seen to be written into `{0}`",
)
def filled(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a number far below all others is among what a tensor was made of in this file;
    what a network makes of its input is its own."""
    todo, seen = [tensor], set[cst.CSTNode]()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        number = spelled_number(module, node)
        if _is_limit(module, node) or (number is not None and number < _LOW):
            return True
        todo += _made_of(module, node)
    return False


def _is_limit(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is an infinity, the limit of a type, or shifts by a huge number."""
    match node:
        case cst.Attribute(cst.Call(kind), cst.Name("min" | "max")):
            return module.name(kind) == "torch.finfo"
        case cst.BinaryOperation(left, right=right, operator=cst.Multiply() | cst.Subtract()):
            numbers = [spelled_number(module, each) or 0 for each in (left, right)]
            return any(abs(number) > _HIGH for number in numbers)
    return spelled_number(module, node) == math.inf


def _made_of(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what an expression is made of."""
    match node:
        case cst.Name():
            yield from _bound_to(module, node)
            yield from _written_into(module, node)
        case cst.Attribute(value):
            yield value
            yield from assigned_to(module, node)
        case cst.Subscript(value):
            yield value
        case cst.Call(func, args) if inferred(module, func).kind != "module":
            for callee in callees_of(module, node):
                yield from returned(module, callee)
            yield func
            yield from (arg.value for arg in args)
        case cst.BinaryOperation(one, right=other) | cst.IfExp(body=one, orelse=other):
            yield from (one, other)
        case cst.UnaryOperation(expression=value):
            yield value


def _bound_to(module: Module, name: cst.Name) -> Iterator[cst.BaseExpression]:
    """Yield what a name is bound to, in its function or outside."""
    made: list[cst.CSTNode | None] = [*definitions_of(module, name)]
    for each in made or [sole_definition(module, name)]:
        if isinstance(each, (cst.Assign, cst.AnnAssign, cst.AugAssign)) and each.value is not None:
            yield each.value
        elif isinstance(each, cst.BaseExpression):
            yield each


def _written_into(module: Module, name: cst.Name) -> Iterator[cst.BaseExpression]:
    """Yield what the function writes into the tensor of a name: ``z[mask] = x``, ``z.fill_(x)``."""
    for each in module.within(module.scope(name), cst.Assign, cst.Call):
        match each:
            case cst.Assign(targets, value):
                places = [each.target for each in targets if isinstance(each.target, cst.Subscript)]
                if any(is_name(root_of(place, cst.Subscript), name.value) for place in places):
                    yield value
            case cst.Call(cst.Attribute(held), args):
                changed = root_of(held, cst.Subscript)
                if method_called(each).endswith("_") and is_name(changed, name.value):
                    yield from (arg.value for arg in args)
