"""Reads of a tensor of which only values on the device say how many elements they give."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import inner_loop
from torchlint.semantic.time.iterations import is_structural, iteration_count
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.operations import operation_of
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU

SIZED_BY_VALUES = ops.having("values-decide", "method") - ops.having(
    "several-with-more"
) | ops.having("pick", "several-on-request")
"""Methods and functions; `where` is one of them with a condition alone."""
_LENGTHS = frozenset(("size", "numel"))
_NAMES = frozenset(("none", "str"))
_FEW = 3


@question(
    yes="how many elements `{0}` gives is known on the device only",
    no="the host knows how many elements `{0}` gives",
)
def gathers(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a read takes the elements of a device tensor that a mask selects, or asks for
    their positions."""
    if isinstance(node, cst.Subscript):
        if isinstance(module.parent(node), (cst.AssignTarget, cst.Del)):
            return False
        indices = [part.slice.value for part in node.slice if isinstance(part.slice, cst.Index)]
        return any(_is_mask(module, index) for index in indices) and bool(
            on_device(module, node.value)
        )
    found = operation_of(module, node)
    if found is None or found.name not in SIZED_BY_VALUES or not found.operands:
        return False
    if found.name == "where" and len(found.operands) + len(found.keywords) > 1:
        return False
    return bool(on_device(module, found.operands[0]))


def _is_mask(module: Module, index: cst.BaseExpression, depth: int = 2) -> bool:
    """Say whether an index is a tensor of truth values; a comparison is one where what it indexes
    is a tensor."""
    value = inferred(module, index)
    if value.tensor:
        return value.dtype == "bool" and value.rank != 0 and value.device != CPU
    if value.kind not in ("?", "bool"):
        return False
    match index:
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(comparator=right)]):
            return not inferred(module, left).host and inferred(module, right).kind not in _NAMES
        case cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr(), left=left, right=right):
            return _is_mask(module, left, depth) or _is_mask(module, right, depth)
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=inner):
            return _is_mask(module, inner, depth)
        case cst.Name() if depth:
            definition = sole_definition(module, index)
            return definition is not None and _is_mask(module, definition, depth - 1)
    return False


@question(
    yes="a loop within the step repeats it for each element",
    no="no loop over data repeats it within the step",
)
def repeated_within_step(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a loop over data, not over a few things or the parts of a network, repeats a
    place within one step."""
    loop = inner_loop(module, node)
    if isinstance(loop, cst.While):
        return False
    parts = [loop] if isinstance(loop, cst.For) else []
    if isinstance(loop, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        parts = [loop.for_in]  # type: ignore[list-item]
    for part in parts:
        count = iteration_count(module, part)
        if (count is not None and count <= _FEW) or is_structural(module, part):
            return False
    return bool(parts)


@question(yes="only the number of elements is used", no="the elements are used")
def only_counted(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether of what a read gives only the length is used: ``len(x[mask])``,
    ``x[mask].size(0)``."""
    above = module.parent(node)
    match above:
        case cst.Attribute(attr=cst.Name(value=name), value=inner) if inner is node:
            return name == "shape" or name in _LENGTHS
        case cst.Arg():
            call = module.parent(above)
            return isinstance(call, cst.Call) and module.name(call.func) == "builtins.len"
    return False


__all__ = ["SIZED_BY_VALUES", "gathers", "only_counted", "repeated_within_step"]
