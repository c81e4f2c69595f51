"""Branches that give something written out in the place of what there is nothing to work out from:
``loss = losses[mask].mean() if mask.any() else torch.tensor(0.0)``."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.torch import ops

_KEPT = ops.having("move") | ops.having("cast") | ops.having("same")
"""Methods whose result is as constant as what they are called on."""
_FILLED = ops.having("zero-one") | ops.having("new") - {"new_tensor"}
_GIVEN = ops.having("from-data") | {"new_tensor", "float", "int", "bool"}
"""Functions that give the number which they are given."""
_MARKS = frozenset(("sum", "any", "count_nonzero"))
_TRAITS = ("device", "dtype", "shape")


def is_fallback(branch: Sequence[cst.CSTNode]) -> bool:
    """Say whether statements bind or return constants and do nothing else, or are one constant."""
    parts = [
        each
        for line in branch
        for each in (line.body if isinstance(line, cst.SimpleStatementLine) else (line,))
    ]
    return bool(parts) and all(map(_falls_back, parts))


def _falls_back(part: cst.CSTNode) -> bool:
    match part:
        case cst.Assign(value=value) | cst.AnnAssign(value=value) | cst.Return(value=value):
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
            return _is_zero(left) or _is_zero(right)  # ``x.sum() * 0`` keeps the graph.
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return all(_is_constant(each.value) for each in elements)
        case cst.Dict(elements=elements):
            return all(_is_constant(each.value) for each in elements)
        case cst.Call(func=func, args=args):
            name = getattr(func, "attr", func)
            name = name.value if isinstance(name, cst.Name) else ""
            if name in _KEPT and isinstance(func, cst.Attribute) and _is_constant(func.value):
                return True
            return name in _FILLED or (
                name in _GIVEN and bool(args) and _is_constant(args[0].value)
            )
    return False


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and not node.evaluated_value


def counts_marks(node: cst.BaseExpression) -> bool:
    """Say whether something is 0 where no element is marked, or found: ``mask.sum()``,
    ``mask.any()``, ``len(found)``."""
    match node:
        case cst.Call(func=cst.Name("len")):
            return True
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("item")), args=[]):
            return counts_marks(inner)
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))):
            return name in _MARKS
    return False


def differ(test: cst.BaseExpression, needed: bool) -> bool:
    """Say whether a test holds only where two tensors differ in what they are: their device, dtype
    or shape."""
    match test:
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]
        ):
            other = isinstance(operator, cst.NotEqual if needed else cst.Equal)
            return other and any(attr_of(side) in _TRAITS for side in (left, right))
    return False
