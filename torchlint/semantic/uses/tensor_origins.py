"""What is certainly a tensor, by the way it was made: by torch, or by the loader that stacks
samples into batches.

How a value is used proves less: any object may have a ``.backward()``, a ``.to()`` or a ``.shape``
of its own.
"""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import names_of_outer_scopes
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.flow import call_sites, escapes, writes_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import base_names, own_method
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import goes_over
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import DATALOADER
from torchlint.semantic.uses.object_uses import Key, literal_key
from torchlint.semantic.uses.observers import (
    elsewhere,
    elsewhere_reached,
    has_own_tensors,
    says,
)
from torchlint.semantic.values.classes import is_network
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.params import bind

_MAKERS = ops.FACTORIES | ops.DATA_FACTORIES | ops.COMPUTING_FUNCTIONS
_OTHER_COLLATE = regex(
    r"default_collate_fn_map|default_collate\s*=|setattr\([^)\n]*collate_fn|Tensor\.(to|cuda)\s*="
    r"|DataLoader\.\w+\s*="
)
_MOVERS = regex(r"^[ \t]+def (to|cuda)\(", re.MULTILINE)
"""Classes of another file whose objects have a way of their own to a device."""
_WRAPPERS = ("torch.autograd.Variable", "torch.as_tensor")


@question(remember=False)
def rebound_elsewhere(module: Module, name: str) -> bool:
    """Say whether a function of the file, or another file, may bind a name of the module or of the
    function around."""
    if any(name in names for names in names_of_outer_scopes(module)):
        return True
    return bool(writes_of(module, module.root, name)) and elsewhere_reached(module, name)


# -- batches ---------------------------------------------------------------------------------------


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
def host_roots(module: Module, node: cst.CSTNode, *, granted: bool = False) -> list[Root] | None:
    """Return where a tensor on the host comes from, or None where it is not certain that it is one
    of torch's own.

    It is new in each turn: stacked by a `DataLoader` with its own collate function, or computed by
    torch. With `granted`, so is whatever a loop hands out, and what a function is given.
    """
    match node:
        case cst.Name():
            return _all_roots(
                [
                    _definition_roots(module, d, node.value, granted)
                    for d in definitions_of(module, node)
                ]
            )
        case cst.Subscript(value=inner):
            return _part(
                module,
                inner,
                literal_key(node),
                host_roots(module, inner, granted=granted),
            )
        case cst.Attribute(value=inner, attr=cst.Name(value="data")):
            return host_roots(module, inner, granted=granted)
        case cst.IfExp(body=body, orelse=orelse):
            return _all_roots(
                [host_roots(module, each, granted=granted) for each in (body, orelse)]
            )
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method))) if (
            module.name(node.func) is None
        ):
            known = ops.ALIASING_METHODS | ops.COMPUTING_METHODS | {"get", "items", "values"}
            return (
                host_roots(module, inner, granted=granted) if method in known - {"numpy"} else None
            )
        case cst.Call(func=func, args=[cst.Arg(star="", value=inner), *_]) if (
            module.name(func) in _WRAPPERS
        ):
            return host_roots(module, inner, granted=granted)
        case cst.Call(func=func) if module.name(func) in _MAKERS:
            return [Root(node, "")]
    return None


def _part(
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


def _definition_roots(
    module: Module, definition: cst.CSTNode, name: str, granted: bool
) -> list[Root] | None:
    match definition:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
            if (
                isinstance(target, cst.Tuple)
                and isinstance(value, cst.Tuple)
                and len(target.elements) == len(value.elements)
            ):
                for left, right in zip(target.elements, value.elements, strict=True):
                    if is_name(left.value, name):
                        return host_roots(module, right.value, granted=granted)
                return None
            roots = host_roots(module, value, granted=granted)
            if isinstance(target, cst.Tuple) and all(
                isinstance(each, cst.Element) for each in target.elements
            ):
                places = [
                    n
                    for n, each in enumerate(target.elements)
                    if name in module.names_in(each.value)
                ]
                return _part(module, value, places[0] if len(places) == 1 else None, roots)
            return roots
        case cst.For():
            goes = [g for g in goes_over(module, definition) if name in module.names_in(g.target)]
            certain = len(goes) == 1 and stacks_batches(module, goes[0].iterated)
            return [Root(definition, name)] if certain or granted else None
        case cst.CompFor(iter=iterated) if granted:
            return host_roots(module, iterated, granted=granted)
        case cst.FunctionDef():
            own = [Root(definition, name)] if granted else None
            return _passed_roots(module, definition, name) or own
    return None


def _passed_roots(module: Module, function: cst.FunctionDef, name: str) -> list[Root] | None:
    """Return where the argument for a parameter comes from at every call, where the file shows them
    all."""
    sites = call_sites(module, function)
    if not sites or _handed_on(module, function):
        return None
    out: list[list[Root] | None] = []
    for site in sites:
        method = isinstance(site.func, cst.Attribute) and module.class_of(function) is not None
        passed = bind(function, site, method).get(name)
        out.append(host_roots(module, passed) if passed is not None else None)
    return _all_roots(out)


def _handed_on(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether others than the calls in this file may call a function: it is passed on, or
    stored."""
    return bool(function.decorators) or escapes(module, function)


@question()
def stacks_batches(module: Module, iterated: cst.BaseExpression) -> bool:
    """Say whether what a loop goes over is certainly a `DataLoader` that stacks samples into new
    tensors.

    So does the collate function that it has by itself, for batches of whatever size.
    """
    if isinstance(iterated, cst.Name) and rebound_elsewhere(module, iterated.value):
        return False
    value = inferred(module, iterated)
    if value.kind == "loader" and isinstance(value.node, cst.Call):
        return _stacks(module, value.node)
    function = module.function(iterated)
    if not isinstance(iterated, cst.Name):
        return False
    definitions = definitions_of(module, iterated)
    if function is None or definitions != [function]:
        made = [d.value for d in definitions if isinstance(d, cst.Assign) and len(d.targets) == 1]
        return (
            bool(made)
            and len(made) == len(definitions)
            and all(stacks_batches(module, m) for m in made)
        )
    sites = call_sites(module, function)
    method = module.class_of(function) is not None
    passed = [
        bind(function, s, method and isinstance(s.func, cst.Attribute)).get(iterated.value)
        for s in sites
    ]
    known = bool(passed) and not _handed_on(module, function)
    return known and all(p is not None and stacks_batches(module, p) for p in passed)


def _stacks(module: Module, loader: cst.Call) -> bool:
    if module.name(loader.func) != DATALOADER:
        return False
    bound = arguments_of(module, loader, DATALOADER)
    size = bound.value("batch_size")
    if (
        bound.open
        or "collate_fn" in bound.named
        or (size is not None and _may_be_none(module, size))
    ):
        return False
    return not _own_moves(module)


def _may_be_none(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the file shows that an expression may be None: without a batch size, nothing is
    stacked."""
    match node:
        case cst.Name("None"):
            return True
        case cst.IfExp(body=body, orelse=orelse):
            return _may_be_none(module, body) or _may_be_none(module, orelse)
        case cst.Name(value=name):
            for definition in definitions_of(module, node):
                if isinstance(definition, cst.FunctionDef):
                    params = (*definition.params.params, *definition.params.kwonly_params)
                    given = [p.default for p in params if p.name.value == name]
                else:
                    given = [getattr(definition, "value", None)]
                if any(is_name(each, "None") for each in given):
                    return True
    return False


@question(ground=True)
def _own_moves(module: Module) -> bool:
    """Say whether the program has batches with a ``.to`` of their own, or gives a loader its
    collate function later."""
    if says(module, _OTHER_COLLATE) or has_own_tensors(module) or elsewhere(module, _MOVERS):
        return True
    for cls in module.nodes(cst.ClassDef):
        own = any(
            own_method(module, cls, name) is not None
            for name in ("to", "cuda", "__torch_function__")
        )
        # What is neither a tensor nor a mapping or sequence cannot be collated.
        if "torch.Tensor" in base_names(module, cls) or (
            own and cls.bases and not is_network(module, cls)
        ):
            return True
    stored = (module.parent(n) for n in module.nodes(cst.Attribute) if n.attr.value == "collate_fn")
    return any(isinstance(above, cst.AssignTarget) for above in stored)
