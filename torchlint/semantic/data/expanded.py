"""Batches that cannot be pinned, as elements of a tensor in them share memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.reaching import assigned_to, definitions_of
from torchlint.semantic.code.tree import COMPREHENSIONS, DISPLAYS, is_name, method_called
from torchlint.semantic.device.new_memory import values_of_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import DATALOADER
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.operations import operation_of
from torchlint.semantic.values.value import Value

if TYPE_CHECKING:
    from torchlint.semantic.code.tree import Function

_Where = tuple[Module, cst.CSTNode]
_SEVERAL = frozenset(("broadcast_tensors", "meshgrid", "numpy.broadcast_arrays"))
_EXPANDS = ops.having("spreads", "view") | _SEVERAL | {"numpy.broadcast_to"}
_KEEPS = ops.having("alias") - ops.having("flattens") - ops.having("host-memory") - {"contiguous"}
"""What may give the same memory with the same strides."""
_HOLDERS = ("builtins.dict", "builtins.list", "builtins.tuple")
_STORES = frozenset(("append", "insert", "extend", "update", "setdefault"))
_PARTIAL = "functools.partial"


@question(
    yes="`{answer}` of a batch has elements that share memory: pinning it fails",
    no="no tensor of a batch is known to have elements that share memory",
)
def expanded_in_batch(module: Module, loader: cst.Call) -> str | None:
    """Return the code of a tensor of a loader's batches that is expanded and not copied then,
    ``times.expand(len(batch), -1)``; None where the code in view makes none.

    ``Tensor.pin_memory`` makes a tensor with the same strides and copies into it, which raises
    where a stride is 0: several elements are one place in memory. What the default collate function
    stacks is copied.
    """
    bound = arguments_of(module, loader, DATALOADER)
    collate, dataset = bound.value("collate_fn"), bound.value("dataset")
    functions = [] if collate is None else functions_behind(module, collate)
    whole = collate is None and is_name(bound.value("batch_size"), "None")
    if dataset is not None and (whole or any(_keeps_samples(*each) for each in functions)):
        value = inferred(module, dataset)
        found = (
            definitions_behind.method(module, value, name) for name in ("__getitem__", "__iter__")
        )
        functions += [each for each in found if each is not None]
    for where, function in functions:
        for given in given_by(where, function):
            expanded = _expanded(where, given)
            if expanded is not None:
                return expanded[0].shown(expanded[1])
    return None


@question(circular=())
def functions_behind(module: Module, node: cst.BaseExpression) -> list[tuple[Module, Function]]:
    """Return the functions in view that an expression may be."""
    value = inferred(module, node)
    if isinstance(value.node, (cst.FunctionDef, cst.Lambda)):
        return [(module, value.node)]
    named = definitions_behind.named(module, node)
    called = definitions_behind.method(module, value, "__call__")
    if isinstance(node, cst.Attribute):
        cls = module.class_of(node) if is_name(node.value, "self") else None
        holder = Value("object", node=cls) if cls is not None else inferred(module, node.value)
        called = called or definitions_behind.method(module, holder, node.attr.value)
    found: list[tuple[Module, Function]] = [each for each in (named, called) if each is not None]
    if found:
        return found
    behind: list[tuple[Module, cst.BaseExpression]] = []
    match node:
        case cst.Name():
            behind = [(module, each) for each, _ in values_of_name(module, node) if each]
        case cst.Attribute():
            behind = [(module, each) for each in assigned_to(module, node)]
        case cst.Call(args=[first, *_]) if module.called(node) == _PARTIAL:
            behind = [(module, first.value)]
        case cst.Call():
            behind = [
                (where, each)
                for where, function in definitions_behind.functions(module, node)
                for each in definitions_behind.returned(where, function)
            ]
        case cst.IfExp():
            behind = [(module, node.body), (module, node.orelse)]
    return [each for where, part in behind for each in functions_behind(where, part)]


def given_by(module: Module, function: Function) -> Iterator[cst.BaseExpression]:
    """Yield what a function returns, or yields."""
    yield from definitions_behind.returned(module, function)
    for each in module.within(function.body, cst.Yield):
        if isinstance(each.value, cst.BaseExpression):
            yield each.value


def _keeps_samples(module: Module, function: Function) -> bool:
    """Say whether a collate function gives the samples as they are: ``return batch``,
    ``tuple(zip(*batch))``, ``batch[0]``."""
    params = {param.name.value for param in function.params.params}
    for given in given_by(module, function):
        at: cst.CSTNode = given
        while isinstance(at, (cst.Call, cst.Subscript)):
            if isinstance(at, cst.Subscript):
                at = at.value
            elif module.called(at) in (*_HOLDERS, "builtins.zip") and len(at.args) == 1:
                at = at.args[0].value
            else:
                break
        if is_name(at, *params):
            return True
    return False


@question(circular=None)
def _expanded(module: Module, node: cst.CSTNode) -> _Where | None:
    """Return what an expression holds, or is a view of, that is expanded; None for nothing."""
    if isinstance(node, COMPREHENSIONS):
        parts = [node.value if isinstance(node, cst.DictComp) else node.elt]
        return _first((module, each) for each in parts)
    match node:
        case cst.Dict(entries) | cst.List(entries) | cst.Tuple(entries):
            return _first((module, each.value) for each in entries)
        case cst.IfExp(body=body, orelse=orelse):
            return _first((module, each) for each in (body, orelse))
        case cst.Subscript(holder, indices):
            # ``x[0]`` may take the axis away; ``x[:2]`` and ``x[None]`` do not.
            kept = all(
                isinstance(part.slice, cst.Slice)
                or (isinstance(part.slice, cst.Index) and is_name(part.slice.value, "None"))
                for part in indices
            )
            several = isinstance(holder, cst.Call) and _name(module, holder) in _SEVERAL
            return _expanded(module, holder) if kept or several else None
        case cst.Name():
            return _first((module, each) for each in _behind_name(module, node))
        case cst.Attribute(cst.Name("self")):
            return _first((module, each) for each in assigned_to(module, node))
        case cst.Call():
            return _expanded_call(module, node)
    return None


def _first(parts: Iterator[_Where]) -> _Where | None:
    found = (_expanded(where, each) for where, each in parts)
    return next((each for each in found if each is not None), None)


def _name(module: Module, call: cst.Call) -> str:
    """Return the name of a call's operation, or of NumPy's function."""
    made = operation_of(module, call)
    return made.name if made is not None else module.called(call)


def _expanded_call(module: Module, call: cst.Call) -> _Where | None:
    name, made = _name(module, call), operation_of(module, call)
    if name in _EXPANDS or (name == "as_strided" and _strides_have_0(call)):
        return module, call
    if made is not None and name in _KEEPS and made.operands:
        return _expanded(module, made.operands[0])
    if name in _HOLDERS or isinstance(definitions_behind.made(module, call).node, cst.ClassDef):
        return _first((module, arg.value) for arg in call.args)
    if made is not None and name in ops.NAMES:
        return None
    return _first(
        (where, each)
        for where, function in definitions_behind.functions(module, call)
        for each in definitions_behind.returned(where, function)
    )


def _strides_have_0(call: cst.Call) -> bool:
    return any(
        isinstance(each.value, cst.Integer) and each.value.value == "0"
        for arg in call.args
        if isinstance(arg.value, DISPLAYS)
        for each in arg.value.elements
    )


def _behind_name(module: Module, name: cst.Name) -> Iterator[cst.CSTNode]:
    """Yield what a name may hold, and what its function stores in that."""
    for value, _ in values_of_name(module, name):
        if value is not None:
            yield value
    if any(isinstance(each, cst.FunctionDef) for each in definitions_of(module, name)):
        return
    scope = module.scope(name)
    for assign in module.within(scope, cst.Assign):
        match assign:
            case cst.Assign([cst.AssignTarget(cst.Subscript(holder))]):
                if is_name(holder, name.value):
                    yield assign.value
    for call in module.within(scope, cst.Call):
        match call:
            case cst.Call(cst.Attribute(holder)):
                if is_name(holder, name.value) and method_called(call) in _STORES:
                    yield from (arg.value for arg in call.args)
