"""Tensors on the device that a function has copied there itself, so that the host has them too."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Module, Transfer, inferred
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import argument_for, is_name
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.dropped_results import calls_of
from torchlint.semantic.values.value import CPU

_SAME = ops.SAME_VALUES - ops.having("repeats")
_CAST = ops.having("method", "cast") - ops.having("move")
_LISTS = ("builtins.tuple", "builtins.list")


@question(
    yes="`{answer}` copied it to the device, so that the host has it",
    no="the host is not known to have it",
)
def uploaded_by(module: Module, tensor: cst.BaseExpression) -> cst.Call | None:
    """Return the call that copied to the device, from a loader's batch, what a name or a part of
    one holds, where nothing has changed it there."""
    at = _viewed(module, tensor)
    part = isinstance(at, cst.Subscript)
    name = at.value if isinstance(at, cst.Subscript) else at
    if not isinstance(name, cst.Name) or _is_changed(module, name):
        return None
    found = definitions_of(module, name)
    match found:
        case [cst.FunctionDef() as function] if not part:
            return _by_callers(module, function, name.value)
        case [cst.Assign([cst.AssignTarget(cst.Name())], value)] if (
            not part and (whole := _viewed(module, value)) is not value
        ):
            return uploaded_by(module, whole)
    moves = [move for each in found for move in _moves(module, each, name.value, part)]
    if len(moves) != 1 or not _from_loader(module, moves[0].source):
        return None
    others = [each for each in found if not module.is_within(moves[0].call, each)]
    before = moves[0].source
    kept = definitions_of(module, before) if isinstance(before, cst.Name) else []
    return moves[0].call if all(each in kept for each in others) else None


def _viewed(module: Module, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """Return of what an expression is a view, or a choice that the host could make as well:
    ``y[y != pad]``."""
    match tensor:
        case cst.Call(cst.Attribute(value, cst.Name(method))) if method in _SAME:
            return _viewed(module, value)
        case cst.Subscript(
            cst.Name(name) as value,
            [cst.SubscriptElement(cst.Index(index))],
        ) if name in module.names_in(index):
            others = (each for each in module.within(index, cst.Name) if each.value != name)
            return tensor if any(inferred(module, each).tensor for each in others) else value
    return tensor


def _by_callers(module: Module, function: cst.FunctionDef, name: str) -> cst.Call | None:
    """Return what copied to the device what each call in this file hands a function, or a network's
    forward."""
    names = [each.name.value for each in function.params.params]
    names = names[1:] if names[:1] == ["self"] else names
    if name not in names:
        return None
    moves = []
    for call in calls_of(module, function):
        given = argument_for(call, names.index(name), name)
        moves.append(uploaded_by(module, given) if given is not None else None)
    return moves[0] if moves and all(moves) else None


def _moves(module: Module, definition: cst.CSTNode, name: str, part: bool) -> Iterator[Transfer]:
    """Yield the move of what an assignment binds to a name, or of each part of it."""
    match definition:
        case cst.Assign([cst.AssignTarget(target)], value):
            pass
        case _:
            return
    match target, value:
        case cst.Name(), cst.Call() if not part:
            moved: cst.BaseExpression | None = value
        case cst.Tuple(names), cst.Tuple(values) if not part:
            pairs = zip(names, values, strict=False)
            moved = next((v.value for n, v in pairs if is_name(n.value, name)), None)
        case cst.Tuple(), _ if not part:
            moved = _made_of_each_part(module, value)
        case cst.Name(), _ if part:
            moved = _made_of_each_part(module, value)
        case _:
            return
    move = transfer_of(module, moved) if isinstance(moved, cst.Call) else None
    if move is not None:
        yield move


def _made_of_each_part(module: Module, value: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what a comprehension makes of each part of a batch: ``tuple(t.to(device) for t in
    batch)``."""
    match value:
        case cst.Call(args=[cst.Arg(inner)]) if module.name(value.func) in _LISTS:
            return _made_of_each_part(module, inner)
        case cst.ListComp(each) | cst.GeneratorExp(each) | cst.DictComp(value=each):
            return each
    return None


def _from_loader(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether an expression is a part of a loader's batch, or a cast of one."""
    match source:
        case cst.Call(cst.Attribute(cast, cst.Name(method))) if method in _CAST:
            return _from_loader(module, cast)
    value = inferred(module, source)
    plain = isinstance(source, (cst.Name, cst.Subscript, cst.Attribute))
    return plain and value.origin == "batch" and value.device in (None, CPU)


def _is_changed(module: Module, name: cst.Name) -> bool:
    """Say whether the function writes into what a name holds: ``y[i] = 0``, ``y.fill_(0)``."""
    for read in reads_of(module, module.scope(name), name.value):
        above = module.parent(read)
        while isinstance(above, cst.Subscript):
            if isinstance(module.parent(above), (cst.AssignTarget, cst.AugAssign)):
                return True
            above = module.parent(above)
        if isinstance(above, cst.Attribute) and above.attr.value.endswith("_"):
            return True
    return False
