"""Indices on the host that could be a range of the device, or brought to the device once."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import (
    Fix,
    Module,
    NeedImport,
    NodeEdit,
    Replace,
    Safety,
    one_sentence,
    with_keyword,
)
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.device.factories import factories_of
from torchlint.semantic.question import question
from torchlint.semantic.uses.observers import free_of_effects, hooks_operations, replaced
from torchlint.semantic.values.counts import counts_up
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU

_EMPTY = "A range whose end is below its start is empty, and torch.arange raises there."
_SEVERAL = "Tensors on several devices can no longer be indexed with it."
_POSITIONS = ("numpy.where", "numpy.nonzero")
_PATCHED = "The code replaces functions of torch, or looks at each of its operations."


def index_fix(module: Module, node: cst.Subscript, index: cst.BaseExpression) -> Fix | None:
    """Return the fix for a tensor on the device that a range or positions of the host index; where
    several things of the host index it, for all of them or none."""
    first = _of_index(module, node, index)
    more = [each for each in _beside(module, node, index) if _counted(module, each) is None]
    if _counted(module, index) is None and len(more) < len(_beside(module, node, index)):
        more = [index, *more]
        first = _ranges(module, node)
    fixes = [first, *(_of_index(module, node, each) for each in more)]
    known = [each for each in fixes if each is not None]
    if first is None or len(known) < len(fixes):
        return None
    if len(known) == 1:
        return first
    edits = dict.fromkeys(edit for each in known for edit in each.edits)
    note = one_sentence(each.note for each in known)
    safety = Safety.UNSAFE if note else Safety.SAFE
    return Fix(tuple(edits), safety, "Make the indices on the device", note)


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


def _of_index(module: Module, node: cst.Subscript, index: cst.BaseExpression) -> Fix | None:
    match index:
        case cst.Call() if _counted(module, index) is not None:
            return _ranges(module, node)
        case cst.Name():
            return _brought(module, index)
    return None


# -- ranges ----------------------------------------------------------------------------------------


def _ranges(module: Module, node: cst.Subscript) -> Fix | None:
    """Return the fix that makes all ranges of a subscript on the device."""
    if dotted_text(node.value) is None or not free_of_effects(module, node.value):
        return None
    torch = name_for_module(module, "torch", "torch")
    device = cst.Attribute(node.value, cst.Name("device"))
    edits: list[NodeEdit] = []
    whole = True
    for part in node.slice:
        index = part.slice.value if isinstance(part.slice, cst.Index) else None
        counted = _counted(module, index) if index is not None else None
        if index is None or counted is None:
            continue
        if not 0 < len(counted.args) < 3 or any(arg.star or arg.keyword for arg in counted.args):
            return None
        whole = whole and counts_up(module, counted)
        func = cst.parse_expression(f"{torch}.arange")
        new = counted.with_changes(func=func)
        edits.append(Replace(index, with_keyword(new, "device", device)))
    notes = ["" if whole else _EMPTY, _PATCHED if _watched(module) else ""]
    note = one_sentence(notes)
    safety = Safety.UNSAFE if note else Safety.SAFE
    edits.append(NeedImport("torch", torch))
    return Fix(tuple(edits), safety, "Make the index on the device", note)


def _counted(module: Module, index: cst.BaseExpression) -> cst.Call | None:
    """Return the range that indexes, also where a list is made of it."""
    match index:
        case cst.Call(func=func, args=[cst.Arg(value=inner, keyword=None, star="")]) if (
            module.name(func) == "builtins.list"
        ):
            index = inner
    ranged = isinstance(index, cst.Call) and module.name(index.func) == "builtins.range"
    return index if ranged and isinstance(index, cst.Call) else None


def _watched(module: Module) -> bool:
    return hooks_operations(module) or replaced(module, "arange")


# -- positions that index several times ------------------------------------------------------------


def _brought(module: Module, index: cst.Name) -> Fix | None:
    """Return the fix that brings the positions of ``np.where(condition)`` to the device where they
    are found, instead of once for each tensor that is indexed with them."""
    found = definitions_of(module, index)
    match found:
        case [
            cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(value=name))],
                value=cst.Call(func=func, args=[cst.Arg(keyword=None, star="")]) as call,
            ) as made
        ] if module.name(func) in _POSITIONS:
            pass
        case _:
            return None
    indexed = [_indexed_by(module, read) for read in readers_of(module, made, name)]
    tensors = [each for each in indexed if each is not None]
    if len(tensors) != len(indexed) or len(tensors) < 2:
        return None
    home = module.function(made)
    known = next((each for each in tensors if _bound_before(module, each, made)), None)
    if known is None or any(module.function(each) is not home for each in tensors):
        return None
    several = len({module.source_of(each) for each in tensors}) > 1
    note = one_sentence((_SEVERAL if several else "", _PATCHED if _watched(module) else ""))
    torch = name_for_module(module, "torch", "torch")
    where = cst.parse_expression(f"{torch}.as_tensor(at, device={known.value}.device)")
    target = cst.CompFor(cst.Name("at"), call)
    new = cst.Call(cst.Name("tuple"), [cst.Arg(cst.GeneratorExp(where, target, lpar=[], rpar=[]))])
    safety = Safety.UNSAFE if note else Safety.SAFE
    edits = (Replace(call, new), NeedImport("torch", torch))
    return Fix(edits, safety, "Bring the index to the device once", note)


def _indexed_by(module: Module, read: cst.Name) -> cst.Name | None:
    """Return the tensor on the device that a name alone indexes."""
    place = module.parent(read)
    part = module.parent(place) if isinstance(place, cst.Index) else None
    node = module.parent(part) if isinstance(part, cst.SubscriptElement) else None
    if not isinstance(node, cst.Subscript) or len(node.slice) > 1:
        return None
    tensor = node.value
    return tensor if isinstance(tensor, cst.Name) and on_device(module, tensor) is True else None


def _bound_before(module: Module, tensor: cst.Name, made: cst.Assign) -> bool:
    """Say whether a tensor is bound on each way to a statement, and to what it is bound to when it
    is indexed."""
    bound = definitions_of(module, tensor)
    if len(bound) != 1 or not isinstance(bound[0], cst.Assign) or not module.before(bound[0], made):
        return False
    block = module.parent(module.statement(bound[0]))
    return block is not None and module.is_within(made, block)
