"""What a test of a type says: ``isinstance(x, torch.Tensor)`` and ``torch.is_tensor(x)``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.names import Names
from torchlint.semantic.values.value import NUMBER, Value

_TENSOR = "torch.Tensor"


def no_tensors(names: Names, test: cst.BaseExpression, outcome: bool) -> Iterator[cst.CSTNode]:
    """Yield the expressions that are certainly no tensors where a test has an outcome."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            yield from no_tensors(names, inner, not outcome)
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            if isinstance(operator, cst.And) is outcome:
                yield from no_tensors(names, left, outcome)
                yield from no_tensors(names, right, outcome)
        case cst.Call(func=func, args=[cst.Arg(value=asked)]) if not outcome:
            if names.name(func) == "torch.is_tensor":
                yield asked
        case cst.Call(func=func, args=[cst.Arg(value=asked), cst.Arg(value=kinds)]) if not outcome:
            if names.name(func) == "builtins.isinstance" and _has_tensor(names, kinds):
                yield asked


def _has_tensor(names: Names, kinds: cst.BaseExpression) -> bool:
    """Say whether tensors are among some classes."""
    match kinds:
        case cst.Tuple(elements=elements):
            return any(names.name(each.value) == _TENSOR for each in elements)
        case cst.BinaryOperation(left=left, operator=cst.BitOr(), right=right):
            return _has_tensor(names, left) or _has_tensor(names, right)
    return names.name(kinds) == _TENSOR


def without_tensor(value: Value, element: Value) -> Value:
    """Return what is left of a value, which may hold `element`, where it is no tensor itself."""
    if value.kind == "accumulated":
        return NUMBER
    if not value.tensor:
        return value
    # What a model gives, or a batch, may hold tensors under names or keys.
    return value.but(kind="batch") if value.loose else Value("object", item=element)
