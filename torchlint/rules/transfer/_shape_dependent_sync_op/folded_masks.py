"""What a mask selects, where all that becomes of it is one number: a sum, a mean, or a loss."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Module, inferred
from torchlint.semantic.code.destinations import destinations
from torchlint.semantic.code.reaching import assigned_value, uses_of
from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.device.value_sized import gathered
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.operations import operation_of

_EACH = (
    ops.having("pointwise")
    | ops.having("compare")
    | ops.having("cast")
    | ops.having("same")
    | ops.having("copy")
) - ops.having("random")
_SUMS = ops.having("adds")
_CLASSES = ops.values("class")
_LOSSES = ops.having("loss")
_LOSS_CLASSES = frozenset(_CLASSES[name] for name in _LOSSES)
_SIZES = ops.HOST_ATTRIBUTES | {"size"}
_STEPS = 8
"""Operations behind a value in which a selection is looked for."""
_NAMES = 4
"""Further names that what is computed of the elements may be given."""


@question(
    yes="all that becomes of the elements is {answer}",
    no="the elements are not known to end in one number",
)
def folded_into(module: Module, node: cst.BaseExpression) -> tuple[str, ...]:
    """Return which of "a loss", "a mean" and "a sum" are all that becomes of what a mask selects,
    by way of what is computed of each element on its own; else nothing."""
    return tuple(sorted(_ends(module, node, _NAMES) or ()))


def _ends(module: Module, node: cst.BaseExpression, names: int) -> set[str] | None:
    """Return what a value is folded into; None where something else becomes of it."""
    reads = uses_of(module, node) if names else []
    ends: set[str] = set()
    for read in reads:
        user = _user(module, read)
        if isinstance(user, cst.Attribute):
            if any(isinstance(place, (cst.If, cst.While)) for place in destinations(module, user)):
                return None
            continue
        end = _end(module, user)
        further = {end} if end else None
        if not end and isinstance(user, cst.BaseExpression) and _is_elementwise(module, user, read):
            further = _ends(module, user, names - (read is not node))
        if further is None:
            return None
        ends |= further
    return ends or None


def _user(module: Module, read: cst.CSTNode) -> cst.CSTNode | None:
    """Return the operation that takes a value, as an operand, an argument or the receiver, or the
    attribute that only asks for its size."""
    above = module.parent(read)
    if attr_of(above) in _SIZES:
        return above
    inner = isinstance(above, (cst.Arg, cst.ComparisonTarget, cst.Attribute))
    return module.parent(above) if inner and above is not None else above


def _is_elementwise(module: Module, user: cst.BaseExpression, read: cst.CSTNode) -> bool:
    """Say whether an operation computes each element on its own, and meets no tensor of others
    than what is selected as well: without the mask their shapes would differ."""
    if isinstance(user, cst.BinaryOperation):
        other = user.right if user.left is read else user.left
        value = inferred(module, other)
        if value.tensor and value.rank != 0 and not _is_selected(module, other):
            return False
    if isinstance(user, (cst.Comparison, cst.UnaryOperation)):
        return inferred(module, user).tensor
    found = operation_of(module, user)
    return found is not None and found.name in _EACH


def _is_selected(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor is what a mask selects, or was computed of each element of that."""
    for _ in range(_STEPS):
        if gathered(module, node) is not None:
            return True
        made = assigned_value(module, node)
        found = operation_of(module, node)
        if made is not None:
            node = made
        elif found is not None and found.name in _EACH and found.operands:
            node = found.operands[0]
    return False


def _end(module: Module, user: cst.CSTNode | None) -> str:
    """Return what an operation folds all elements into, where it gives one number."""
    found = operation_of(module, user)
    if found is None or not isinstance(user, cst.Call) or inferred(module, user).rank != 0:
        return ""
    if found.name in _LOSSES | _LOSS_CLASSES:
        return "a loss"
    return ("a mean" if "mean" in found.name else "a sum") if found.name in _SUMS else ""
