"""What the rows of libraries say of a call, of an attribute and of an annotation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.tree import is_name, keyword_of
from torchlint.semantic.torch.libraries import Row, held, row
from torchlint.semantic.values.value import ACCEL, BOOL, CPU, FLOAT, INT, PLAIN, UNKNOWN, Value, mix

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

_PLAIN = {"int": INT, "float": FLOAT, "bool": BOOL, "plain": PLAIN}
_OBJECTS = ("object", "module")
_NUMBERS = frozenset(("number", "bool", "str", "none"))
"""What a distribution makes tensors of the CPU of, or does not look at."""


def given(
    name: str, node: cst.Call, args: list[Value], receiver: Value, every: Sequence[cst.Arg]
) -> Value | None:
    """Return what a call gives by the row of its dotted name; None where there is none.

    Args:
        every: the arguments of the file, of which ``**more`` may hand on any.
    """
    found = row(name)
    if found is None:
        return None
    said = {keyword_of(arg) or arg.star for arg in node.args}
    if found.unless and said & {"**", *found.unless}:
        return None
    if switched_off(found.of, every if "**" in said and found.switch else node.args):
        return None
    if found.gives in ("first", "each"):
        return _handed_on(found, args) if args else None
    return _counted_result(found, [receiver, *args] if receiver != UNKNOWN else args, node)


def part_of(holder: Value, attr: str) -> Value | None:
    """Return what an object of a library holds under a name."""
    found = held(f"{holder.name}.{attr}") if holder.kind in _OBJECTS and holder.name else None
    return _counted_result(found, [holder], None) if found is not None else None


def constant(dotted: str) -> Value | None:
    """Return the number that a module holds under a dotted name."""
    found = held(dotted)
    return _counted_result(found, [], None) if found is not None else None


def makes(module: Module, name: str | None, cls: str) -> bool:
    """Say whether a dotted name is a class or a function of a library that makes objects of a
    class, and not one of the project's own."""
    return name is not None and gives(cls, name) and module.outside.find(name) is None


def gives(cls: str, name: str) -> bool:
    """Say whether a dotted name is a class or a function of a library that makes objects of a
    class, where the project has none of that name."""
    found = row(name)
    return found is not None and found.gives == "object" and found.of == cls


def instance(dotted: str) -> Value:
    """Return an object of a library's class, of which nothing else is known."""
    found = row(dotted)
    made = found is not None and found.gives in _OBJECTS
    return Value(found.gives, name=found.of) if found is not None and made else UNKNOWN


def method_name(receiver: Value, name: str) -> str:
    """Return the dotted name of a method of an object of a library; empty for others."""
    known = receiver.kind in _OBJECTS and receiver.name is not None
    return f"{receiver.name}.{name}" if known else ""


def switched_off(name: str | None, args: Iterable[cst.Arg]) -> bool:
    """Say whether an argument may keep a function from what its row says that it does."""
    found = row(name) if name is not None else None
    word = found.switch if found is not None else ""
    said = [a.value for a in args if word and keyword_of(a) == word]
    return not all(is_name(value, "True") for value in said)


def _handed_on(found: Row, args: list[Value]) -> Value:
    """Return what a function gives that hands on its first argument, or each of them."""
    changes: dict[str, object] = {"device": ACCEL} if "on-device" in found.words else {}
    if "any-graph" in found.words:
        changes |= {"grad": None, "rank": None}
    kind = next((word for word in ("loader", "module") if word in found.words), "?")
    given = tuple(
        each.but(**changes, kind=kind if each.kind == "?" else each.kind) for each in args
    )
    if found.gives == "each" and len(given) > 1:
        return Value("tuple", items=given)
    unknown = args[0] == UNKNOWN and "placed" in found.words
    return Value("?", device=ACCEL) if unknown else given[0]


def _counted_result(found: Row, operands: list[Value], node: cst.CSTNode | None) -> Value:
    if found.gives in _PLAIN:
        plain = _PLAIN[found.gives]
        return Value("iterator", item=plain) if "repeated" in found.words else plain
    if found.gives == "device":
        return Value("device", device=ACCEL)
    where, words = Value(), found.words
    if "like" in words:
        where = _like(operands)
    elif "on-cpu" in words:
        where = Value(device=CPU)
    elif "on-device" in words:
        where = Value(device=ACCEL)
    if "no-graph" in words or "any-graph" in words:
        where = where.but(grad=False if "no-graph" in words else None)
    if found.gives == "tensor":
        rank, dtype = 0 if "scalar" in words else None, "float" if "float" in words else None
        made = where.but(kind="tensor", rank=rank, dtype=dtype)
        return Value("list", item=made) if "repeated" in words else made
    name = "loss" if found.gives == "loss" else found.of
    kind = "module" if found.gives == "loss" else found.gives
    made = where.but(kind=kind, name=name, node=node)
    return Value("tuple", items=(made, INT)) if "counted" in words else made


def _like(operands: list[Value]) -> Value:
    """Return where tensors and objects made of tensors lie, with their graph; on the CPU where
    there are numbers alone."""
    if operands and all(each.kind in _NUMBERS for each in operands):
        return Value(device=CPU, grad=False)
    found = mix([each.but(kind="tensor") if each.kind == "object" else each for each in operands])
    unsure = found.device == CPU and any(each.kind == "?" for each in operands)
    return Value(device=None if unsure else found.device, origin=found.origin, grad=found.grad)
