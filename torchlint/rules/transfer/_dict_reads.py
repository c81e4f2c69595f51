"""The repair of a dictionary that a step fills with numbers one by one: it holds tensors until the
step's last one is there, and all of them are read at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.rule import (
    Fix,
    InsertAfter,
    Module,
    NeedImport,
    NodeEdit,
    Replace,
    Safety,
    kept_for_later,
)
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.device.host_reads import HostRead, number_kind, scalar_reads
from torchlint.semantic.torch.spelling import LOSS, called
from torchlint.semantic.uses.assumptions import FRAMES, LOSSES, ONE_DEVICE, TORCH
from torchlint.semantic.uses.plain_numbers import has_no_dimension
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.detachable import detachable
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import CPU

if TYPE_CHECKING:
    from torchlint.semantic.code.tree import Function

_HELD = "Until the last number is there the dictionary holds tensors, for an exception handler too."
_APART = "Tensors of different devices would raise."
_OTHERS = (
    "Other tensors in the dictionary become numbers as well, and one of several numbers raises."
)
_NO_TENSORS = ("number", "bool", "str", "none", "ndarray")
_EMPTY = ("OrderedDict", "dict", "builtins.dict", "collections.OrderedDict")


def read_when_filled(module: Module, read: HostRead) -> Fix | None:
    """Return the fix by which ``log["loss"] = loss.item()`` and its likes in the same step are read
    at once behind the last of them; None where something looks at the dictionary before."""
    holder, function = _filled(module, read.node), module.function(read.node)
    loops = module.loops(read.node)
    home = loops[0] if loops else function
    if holder is None or home is None or function is None:
        return None
    own = isinstance(home, cst.FunctionDef | cst.For) and isinstance(home.body, cst.IndentedBlock)
    fills = list(_fills(module, home, holder)) if own else []
    if len(fills) < 2 or read.node not in [each.node for each in fills]:
        return None
    lines = list(home.body.body) if isinstance(home.body, cst.IndentedBlock) else []
    first, end = fills[0].node, fills[-1].node
    behind = [each for each in lines if module.is_within(end, each) or module.before(end, each)]
    last = next((e for e in reversed(behind) if _unseen(module, home, holder, (first, e))), None)
    if last is None or not {"logged", "values"}.isdisjoint(module.names_in(function)):
        return None
    name, torch = module.source_of(holder), name_for_module(module, "torch", "torch")
    plain = all(has_no_dimension(module, each.tensor) for each in fills)
    always = [module.statement(each.node) in lines for each in fills]
    places = dict.fromkeys(module.source_of(_target(module, each.node)) for each in fills)
    row = ", ".join(places) if plain and all(always) and len(places) > 1 else ""
    if row:
        code = f"{row} = {torch}.stack(({row})).tolist()"
    elif any(always) and _made_anew(module, home, holder, first):
        numbers = "[value.reshape(()) for value in logged.values()]"
        numbers = "list(logged.values())" if plain else numbers
        items = f"for key, value in {name}.items() if {torch}.is_tensor(value)"
        code = (
            f"logged = {{key: value {items}}}\n"
            f"values = {torch}.stack({numbers})\n"
            f"{name}.update(zip(logged, values.tolist()))"
        )
    else:
        return None
    others = [inferred(module, v) for v in _put(module, home, holder, [e.node for e in fills])]
    if not row and any(each.tensor for each in others):
        return None
    note = "" if row or all(each.kind in _NO_TENSORS for each in others) else _OTHERS
    edits: list[NodeEdit] = [Replace(each.node, kept_for_later(module, each)) for each in fills]
    edits += [InsertAfter(last, code), NeedImport("torch", torch)]
    assumes = dict.fromkeys((FRAMES, TORCH, LOSSES), _HELD) | {ONE_DEVICE: _APART}
    safety = Safety.UNSAFE if note else Safety.SAFE
    return Fix(tuple(edits), safety, "Read all of them at once", note, assumes=assumes)


def _target(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    line = module.small_statement(node)
    assert isinstance(line, cst.Assign)
    return line.targets[0].target


def _filled(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the dictionary under whose key, a text, an expression is put."""
    match module.small_statement(node):
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Subscript(
                        value=holder,
                        slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString()))],
                    )
                )
            ],
            value=value,
        ) if value is node and dotted_text(holder) is not None:
            return holder
    return None


def _fills(module: Module, home: cst.CSTNode, holder: cst.BaseExpression) -> Iterator[HostRead]:
    """Yield the reads of floating numbers of the device that a step puts into a dictionary."""
    for call in module.within(home, cst.Call):
        other = _filled(module, call)
        if other is None or not other.deep_equals(holder):
            continue
        if (module.loops(call)[:1] or [home]) != [home]:
            continue
        for read in scalar_reads(module, call):
            tensor = read.tensor
            kind = number_kind(module, read)
            fraction = kind == "float" or (kind is None and called(module.source_of(tensor), LOSS))
            known = fraction and detachable(module, tensor) and not _may_be_of_host(module, tensor)
            if read.node is call and read.how in ("item", "float") and known:
                yield read


def _put(
    module: Module, home: cst.CSTNode, holder: cst.BaseExpression, fills: list[cst.BaseExpression]
) -> Iterator[cst.BaseExpression]:
    """Yield what a step puts into a dictionary besides."""
    for each in module.within(home, cst.Assign):
        for target in each.targets:
            place = target.target
            kept = isinstance(place, cst.Subscript) and place.value.deep_equals(holder)
            if kept and each.value not in fills:
                yield each.value


def _may_be_of_host(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a name may be bound to a tensor of the CPU: ``loss = torch.zeros(1)``."""
    made = definitions_of(module, tensor) if isinstance(tensor, cst.Name) else []
    return any(isinstance(m, cst.Assign) and inferred(module, m.value).device == CPU for m in made)


def _unseen(
    module: Module,
    home: cst.CSTNode,
    holder: cst.BaseExpression,
    between: tuple[cst.CSTNode, cst.CSTNode],
) -> bool:
    """Say whether a step goes on from its first number to the end of a line, and nothing does
    anything with the dictionary there but put something else into it."""
    first, last = between
    meant = dotted_text(holder) or ""

    def inside(node: cst.CSTNode) -> bool:
        return module.is_within(node, last) or (
            module.before(first, node) and module.before(node, last)
        )

    for node in module.within(home, type(holder), nested=True):
        if node.deep_equals(holder) and inside(node):
            place = module.parent(node)
            if not isinstance(place, cst.Subscript) or place.value is not node:
                return False
            if not isinstance(module.parent(place), cst.AssignTarget):
                return False
    leaves = (cst.Return, cst.Break, cst.Continue, cst.Yield, cst.Await)
    if any(inside(node) for node in module.within(home, *leaves)):
        return False
    part = meant.rpartition(".")[2]
    return not (
        isinstance(holder, cst.Attribute)
        and any(
            _speaks_of(where, function, part)
            for call in module.within(home, cst.Call)
            if inside(call)
            for where, function in definitions_behind.functions(module, call)
        )
    )


def _speaks_of(module: Module, function: Function, part: str) -> bool:
    return any(
        each.attr.value == part for each in module.within(function.body, cst.Attribute, nested=True)
    )


def _made_anew(
    module: Module, home: cst.CSTNode, holder: cst.BaseExpression, first: cst.CSTNode
) -> bool:
    """Say whether a step makes the dictionary itself, empty, before it fills it."""
    for each in module.within(home, cst.Assign):
        if module.before(each, first) and any(t.target.deep_equals(holder) for t in each.targets):
            if len(each.targets) > 1 or not _unseen(module, home, holder, (each.value, first)):
                return False
            match each.value:
                case cst.Dict(elements=[]):
                    return True
                case cst.Call(func=func, args=[]):
                    return module.name(func) in _EMPTY
    return False
