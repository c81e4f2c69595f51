"""What a test of a type says: ``isinstance(x, torch.Tensor)``, ``torch.is_tensor(x)``, and
``isinstance(x, Other)``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.values.value import NUMBER, Value

_TENSOR = "torch.Tensor"
_HOLDERS = re.compile(
    r"^(builtins|collections|typing|torch_geometric|dgl|transformers)\b"
    r"|(Tensor|Parameter|Variable|PackedSequence|Batch\w*|Data)$"
)
"""Classes whose objects are tensors, or hold some and are moved as a tensor is."""


def no_tensors(
    names: Names, test: cst.BaseExpression, outcome: bool
) -> Iterator[tuple[cst.CSTNode, bool]]:
    """Yield the expressions that are certainly no tensors where a test has an outcome, and whether
    they are known to be objects of another class, which are not moved as tensors are."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield from no_tensors(names, inner, not outcome)
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            if isinstance(operator, cst.And) is outcome:
                yield from no_tensors(names, left, outcome)
                yield from no_tensors(names, right, outcome)
        case cst.Call(func=func, args=[cst.Arg(value=asked)]) if not outcome:
            if names.name(func) == "torch.is_tensor":
                yield asked, False
        case cst.Call(func=func, args=[cst.Arg(value=asked), cst.Arg(value=kinds)]):
            if names.name(func) != "builtins.isinstance":
                return
            if outcome and all(_is_other(names, each) for each in _classes(kinds)):
                yield asked, True
            elif not outcome and any(names.name(each) == _TENSOR for each in _classes(kinds)):
                yield asked, False


def _classes(kinds: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the classes that ``isinstance`` is asked for."""
    match kinds:
        case cst.Tuple(elements=elements):
            for each in elements:
                yield from _classes(each.value)
        case cst.BinaryOperation(left=left, operator=cst.BitOr(), right=right):
            yield from _classes(left)
            yield from _classes(right)
        case _:
            yield kinds


def _is_other(names: Names, kind: cst.BaseExpression) -> bool:
    name = names.name(kind) or dotted_text(kind)
    return name is not None and _HOLDERS.search(name) is None


def without_tensor(value: Value, element: Value, other: bool) -> Value:
    """Return what is left of a value, which may hold `element`, where it is no tensor itself;
    `other` says that it is an object of another class."""
    if value.kind == "accumulated":
        return NUMBER
    if other and (value.tensor or value.kind in ("batch", "?")):
        return Value("object")
    if not value.tensor:
        return value
    # What a model gives, or a batch, may hold tensors under names or keys.
    return value.but(kind="batch") if value.loose else Value("object", item=element)
