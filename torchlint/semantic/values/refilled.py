"""Mappings that a loop fills: with the values of another one, ``log[k] = log.get(k, 0) + v``, or
with its own, which it brings to the host, ``batch[k] = v.cpu()``."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import Tree, is_name
from torchlint.semantic.values.value import CPU, Value

_OF_TYPES = ("isinstance", "is_tensor", "hasattr")
_ON_HOST = Value("?", device=CPU)
"""A tensor there, or anything else."""

OnHost = Callable[[cst.BaseExpression], bool]


def on_host(value: cst.BaseExpression, lies: OnHost) -> Value | None:
    """Return the mapping in which an expression stands for the value of each key, where all lie on
    the host by it; None where more may not."""
    match value:
        case cst.IfExp(test=test, body=body) if lies(body) and _asks_type(test):
            return Value("?", item=_ON_HOST)
    return Value("?", item=_ON_HOST) if lies(value) else None


def refilled(tree: Tree, loop: cst.For, lies: OnHost) -> tuple[str, Value] | None:
    """Return the dotted name of the mapping that a loop over its items fills so again, with what it
    holds then."""
    match loop:
        case cst.For(
            target=cst.Tuple(elements=[cst.Element(value=cst.Name(key)), _]),
            iter=cst.Call(args=[cst.Arg(value=cst.Call(func=func, args=[]))])
            | cst.Call(func=func, args=[]),
        ) if (text := _mapping(func)) is not None:
            for line in loop.body.body:
                typed = isinstance(line, cst.If) and line.orelse is None and _asks_type(line.test)
                for each in tree.within(line, cst.Assign):
                    if (typed or tree.parents[each] is line) and _under(each, key) == text:
                        found = on_host(each.value, lies)
                        return (text, found) if found is not None else None
    return None


def merged(tree: Tree, function: cst.FunctionDef) -> tuple[str, str] | None:
    """Return the names of a mapping and of another one whose values a function puts or adds to it
    under their keys."""
    for loop in tree.within(function.body, cst.For):
        match loop:
            case cst.For(
                target=cst.Tuple(
                    elements=[cst.Element(value=cst.Name(key)), cst.Element(value=cst.Name(value))]
                ),
                iter=cst.Call(func=func, args=[]),
            ) if (source := _mapping(func)) is not None:
                lines: list[cst.Assign | cst.AugAssign] = [*tree.within(loop.body, cst.Assign)]
                for each in (*lines, *tree.within(loop.body, cst.AugAssign)):
                    held = _under(each, key)
                    if held is not None and _adds(each.value, value):
                        return held, source
    return None


def _under(line: cst.Assign | cst.AugAssign, key: str) -> str | None:
    """Return the dotted name of what a statement changes under the key of a name."""
    match line:
        case cst.Assign(targets=[cst.AssignTarget(target=target)]) | cst.AugAssign(target=target):
            match target:
                case cst.Subscript(
                    value=held,
                    slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Name(under)))],
                ) if under == key:
                    return dotted_text(held)
    return None


def _adds(given: cst.BaseExpression, value: str) -> bool:
    """Say whether an expression is a name's value, or adds it to something."""
    match given:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            return is_name(left, value) or is_name(right, value)
    return is_name(given, value)


def _mapping(func: cst.BaseExpression) -> str | None:
    """Return the dotted name of the mapping whose items a call of a name gives."""
    match func:
        case cst.Attribute(value=held, attr=cst.Name("items")):
            return dotted_text(held)
    return None


def _asks_type(test: cst.BaseExpression) -> bool:
    match test:
        case cst.Call(func=cst.Name(name) | cst.Attribute(attr=cst.Name(name))):
            return name in _OF_TYPES
    return False
