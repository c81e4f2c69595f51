"""Where a tensor on the host comes from, as far as the file shows."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torchlint.base.records import frozen
from torchlint.rule import Module, Transfer
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name, method_called
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.uses.object_uses import Key, written_key

_MAKERS = ops.FACTORIES | ops.DATA_FACTORIES | ops.COMPUTING_FUNCTIONS
_WRAPPERS = ("torch.autograd.Variable", "torch.as_tensor")


@frozen
class Root:
    """Where an object on the host comes from.

    Args:
        node: the loop over a loader, or the call that makes a new tensor.
        name: the name that the loop binds; empty for a call.
        part: the literal index or key of the part that is meant of what the loop binds; None for
            all of it.
    """

    node: cst.CSTNode
    name: str
    part: Key | None = None


@question()
def host_roots(module: Module, node: cst.CSTNode) -> list[Root] | None:
    """Return where a tensor on the host comes from: a loop hands it out, a function is given it, or
    torch computes it; None where it is none of these."""
    match node:
        case cst.Name():
            return _all_roots(
                [_definition_roots(module, d, node.value) for d in definitions_of(module, node)]
            )
        case cst.Subscript(inner):
            return _roots_of_part(
                module,
                inner,
                written_key(node),
                host_roots(module, inner),
            )
        case cst.Attribute(inner, cst.Name("data")):
            return host_roots(module, inner)
        case cst.IfExp(body=body, orelse=orelse):
            return _all_roots([host_roots(module, each) for each in (body, orelse)])
        case cst.Call(cst.Attribute(inner, cst.Name(method))) if module.name(node.func) is None:
            known = ops.ALIASING_METHODS | ops.COMPUTING_METHODS | {"get", "items", "values"}
            return host_roots(module, inner) if method in known - {"numpy"} else None
        case cst.Call(func, [cst.Arg(star="", value=inner), *_]) if module.name(func) in _WRAPPERS:
            return host_roots(module, inner)
        case cst.Call(func) if module.name(func) in _MAKERS:
            return [Root(node, "")]
    return None


@question(remember=False)
def lies_with_batch(module: Module, transfer: Transfer) -> bool:
    """Say whether a tensor is moved to the device of another part of its own batch, ``n =
    batch["n"].to(batch["x"].device)``: who gives the batch has put both there."""
    target = transfer.target
    if isinstance(target, cst.Name):
        match definitions_of(module, target):
            case [cst.Assign([cst.AssignTarget(cst.Name())], target)]:
                pass
    if not isinstance(target, cst.Attribute) or target.attr.value != "device":
        return False
    holders = module.within(target.value, cst.Name)
    made = [each for holder in holders for each in definitions_of(module, holder)]
    if any(
        method_called(call) in MOVES
        for each in made
        if isinstance(each, cst.Assign)
        for call in module.within(each, cst.Call)
    ):
        return False
    moved = host_roots(module, transfer.source) or []
    other = host_roots(module, target.value) or []
    wholes = {(each.node, isinstance(each.node, cst.For) or each.name) for each in moved + other}
    return bool(moved and other) and len(wholes) == 1 and all(each.name for each in moved)


def _roots_of_part(
    module: Module, whole: cst.CSTNode, key: Key | None, roots: list[Root] | None
) -> list[Root] | None:
    """Return the roots of one part of what an expression gives, where that is what a loop binds
    itself."""
    if roots is None or key is None or not isinstance(whole, cst.Name) or len(roots) != 1:
        return roots
    root = roots[0]
    bound = (
        root.part is None
        and root.name == whole.value
        and definitions_of(module, whole) == [root.node]
    )
    return [replace(root, part=key)] if bound else roots


def _all_roots(found: list[list[Root] | None]) -> list[Root] | None:
    roots: list[Root] = []
    for each in found:
        if each is None:
            return None
        roots += each
    return roots or None


def _definition_roots(module: Module, definition: cst.CSTNode, name: str) -> list[Root] | None:
    match definition:
        case cst.Assign([cst.AssignTarget(target)], value):
            if (
                isinstance(target, cst.Tuple)
                and isinstance(value, cst.Tuple)
                and len(target.elements) == len(value.elements)
            ):
                for left, right in zip(target.elements, value.elements, strict=True):
                    if is_name(left.value, name):
                        return host_roots(module, right.value)
                return None
            roots = host_roots(module, value)
            if isinstance(target, cst.Tuple) and all(
                isinstance(each, cst.Element) for each in target.elements
            ):
                places = [
                    n
                    for n, each in enumerate(target.elements)
                    if name in module.names_in(each.value)
                ]
                return _roots_of_part(module, value, places[0] if len(places) == 1 else None, roots)
            return roots
        case cst.For():
            return [Root(definition, name)]
        case cst.CompFor(iter=iterated):
            return host_roots(module, iterated)
        case cst.FunctionDef():
            return [Root(definition, name)]
    return None
