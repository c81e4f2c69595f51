"""Indices on the host that could be a slice, or a range of the device."""

from __future__ import annotations

import libcst as cst

from torchlint.fixes.notes import safe_unless
from torchlint.rule import (
    Fix,
    Module,
    NeedImport,
    NodeEdit,
    Replace,
    Safety,
    inferred,
    with_keyword,
)
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name, method_called
from torchlint.semantic.device.factories import factories_of
from torchlint.semantic.question import question
from torchlint.semantic.torch.spelling import SURE_BATCH_SIZE, called
from torchlint.semantic.uses.assumptions import PATCHED, SIZES, TORCH
from torchlint.semantic.values.counts import counts_up
from torchlint.semantic.values.value import CPU

_EMPTY = "A range whose end is below its start is empty, and torch.arange raises there."
_VIEW = (
    "A slice is a view of the tensor instead of a copy, and is empty where the index was out of "
    "range and raised."
)


def index_fix(module: Module, node: cst.Subscript, index: cst.BaseExpression) -> Fix | None:
    """Return the fix for a tensor on the device that is indexed by a list or a range of the host;
    where it is indexed by several things of the host, all of them must be ranges."""
    beside = _beside(module, node, index)
    if beside and any(_counted(module, each) is None for each in (index, *beside)):
        return None
    match index:
        case cst.Call() if _counted(module, index) is not None:
            return _ranges(module, node)
        case cst.List() if not _written_in_vain(module, node):
            return _slice(module, node, index)
    return None


@question(
    yes="the tensor is indexed by something else of the host besides",
    no="nothing else that indexes the tensor is known to lie on the host",
)
def indexed_besides(module: Module, node: cst.Subscript, index: cst.BaseExpression) -> bool:
    """Say whether a tensor is indexed by more of the host than one index, which would be copied
    after all."""
    return bool(_beside(module, node, index))


def _beside(
    module: Module, node: cst.Subscript, index: cst.BaseExpression
) -> list[cst.BaseExpression]:
    """Return what else of the host a tensor is indexed by than one index, where no fix of its own
    makes that on the device."""
    parts = [part.slice.value for part in node.slice if isinstance(part.slice, cst.Index)]
    return [each for each in parts if each is not index and _of_host(module, each)]


def _of_host(module: Module, index: cst.BaseExpression) -> bool:
    value = inferred(module, index)
    if value.kind in ("list", "ndarray", "iterator") or isinstance(index, cst.List):
        return True
    copied = value.tensor and value.device == CPU and value.rank != 0
    return copied and not factories_of(module, index, filled=True)


def _written_in_vain(module: Module, node: cst.Subscript) -> bool:
    """Say whether the copy that a list of indices takes is changed in place, as by
    ``x[[0, 2]].clamp_()``: ``x`` stays as it is, and another copy would hide that."""
    method = module.parent(node)
    if isinstance(method, cst.Attribute):
        return method.attr.value.endswith("_") and isinstance(module.parent(method), cst.Call)
    return isinstance(method, cst.Arg) and dotted_text(method.keyword or node) == "out"


# -- ranges ----------------------------------------------------------------------------------------


def _ranges(module: Module, node: cst.Subscript) -> Fix | None:
    """Return the fix that makes all ranges of a subscript on the device."""
    if dotted_text(node.value) is None:
        return None
    torch = torch_name(module)
    device = cst.Attribute(node.value, cst.Name("device"))
    edits: list[NodeEdit] = []
    whole, assumes = True, {TORCH: PATCHED}
    for part in node.slice:
        index = part.slice.value if isinstance(part.slice, cst.Index) else None
        counted = _counted(module, index) if index is not None else None
        if index is None or counted is None:
            continue
        if not 0 < len(counted.args) < 3 or any(arg.star or arg.keyword for arg in counted.args):
            return None
        if not counts_up(module, counted):
            assumes[SIZES] = _EMPTY
            whole = whole and len(counted.args) == 1 and _is_size(module, counted.args[0].value)
        func = cst.parse_expression(f"{torch}.arange")
        new = counted.with_changes(func=func)
        edits.append(Replace(index, with_keyword(new, "device", device)))
    edits.append(NeedImport("torch", torch))
    return safe_unless(["" if whole else _EMPTY], edits, "Make the index on the device", assumes)


def _is_size(module: Module, end: cst.BaseExpression) -> bool:
    """Say whether a range ends at the size of a batch, by its name, and nothing in sight makes that
    smaller by a subtraction, or negative."""
    made = definitions_of(module, end) if isinstance(end, cst.Name) else []
    return called(last_part(end), SURE_BATCH_SIZE) and not any(
        isinstance(getattr(part, "operator", None), (cst.Subtract, cst.SubtractAssign, cst.Minus))
        for each in made
        for part in (each, *module.within(each, cst.BinaryOperation, cst.UnaryOperation))
    )


def _counted(module: Module, index: cst.BaseExpression) -> cst.Call | None:
    """Return the range that indexes, also where a list is made of it."""
    match index:
        case cst.Call(func, [cst.Arg(inner, None, star="")]) if (
            module.name(func) == "builtins.list"
        ):
            index = inner
    ranged = module.called(index) == "builtins.range"
    return index if ranged and isinstance(index, cst.Call) else None


# -- slices ----------------------------------------------------------------------------------------


def _slice(module: Module, node: cst.Subscript, index: cst.List) -> Fix | None:
    """Return the fix that takes neighbours by a slice, where nothing else picks elements."""
    for part in node.slice:
        if isinstance(part.slice, cst.Index) and part.slice.value is not index:
            other = part.slice.value
            none = is_name(other, "None")
            if not none and not isinstance(other, (cst.Ellipsis, cst.Integer)):
                return None
    bounds = _neighbours([each.value for each in index.elements])
    place = module.parent(index)
    if bounds is None or not isinstance(place, cst.Index):
        return None
    low, high = bounds
    shown = cst.parse_expression(f"x[{low}:{high}]")
    assert isinstance(shown, cst.Subscript)
    edits = (Replace(place, shown.slice[0].slice),)
    if len(index.elements) == 1 and _only_compared(module, node):
        return Fix(edits, Safety.SAFE, "Take a slice", assumes={TORCH: _VIEW})
    return Fix(edits, Safety.UNSAFE, "Take a slice", _VIEW)


def _only_compared(module: Module, node: cst.Subscript) -> bool:
    """Say whether what is taken is compared with another tensor for a mask that chooses what is
    written, and that is all: a view does as well there, and no element raises, too."""
    above = module.parent(node)
    mask = module.parent(above) if isinstance(above, cst.ComparisonTarget) else above
    if not isinstance(mask, cst.Comparison) or len(mask.comparisons) > 1:
        return False
    other = mask.comparisons[0].comparator if mask.left is node else mask.left
    if not inferred(module, other).tensor or inferred(module, other).rank == 0:
        return False
    match module.parent(mask):
        case cst.Index() as place:
            written = module.parent(module.parent(place))
            return isinstance(module.parent(written), cst.AssignTarget)
        case cst.Arg() as arg:
            return method_called(module.parent(arg)) in ("masked_fill", "masked_fill_")
    return False


def _neighbours(elements: list[cst.BaseExpression]) -> tuple[str, str] | None:
    """Return start and end of the slice that holds elements in a row, at known positions."""
    numbers = [each.evaluated_value for each in elements if isinstance(each, cst.Integer)]
    if len(numbers) == len(elements):
        row = list(range(numbers[0], numbers[0] + len(numbers)))
        return (str(row[0]) if row[0] else "", str(row[-1] + 1)) if numbers == row else None
    match elements:
        case [cst.UnaryOperation(cst.Minus(), cst.Integer("1"))]:
            return "-1", ""
    return None
