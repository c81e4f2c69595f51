"""libcst's nodes at the speed of C: as dictionary keys, in type tests, and when the parser makes
them.

libcst compares nodes by identity, in Python: `__hash__` returns ``id(self)`` and `__eq__` is
``is``. `object` has the same two in C. Its classes are abstract base classes, so that each negative
`isinstance` runs `ABCMeta.__instancecheck__` and its caches; nothing registers virtual subclasses
with them, so that `type`'s own test answers the same. Our analysis asks both millions of times.

Most of a parse is the making of node objects: an `__init__` that sets each field by name through
`object.__setattr__`, then a validation, which cannot fail on what the parser read. While it parses,
`unchecked` gives the parser functions in place of the classes, which set the slots and validate
nothing; nodes that rules make are validated as ever. Two thirds of all nodes are white space and
punctuation that a tree holds again and again: of those the parser gets one object for all that are
alike. On recbole 1.2.1 this takes a fifth to a third off `parse_module` and half off the objects
that stay (12 paired runs, CPython 3.11, libcst 1.9.0, 2026-11-21).
"""

from __future__ import annotations

import dataclasses
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import libcst as cst

from torchlint.semantic.code.spelling import means_same, meant, slots, watch

R = TypeVar("R")
_MISSING = dataclasses.MISSING


class _QuickMeta(ABCMeta):
    """`ABCMeta` without virtual subclasses."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _classes(base: Any) -> Iterator[Any]:
    yield base
    for each in type.__subclasses__(base):
        yield from _classes(each)


def patch_libcst_nodes() -> None:
    """Exchange the methods of all of libcst's node classes, for this process; the second time does
    nothing."""
    if isinstance(cst.CSTNode, _QuickMeta):
        return
    for each in set(_classes(cst.CSTNode)):
        each.__class__ = _QuickMeta
        if "__hash__" in vars(each):
            each.__hash__ = object.__hash__
        if "__eq__" in vars(each):
            each.__eq__ = object.__eq__
        if each.__name__ not in SHARED or each is cst.Dot:
            watch(each)
    node: Any = cst.CSTNode
    exactly = node.deep_equals
    # Code is compared by what it means: its spelling would have to be parsed for that.
    node.deep_equals = lambda one, other: (
        one is other or (means_same(one, other) and (bool(meant(type(one))) or exactly(one, other)))
    )


SHARED = frozenset(
    (
        "SimpleWhitespace Newline TrailingWhitespace EmptyLine ParenthesizedWhitespace Comma Dot "
        "Colon Semicolon "
        "AssignEqual LeftParen RightParen LeftSquareBracket RightSquareBracket LeftCurlyBrace "
        "RightCurlyBrace"
    ).split()
)
"""Classes whose nodes say nothing of where they stand; no part of torchlint looks at one by its
identity."""
_alike: list[dict[Any, Any]] = []
"""For each of these classes the nodes of the tree that is being made, by their fields."""


@contextmanager
def unchecked() -> Iterator[ModuleType]:
    """Have the parser make nodes without validation while the context lasts: it imports `libcst`
    for each, and finds a module in its place that has the quick functions (and no folder, in which
    Python would look for more)."""
    import_module("libcst.native")  # In the stand-in nobody would find it.
    usual, quick = sys.modules["libcst"], _quick()
    sys.modules["libcst"] = quick
    try:
        yield quick
    finally:
        sys.modules["libcst"] = usual
        for nodes in _alike:
            nodes.clear()


def parsed(parse: Callable[[str], R], text: str) -> R:
    """Return what a parser of libcst's makes of a text: with its classes exchanged, unless that
    costs more than it saves, as for the first few statements of a short run."""
    global _characters
    _characters += len(text)
    if _characters < _FEW:
        return parse(text)
    with unchecked():
        return parse(text)


_FEW = 2_000
_characters = 0
"""How many characters were parsed so far."""


@cache
def _quick() -> ModuleType:
    """Return what stands in for `libcst`, in which each concrete class is its quick function."""
    found = ModuleType("libcst")
    vars(found).update((name, each) for name, each in vars(cst).items() if name != "__path__")
    for each in set(_classes(cst.CSTNode)):
        name: str = each.__name__
        if not each.__abstractmethods__ and getattr(cst, name, None) is each:
            setattr(found, name, _maker(each) or each)
    return found


def _maker(node: Any) -> Any:
    """Return a function that sets a dataclass' slots only; None where a field has none, or is not
    given to it."""
    names: dict[str, Any] = {"_MISSING": _MISSING, "new": object.__new__, "node": node}
    places = {slot.name: slot for slot in slots(node)}
    params, body = [], []
    for index, each in enumerate(dataclasses.fields(node)):
        slot = places.get(each.name)
        if not each.init or slot is None:
            return None
        names[f"set{index}"] = slot.set
        value = each.name
        if each.default is not _MISSING:
            names[f"default{index}"] = each.default
            params.append(f"{each.name}=default{index}")
        elif each.default_factory is not _MISSING:
            names[f"make{index}"] = each.default_factory
            params.append(f"{each.name}=_MISSING")
            value = f"{each.name} if {each.name} is not _MISSING else make{index}()"
        else:
            params.append(each.name)
        body.append(f"set{index}(self, {value})")
    lines = ["self = new(node)", *body]
    if node.__name__ in SHARED:
        _alike.append({})
        names["alike"], names["known"] = _alike[-1], _alike[-1].get
        key = ", ".join(each.name for each in dataclasses.fields(node))
        lines = [f"self = known(({key}))", "if self is None:", *(f"    {line}" for line in lines)]
        lines.append(f"    alike[{key}] = self")
    text = "\n    ".join([f"def make({', '.join(params)}):", *lines, "return self"])
    exec(text, names)  # noqa: S102 - as `dataclasses` makes its own; all names in it are libcst's fields
    return names["make"]
