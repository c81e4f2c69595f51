"""Branches that give something written out in the place of what there is nothing to work out from:
``loss = losses[mask].mean() if mask.any() else torch.tensor(0.0)``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import Condition, certain
from torchlint.semantic.code.names import Names
from torchlint.semantic.code.tree import Tree, attr_of, is_zero
from torchlint.semantic.torch import ops

_KEPT = ops.having("move") | ops.having("cast") | ops.having("same")
"""Methods whose result is as constant as what they are called on."""
_FILLED = ops.having("zero-one") | ops.having("new") - {"new_tensor"}
_GIVEN = ops.having("from-data") | {"new_tensor", "fill_", "float", "int", "bool"}
"""Functions that give the number which they are given."""
_MARKS = frozenset(("sum", "any", "count_nonzero"))
_TRAITS = ("device", "dtype", "shape")
_SIZES = frozenset(("numel", "nelement", "size"))
_EXCEPTION = regex(
    r"(^|_|is)(dones?|terminat\w*|truncat\w*|finish\w*|ended|stop\w*|nans?|infs?|(in|un)valid\w*|bad"
    r"|over\w*|reset\w*|chang\w*|exceed\w*|outliers?|violat\w*|collid\w*|fail\w*|errors?)(_|$)",
    re.IGNORECASE,
)
"""What is marked in a few steps alone."""


def nothing_to_compute(tree: Tree, names: Names, condition: Condition) -> bool:
    """Say whether a branch is for nothing: a tensor or list without elements, or the number 0,
    by which its other side divides: ``s / n if n > 0 else torch.zeros(())``. A branch that
    gives constants alone is so as well where no element is marked, where there is one at most,
    or where tensors differ in their dtypes or devices."""
    place = _zero(condition.test, condition.needed)
    if _gives_constants(tree, names, condition, place):
        return True
    if place is None:
        return False
    if _counts_elements(place):
        return True
    order, around = tree.order, tree.parents[condition.test]
    if isinstance(around, cst.If):  # What stands behind it may be its other side.
        around = tree.parents[around]
    return any(
        isinstance(each.operator, (cst.Divide, cst.FloorDivide))
        and order[each] > order[condition.test]
        and not any(tree.is_within(each, line) for line in condition.branch)
        and tree.spelled(each.right, place)
        for each in tree.within(around, cst.BinaryOperation)
    )


def _gives_constants(
    tree: Tree, names: Names, condition: Condition, place: cst.BaseExpression | None
) -> bool:
    """Say whether one side of a test gives constants, where nothing is marked, there is one
    element at most or tensors are of two kinds, and the other side computes."""
    around = tree.parents[condition.test]
    branch = condition.branch
    other: Sequence[cst.CSTNode] = ()
    if isinstance(around, cst.IfExp):
        sides = ((around.orelse,), (around.body,))
        branch, other = sides[condition.needed], sides[not condition.needed]
    elif isinstance(around, cst.If) and isinstance(around.orelse, cst.Else):
        other = (around.orelse if condition.needed else around).body.body
    if not _is_fallback(branch) or _is_fallback(other):
        return False

    def behind(place: cst.BaseExpression | None) -> cst.BaseExpression | None:
        if not isinstance(place, cst.Name):
            return place
        _, bindings = names.bindings(place.value, place)
        return bindings[0].value if len(bindings) == 1 else None

    few = behind(_one_at_most(condition.test, condition.needed))
    if few is not None and _counts_elements(few):
        return True
    place = behind(place)
    marked = place is not None and _counts_marks(place)
    asked = tree.within(condition.test, cst.Name)
    if marked and not any(_EXCEPTION.search(each.value) for each in asked):
        return True
    return certain(condition.test, condition.needed, _differ)


def _is_fallback(branch: Sequence[cst.CSTNode]) -> bool:
    """Say whether statements bind or return constants and do nothing else, or are one constant."""
    parts = [
        each
        for line in branch
        for each in (line.body if isinstance(line, cst.SimpleStatementLine) else (line,))
    ]
    return bool(parts) and all(map(_falls_back, parts))


def _falls_back(part: cst.CSTNode) -> bool:
    match part:
        case cst.Assign(value=value) | cst.AnnAssign(value=value) | cst.Return(value):
            return value is None or _is_constant(value)
        case cst.BaseExpression():
            return _is_constant(part)
    return False


def _is_constant(node: cst.BaseExpression) -> bool:
    """Say whether a value is written out, or a tensor that is filled with one."""
    match node:
        case cst.BaseNumber() | cst.SimpleString() | cst.Name("None" | "True" | "False"):
            return True
        case cst.UnaryOperation(expression=inner):
            return _is_constant(inner)
        case cst.BinaryOperation(operator=cst.Multiply(), left=left, right=right):
            return is_zero(left) or is_zero(right)  # ``x.sum() * 0`` keeps the graph.
        case cst.Tuple(elements) | cst.List(elements):
            return all(_is_constant(each.value) for each in elements)
        case cst.Dict(elements):
            return all(_is_constant(each.value) for each in elements)
        case cst.Subscript(inner):
            return _is_constant(inner)
        case cst.Call(func, args):
            name = getattr(func, "attr", func)
            name = name.value if isinstance(name, cst.Name) else ""
            if name in _KEPT and isinstance(func, cst.Attribute) and _is_constant(func.value):
                return True
            return name in _FILLED or (
                name in _GIVEN and bool(args) and _is_constant(args[0].value)
            )
    return False


def _counts_marks(node: cst.BaseExpression) -> bool:
    """Say whether something is 0 where no element is marked, or found: ``mask.sum()``,
    ``mask.any()``, ``len(found)``."""
    match node:
        case cst.Call(cst.Name("len")):
            return True
        case cst.Call(
            cst.Attribute(cst.Call(cst.Attribute(attr=cst.Name(name))), cst.Name("item")), []
        ) | cst.Call(cst.Attribute(attr=cst.Name(name))):
            return name in _MARKS
    return False


def _differ(test: cst.BaseExpression, needed: bool) -> bool:
    """Say whether a test holds only where two tensors differ in what they are: their device, dtype
    or shape."""
    match test:
        case cst.Comparison(left, [cst.ComparisonTarget(operator, right)]):
            other = isinstance(operator, cst.NotEqual if needed else cst.Equal)
            return other and any(attr_of(side) in _TRAITS for side in (left, right))
    return False


def _zero(test: cst.BaseExpression, needed: bool) -> cst.BaseExpression | None:
    """Return what is 0 (or less) where a test is as needed."""
    match test:
        case cst.UnaryOperation(cst.Not(), inner):
            return _zero(inner, not needed)
        case cst.BooleanOperation(left, operator, right) if needed is isinstance(operator, cst.Or):
            # One of several things is missing.
            return _zero(left, needed) and _zero(right, needed)
        case cst.Comparison(
            left,
            [cst.ComparisonTarget(operator, cst.Integer("0") | cst.Float("0.0" | "0."))],
        ):
            none = (cst.Equal, cst.LessThanEqual) if needed else (cst.NotEqual, cst.GreaterThan)
            return left if isinstance(operator, none) else None
        case cst.Name() | cst.Attribute() | cst.Call():
            return None if needed else test
    return None


def _one_at_most(test: cst.BaseExpression, needed: bool) -> cst.BaseExpression | None:
    """Return what is 1 or less where a test is as needed: ``x.shape[1] <= 1``, ``len(x) < 2``."""
    match test:
        case cst.Comparison(
            left,
            [cst.ComparisonTarget(operator, cst.Integer("1" | "2" as bound))],
        ):
            below, above = (
                (cst.LessThanEqual, cst.GreaterThan)
                if bound == "1"
                else (cst.LessThan, cst.GreaterThanEqual)
            )
            return left if isinstance(operator, below if needed else above) else None
    return None


def _counts_elements(node: cst.BaseExpression) -> bool:
    """Say whether a number is one of elements, or of a size: ``len(x)``, ``x.numel()``,
    ``x.shape[0]``."""
    match node:
        case cst.Call(cst.Name("len")):
            return True
        case cst.Call(cst.Attribute(attr=cst.Name(name))):
            return name in _SIZES
        case cst.Subscript(cst.Attribute(attr=cst.Name("shape"))):
            return True
    return False
