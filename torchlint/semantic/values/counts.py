"""Numbers that count something, and so are never negative."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.inferred import inferred

_GROWING = (cst.Add, cst.Multiply, cst.Divide, cst.FloorDivide)
_KEPT = frozenset(("builtins.int", "builtins.round", "math.floor", "math.ceil"))
_ALL = "builtins.min"
_ANY = "builtins.max"


@question(yes="`{0}` is never negative", no="nothing says that `{0}` is never negative")
def never_negative(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a number is certainly 0 or more: a size, or what is computed of sizes."""
    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.Call(cst.Attribute(tensor, cst.Name("size" | "numel" | "dim"))):
            return inferred(module, tensor).tensor
        case cst.Call(func, args):
            return _call_counts(module, module.name(func) or "", args)
        case cst.Subscript(cst.Attribute(tensor, cst.Name("shape"))):
            return inferred(module, tensor).tensor
        case cst.Subscript(cst.Call() as sizes):
            return never_negative(module, sizes)
        case cst.BinaryOperation(left, operator, right):
            sides = [never_negative(module, each) for each in (left, right)]
            return isinstance(operator, _GROWING) and all(sides)
        case cst.Name(name):
            found = definitions_of(module, node)
            return bool(found) and all(
                isinstance(each, cst.Assign) and _bound_to_size(module, each, name)
                for each in found
            )
    return False


@question(
    yes="`{0}` counts up, or is empty where both ends are one",
    no="`{0}` may end below its start",
)
def counts_up(module: Module, counted: cst.Call) -> bool:
    """Say whether the end of a ``range(...)`` without a step is certainly not below its start."""
    bounds = [arg.value for arg in counted.args]
    if any(arg.star or arg.keyword for arg in counted.args) or not 0 < len(bounds) < 3:
        return False
    first, last = bounds[0], bounds[-1]
    whole = len(bounds) == 1 or (isinstance(first, cst.Integer) and first.value == "0")
    return whole and never_negative(module, last)


def _call_counts(module: Module, name: str, args: Sequence[cst.Arg]) -> bool:
    """Say whether a function of Python gives a size, or keeps what it is given no smaller."""
    if not args or any(arg.star or arg.keyword for arg in args):
        return False
    if name == "builtins.len":
        return True
    known = [never_negative(module, arg.value) for arg in args]
    if name in _KEPT:
        return known == [True]
    return len(args) > 1 and ((name == _ALL and all(known)) or (name == _ANY and any(known)))


def _bound_to_size(module: Module, made: cst.Assign, name: str) -> bool:
    """Say whether an assignment binds a name to a number that is never negative."""
    match made:
        case cst.Assign([cst.AssignTarget(cst.Name())], value):
            return never_negative(module, value)
        case cst.Assign(
            [cst.AssignTarget(cst.Tuple(elements))],
            cst.Attribute(tensor, cst.Name("shape"))
            | cst.Call(cst.Attribute(tensor, cst.Name("size")), []),
        ):
            plain = [each.value for each in elements if isinstance(each, cst.Element)]
            bound = any(is_name(each, name) for each in plain)
            return bound and inferred(module, tensor).tensor
    return False
