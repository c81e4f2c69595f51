"""Mappings whose values a loop or a comprehension brings to the host: ``batch[k] = v.cpu()``."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import Tree
from torchlint.semantic.values.value import CPU, UNKNOWN, Value

_OF_TYPES = ("isinstance", "is_tensor", "hasattr")
_ON_HOST = Value("?", device=CPU)
"""A tensor there, or anything else."""

OnHost = Callable[[cst.BaseExpression], bool]


def on_host(key: str, value: cst.BaseExpression, lies: OnHost) -> Value | None:
    """Return the mapping in which an expression stands for the value of each key of a name, where
    all but those of some keys lie on the host by it; None where more may not."""
    left = _left(key, value, lies)
    if left is None:
        return None
    return Value("?", item=_ON_HOST, keyed=tuple((each, UNKNOWN) for each in sorted(left)))


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
                    if (typed or tree.parents[each] is line) and _fills(each, text, key):
                        found = on_host(key, each.value, lies)
                        return (text, found) if found is not None else None
    return None


def _mapping(func: cst.BaseExpression) -> str | None:
    """Return the dotted name of the mapping whose items a call of a name gives."""
    match func:
        case cst.Attribute(value=held, attr=cst.Name("items")):
            return dotted_text(held)
    return None


def _fills(assign: cst.Assign, text: str, key: str) -> bool:
    match assign.targets:
        case [
            cst.AssignTarget(
                target=cst.Subscript(
                    value=held,
                    slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Name(under)))],
                )
            )
        ]:
            return under == key and dotted_text(held) == text
    return False


def _left(key: str, value: cst.BaseExpression, lies: OnHost) -> set[str] | None:
    """Return the keys whose values are left where they are; None where others may be."""
    if lies(value):
        return set()
    match value:
        case cst.IfExp(test=test, orelse=other) if lies(other):
            return _keys(key, test)
        case cst.IfExp(test=test, body=body) if lies(body) and _asks_type(test):
            return set()
    return None


def _asks_type(test: cst.BaseExpression) -> bool:
    match test:
        case cst.Call(func=cst.Name(name) | cst.Attribute(attr=cst.Name(name))):
            return name in _OF_TYPES
    return False


def _keys(key: str, test: cst.BaseExpression) -> set[str] | None:
    """Return the literals of which a test says that a name is one; None for any other test."""
    match test:
        case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
            first, last = _keys(key, left), _keys(key, right)
            return None if first is None or last is None else first | last
        case cst.Comparison(
            left=cst.Name(name),
            comparisons=[cst.ComparisonTarget(operator=cst.Equal() | cst.In(), comparator=other)],
        ) if name == key:
            listed = (cst.Tuple, cst.List, cst.Set)
            among = [e.value for e in other.elements] if isinstance(other, listed) else [other]
            texts = [str(e.raw_value) for e in among if isinstance(e, cst.SimpleString)]
            return set(texts) if len(texts) == len(among) else None
    return None
