"""Mappings whose values are brought to the host, ``{k: v.cpu() for k, v in batch.items()}``, or to
which a function adds those of another one, ``log[k] = log.get(k, 0) + v``; whatever else a function
brings to a device part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import Tree, is_name
from torchlint.semantic.values.value import CPU, CUDA, Value

_OF_TYPES = ("isinstance", "is_tensor", "hasattr")
_ON_HOST = Value("?", device=CPU)
"""A tensor there, or anything else."""

OnHost = Callable[[cst.BaseExpression], bool]


def on_host(value: cst.BaseExpression, lies: OnHost) -> Value | None:
    """Return the mapping in which an expression stands for the value of each key of a name, where
    each lies on the host by it."""
    match value:
        case cst.IfExp(test=test, body=body) if not lies(value) and _asks_type(test):
            value = body
    return Value("?", item=_ON_HOST) if lies(value) else None


def _asks_type(test: cst.BaseExpression) -> bool:
    match test:
        case cst.Call(cst.Name(name) | cst.Attribute(attr=cst.Name(name))):
            return name in _OF_TYPES
    return False


def merged(tree: Tree, function: cst.FunctionDef) -> tuple[str, str] | None:
    """Return the names of a mapping and of another one whose values a function puts or adds to it
    under their keys."""
    for loop in tree.within(function.body, cst.For):
        match loop:
            case cst.For(
                cst.Tuple([cst.Element(cst.Name(key)), cst.Element(cst.Name(value))]),
                cst.Call(func, []),
            ) if (source := _mapping(func)) is not None:
                lines: list[cst.Assign | cst.AugAssign] = [*tree.within(loop.body, cst.Assign)]
                for each in (*lines, *tree.within(loop.body, cst.AugAssign)):
                    held = _changed_under_key(each, key)
                    if held is not None and _adds(each.value, value):
                        return held, source
    return None


def brought(tree: Tree, function: cst.FunctionDef, given: Mapping[str, Value]) -> Value | None:
    """Return what a function gives that calls itself with each part of what it is given, and brings
    the tensors among them to a device that it is given: the same, on that device."""
    calls = list(tree.within(function.body, cst.Call))
    if not any(is_name(call.func, function.name.value) for call in calls):
        return None
    for call in calls:
        match call:
            case cst.Call(
                cst.Attribute(cst.Name(whole), cst.Name("to")),
                [cst.Arg(cst.Name(to)), *_],
            ) if whole in given and to in given:
                return _moved(given[whole], given[to].device)
            case cst.Call(cst.Attribute(cst.Name(whole), cst.Name("cuda"))) if whole in given:
                return _moved(given[whole], CUDA)
    return None


def _moved(value: Value, device: str | None) -> Value:
    here = value.tensor or value.kind in ("batch", "?")
    return (value.but(device=device) if here else value).inside(lambda part: _moved(part, device))


def _changed_under_key(line: cst.Assign | cst.AugAssign, key: str) -> str | None:
    """Return the dotted name of what a statement changes under the key of a name."""
    match line:
        case cst.Assign([cst.AssignTarget(target)]) | cst.AugAssign(target):
            match target:
                case cst.Subscript(
                    held,
                    [cst.SubscriptElement(cst.Index(cst.Name(under)))],
                ) if under == key:
                    return dotted_text(held)
    return None


def _adds(given: cst.BaseExpression, value: str) -> bool:
    """Say whether an expression is a name's value, or adds it to something."""
    match given:
        case cst.BinaryOperation(left, cst.Add(), right):
            return is_name(left, value) or is_name(right, value)
    return is_name(given, value)


def _mapping(func: cst.BaseExpression) -> str | None:
    """Return the dotted name of the mapping whose items a call of a name gives."""
    match func:
        case cst.Attribute(held, cst.Name("items")):
            return dotted_text(held)
    return None
