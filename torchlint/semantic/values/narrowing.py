"""What a test of a type or of a device says: ``isinstance(x, torch.Tensor)``,
``torch.is_tensor(x)``, ``isinstance(x, Other)``, ``hasattr(x, "item")``, ``x.is_cuda``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.names import Names
from torchlint.semantic.code.tree import components, is_name
from torchlint.semantic.torch import ops
from torchlint.semantic.values.value import CPU, NONE, NUMBER, Value

_TENSOR = "torch.Tensor"
_HOLDERS = regex(
    r"^(builtins|collections|typing|torch_geometric|dgl|transformers)\b"
    r"|(Tensor|Parameter|Variable|PackedSequence|Batch\w*|Data)$"
)
"""Classes whose objects are tensors, or hold some and are moved as a tensor is."""


_COMPILED = ("torch.jit.is_scripting", "torch.jit.is_tracing")
"""What holds in no program that runs as Python."""
_NUMBERS = ("int", "float", "bool", "complex")


class Told(Enum):
    """What a test says of an expression."""

    NO_TENSOR = "no tensor; it may hold some"
    OTHER = "an object of another class, which is not moved as a tensor is"
    NUMBER = "a number of Python's"
    ON_HOST = "a tensor on the CPU"
    NONE = "nothing"


def told(
    names: Names, test: cst.BaseExpression, outcome: bool
) -> Iterator[tuple[cst.BaseExpression, Told]]:
    """Yield the expressions of which a test says something where it has an outcome."""
    match test:
        case cst.UnaryOperation(cst.Not(), inner):
            yield from told(names, inner, not outcome)
        case cst.BooleanOperation(left, operator, right):
            if isinstance(operator, cst.And) is outcome:
                yield from told(names, left, outcome)
                yield from told(names, right, outcome)
            elif isinstance(left, cst.Call) and outcome and names.name(left.func) in _COMPILED:
                yield from told(names, right, outcome)
        case cst.Call(func, [cst.Arg(asked)]) if not outcome:
            if names.name(func) == "torch.is_tensor":
                yield asked, Told.NO_TENSOR
        case cst.Call(func, [cst.Arg(asked), cst.Arg(kinds)]):
            if _of_python(names, func, "isinstance"):
                yield from _of_class(
                    names, asked, list(components(kinds, cst.Tuple, cst.BitOr)), outcome
                )
            elif is_name(func, "hasattr") and not outcome:
                yield from _lacking_method(asked, kinds)
        case cst.Attribute() | cst.Comparison():
            yield from _of_value(test, outcome)


def _of_class(
    names: Names, asked: cst.BaseExpression, kinds: Sequence[cst.BaseExpression], outcome: bool
) -> Iterator[tuple[cst.BaseExpression, Told]]:
    if not outcome:
        if any(names.name(each) == _TENSOR for each in kinds):
            yield asked, Told.NO_TENSOR
    elif all(_is_builtin(names, each, _NUMBERS) for each in kinds):
        yield asked, Told.NUMBER
    elif all(is_other(names, each) for each in kinds):
        yield asked, Told.OTHER
    elif all(_is_plain(names, each) for each in kinds):
        yield asked, Told.NO_TENSOR


def _lacking_method(
    asked: cst.BaseExpression, name: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, Told]]:
    """Yield what is said of something that lacks a method of tensors: ``hasattr(x, "item")`` is
    false."""
    if isinstance(name, cst.SimpleString) and name.raw_value in ops.METHODS:
        yield asked, Told.NUMBER if name.raw_value == "item" else Told.NO_TENSOR


def _of_value(
    test: cst.Attribute | cst.Comparison, outcome: bool
) -> Iterator[tuple[cst.BaseExpression, Told]]:
    """Yield what is said of the place of a value, or that it is None."""
    match test:
        case cst.Comparison(
            asked,
            [cst.ComparisonTarget(cst.Is() | cst.IsNot() as operator, cst.Name("None"))],
        ):
            if isinstance(operator, cst.Is) is outcome:
                yield asked, Told.NONE
        case cst.Attribute(asked, cst.Name("is_cuda" | "is_cpu" as device)):
            if outcome is (device == "is_cpu"):
                yield asked, Told.ON_HOST
        case cst.Comparison(
            cst.Attribute(cst.Attribute(asked, cst.Name("device")), cst.Name("type")),
            [
                cst.ComparisonTarget(
                    cst.Equal() | cst.NotEqual() as operator,
                    cst.SimpleString(text),
                )
            ],
        ):
            same = isinstance(operator, cst.Equal) is outcome
            if text[1:-1] == ("cpu" if same else "cuda"):
                yield asked, Told.ON_HOST


def is_other(names: Names, kind: cst.BaseExpression) -> bool:
    """Say whether a class comes from another library; what the project defines may hold tensors, or
    be one."""
    name = names.name(kind)
    other = name is not None and _HOLDERS.search(name) is None and not names.outside.is_ours(name)
    return other or _is_builtin(names, kind, (*_NUMBERS, "str", "bytes"))


def _is_plain(names: Names, kind: cst.BaseExpression) -> bool:
    """Say whether a class is one of Python's containers."""
    return (names.name(kind) or "").startswith(("collections.", "typing.")) or _is_builtin(
        names, kind, ("tuple", "list", "dict", "set")
    )


def _is_builtin(names: Names, kind: cst.BaseExpression, classes: Iterable[str]) -> bool:
    return any(_of_python(names, kind, name) for name in classes)


def _of_python(names: Names, node: cst.BaseExpression, name: str) -> bool:
    """Say whether an expression is a builtin; no ``import *`` is taken to hide these."""
    if is_name(node, name):
        return names.name(node) in (None, f"builtins.{name}")
    return False


def narrowed(value: Value, element: Value, what: Told) -> Value:
    """Return what is left of a value, which may hold `element`, where a test says something of
    it."""
    if what is Told.NONE:
        return NONE
    if what is Told.ON_HOST:
        return value.but(device=CPU) if value.tensor else value
    if value.kind == "accumulated" or (what is Told.NUMBER and value.kind in ("tensor", "batch")):
        return NUMBER
    if what is Told.OTHER and (value.tensor or value.kind in ("batch", "?")):
        return Value("object")
    if not value.tensor:
        return value
    # What a model gives, or a batch, may hold tensors under names or keys; a loss, anything.
    held = element if value.origin != "loss" else None
    return value.but(kind="batch") if value.loose else Value("object", item=held)
