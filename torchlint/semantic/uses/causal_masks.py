"""Masks of attention that are nothing but causal: each position sees itself and what came before.

A mask is worked out as the three values that it has below its diagonal, on it and above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from torchlint.semantic.code.calls import keyword_argument, string
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.numbers import spelled_number
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import DISPLAYS, attr_of, is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.classes import family_of
from torchlint.semantic.values.definitions_behind import returned
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.operations import Operation, operation_of

_NOTHING_LEFT = -1e4
"""From here on, ``exp`` of a score is 0 in float32."""
_SAME = ops.having("same") | ops.having("move") | ops.having("view")
_INDEXED = 2
_SQUARE_MASK = "generate_square_subsequent_mask"


class Triangle(NamedTuple):
    """The values of a square matrix below its diagonal, on it and above it; booleans are 1 and
    0."""

    below: float
    on: float
    above: float
    boolean: bool = False

    def each(self, change: Callable[[float], float], boolean: bool = False) -> Triangle:
        """Return the matrix with each value changed."""
        return Triangle(change(self.below), change(self.on), change(self.above), boolean)


@question(
    yes="the mask lets each position see itself and those before it, and does nothing else",
    no="the mask is not known to be causal and nothing else",
)
def is_causal_mask(module: Module, mask: cst.BaseExpression, hides: bool) -> bool:
    """Say whether a mask is causal and no more, as ``scaled_dot_product_attention`` means it: True
    takes part, or the numbers are added to the scores.

    Args:
        module: the file.
        mask: the mask.
        hides: whether True leaves a position out, as ``nn.MultiheadAttention`` means it.
    """
    found = _triangle(module, mask)
    if found is None:
        return False
    if found.boolean:
        return tuple(found[:3]) == ((0, 0, 1) if hides else (1, 1, 0))
    return found.below == found.on == 0 and found.above <= _NOTHING_LEFT


@question(
    yes="the mask is a matrix",
    no="how many dimensions the mask has is not known, or they are not two",
)
def is_matrix(module: Module, mask: cst.BaseExpression) -> bool:
    """Say whether a mask is known to have two dimensions."""
    if inferred(module, mask).rank == _INDEXED:
        return True
    cls = module.class_of(mask)
    match mask:
        case cst.Attribute(cst.Name("self"), cst.Name(name)) if cls is not None:
            made = list(_assigned_values(module, cls, name))
            return bool(made) and all(
                each is not None and inferred(module, each).rank == _INDEXED for each in made
            )
    return False


@question()
def _triangle(module: Module, node: cst.BaseExpression | None) -> Triangle | None:
    """Return what a matrix holds, None where that is not known."""
    if node is None:
        return None
    match node:
        case cst.Name():
            return _named(module, node)
        case cst.Attribute(cst.Name("self"), cst.Name(name)):
            return _triangle_of_attribute(module, node, name)
        case cst.Attribute(inner, cst.Name("T" | "mT")):
            return _turned(_triangle(module, inner))
        case cst.Subscript(inner) if _from_the_start(node):
            return _triangle(module, inner)
        case cst.UnaryOperation(cst.BitInvert(), inner):
            found = _triangle(module, inner)
            return found.each(_negated, True) if found is not None and found.boolean else None
        case cst.UnaryOperation(cst.Minus(), inner):
            found = _triangle(module, inner)
            return found.each(float.__neg__) if found is not None and not found.boolean else None
        case cst.Comparison(left, [comparison]):
            test = _TESTS.get(type(comparison.operator))
            found, limit = _triangle(module, left), _number(module, comparison.comparator)
            if test is None or found is None or limit is None:
                return None
            return found.each(lambda value: float(test(value, limit)), True)
    found = _operation(module, node)
    return found if found is not None else _returned(module, node)


def _common(found: Sequence[Triangle | None]) -> Triangle | None:
    """Return what several ways all give."""
    return found[0] if found and all(each == found[0] for each in found) else None


def _named(module: Module, read: cst.Name) -> Triangle | None:
    found: list[Triangle | None] = []
    for made in definitions_of(module, read):
        match made:
            case cst.Assign([cst.AssignTarget(cst.Name())], value):
                pass
            case cst.AnnAssign(value=cst.BaseExpression() as value):
                pass
            case _:
                return None
        changed = any(_changes(module, each) for each in readers_of(module, made, read.value))
        found.append(None if changed else _triangle(module, value))
    return _common(found)


def _changes(module: Module, read: cst.Name) -> bool:
    """Say whether a read changes the tensor that it reads in place: ``mask.triu_(1)``, ``mask[0] =
    …``."""
    match module.parent(read):
        case cst.Attribute(attr=cst.Name(name)):
            return name.endswith("_") and not name.endswith("__")
        case cst.Subscript() as part:
            return isinstance(module.parent(part), (cst.AssignTarget, cst.AugAssign))
    return False


def _triangle_of_attribute(module: Module, node: cst.Attribute, name: str) -> Triangle | None:
    """Return what a class keeps under an attribute: what all assignments and buffers of that name
    give, but for a None of the constructor's."""
    cls = module.class_of(node)
    if cls is None:
        return None
    found = [
        _triangle(module, value)
        for member in family_of(module, cls)
        for value in _assigned_values(module, member, name)
    ]
    return _common(found)


def _assigned_values(
    module: Module, cls: cst.ClassDef, name: str
) -> Iterator[cst.BaseExpression | None]:
    for target in module.within(cls.body, cst.AssignTarget, cst.AnnAssign, nested=True):
        assert isinstance(target, (cst.AssignTarget, cst.AnnAssign))
        if dotted_text(target.target) == f"self.{name}":
            statement = target if isinstance(target, cst.AnnAssign) else module.parent(target)
            value = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
            function = module.function(target)
            first = function is not None and function.name.value == "__init__"
            if not (first and is_name(value, "None")):
                yield value
    for call in module.within(cls.body, cst.Call, nested=True):
        buffer = dotted_text(call.func) == "self.register_buffer" and call.args
        if buffer and string(call.args[0].value) == name:
            given = keyword_argument(module, call, "tensor")
            yield given or (call.args[1].value if len(call.args) > 1 else None)


def _from_the_start(node: cst.Subscript) -> bool:
    """Say whether a subscript takes the first rows and columns, or adds axes in front: ``mask[:n,
    :n]``, ``mask[None]``."""
    for element in node.slice:
        match element.slice:
            case cst.Slice(lower=None, step=None):
                pass
            case cst.Index(cst.Name("None") | cst.Ellipsis()):
                pass
            case _:
                return False
    return True


def _turned(found: Triangle | None) -> Triangle | None:
    return found and Triangle(found.above, found.on, found.below, found.boolean)


def _negated(value: float) -> float:
    return float(not value)


# -- comparisons -----------------------------------------------------------------------------------

_TESTS: dict[type[cst.BaseCompOp], Callable[[float, float], bool]] = {
    cst.Equal: float.__eq__,
    cst.NotEqual: float.__ne__,
    cst.LessThan: float.__lt__,
    cst.LessThanEqual: float.__le__,
    cst.GreaterThan: float.__gt__,
    cst.GreaterThanEqual: float.__ge__,
}


# -- operations ------------------------------------------------------------------------------------


def _operation(module: Module, node: cst.BaseExpression) -> Triangle | None:
    found = operation_of(module, node)
    if found is None:
        return None
    match found.name:
        case "ones" | "zeros" | "full":
            return _filled(module, found)
    if not found.operands:
        return None
    own = _triangle(module, found.operands[0])
    if found.name in ("mul", "sub"):
        # A matrix times a number, or ``1 - matrix``.
        if len(found.operands) != _INDEXED:
            return None
        first, second = found.operands
        if own is not None:
            number = _number(module, second)
            times = number is not None and found.name == "mul" and not own.boolean
            return own.each(lambda value: value * (number or 0.0)) if times else None
        number, matrix = _number(module, first), _triangle(module, second)
        if number is None or matrix is None or matrix.boolean:
            return None
        factor = number
        if found.name == "mul":
            return matrix.each(lambda value: value * factor)
        return matrix.each(lambda value: factor - value)
    return _changed(module, found, own) if own is not None else None


def _changed(module: Module, found: Operation, own: Triangle) -> Triangle | None:
    """Return what an operation makes of a matrix."""
    match found.name:
        case "tril" | "triu":
            return _cut(module, found, own)
        case "transpose" | "t":
            return _turned(own)
        case "masked_fill":
            mask = _triangle(module, found.argument(1, "mask"))
            value = _number(module, found.argument(2, "value"))
            if mask is None or not mask.boolean or value is None:
                return None
            below, on, above = (
                value if hit else was for hit, was in zip(mask[:3], own[:3], strict=True)
            )
            return Triangle(below, on, above, own.boolean)
        case "type" | "to" | "bool":
            return _cast(module, found, own)
        case "float" | "half" | "bfloat16" | "type_as":
            return own.each(float)
        case "permute" | "flatten" | "squeeze" | "flip":
            return None
        case "expand" | "contiguous" | "clone":
            return own
    return own if found.name in _SAME and _keeps_square(found) else None


def _keeps_square(found: Operation) -> bool:
    """Say whether a view only adds axes in front, as ``view(1, 1, n, n)`` and ``unsqueeze(0)``
    do."""
    given = found.operands[1:]
    match found.name, given:
        case "unsqueeze", [cst.Integer("0" | "1")]:
            return True
        case (("view" | "reshape"), [*front, rows, columns]):
            ones = all(isinstance(each, cst.Integer) and each.value == "1" for each in front)
            return ones and rows.deep_equals(columns)
    return found.name not in ops.having("view") or found.name in ops.having("same")


def _filled(module: Module, found: Operation) -> Triangle | None:
    value = {"ones": 1.0, "zeros": 0.0}.get(found.name)
    sizes: Sequence[cst.BaseExpression] = found.operands
    boolean = False
    if value is None:
        sizes, filling = sizes[:1], found.argument(1, "fill_value")
        value = _number(module, filling)
        boolean = is_name(filling, "True", "False")
    given = found.keywords.get("size", sizes[0] if len(sizes) == 1 else None)
    if isinstance(given, DISPLAYS):
        sizes = [element.value for element in given.elements]
    if value is None or len(sizes) < _INDEXED or not sizes[-1].deep_equals(sizes[-2]):
        return None
    if any(not isinstance(size, cst.Integer) or size.value != "1" for size in sizes[:-2]):
        return None
    dtype = found.keywords.get("dtype")
    return Triangle(value, value, value, boolean if dtype is None else _is_bool(module, dtype))


def _is_bool(module: Module, dtype: cst.BaseExpression) -> bool:
    return module.name(dtype) == "torch.bool" or dotted_text(dtype) == "bool"


def _cut(module: Module, found: Operation, own: Triangle) -> Triangle | None:
    """Return what ``tril`` or ``triu`` leaves of a matrix."""
    given = found.argument(1, "diagonal")
    match found.name, _number(module, given) if given is not None else 0:
        case "tril", 0:
            return own._replace(above=0.0)
        case "tril", -1:
            return own._replace(on=0.0, above=0.0)
        case "triu", 0:
            return own._replace(below=0.0)
        case "triu", 1:
            return own._replace(below=0.0, on=0.0)
    return None


def _cast(module: Module, found: Operation, own: Triangle) -> Triangle | None:
    """Return a matrix in another dtype or on another device."""
    given = [*found.operands[1:], *found.keywords.values()]
    if found.name == "bool" or any(_is_bool(module, each) for each in given):
        return own.each(lambda value: float(value != 0), True)
    if not own.boolean:
        return own
    kinds = {inferred(module, each).kind for each in given}
    if any(attr_of(each) == "device" for each in given):
        kinds = {"device"} if len(given) == 1 else kinds
    return own if kinds <= {"device", "str"} else own.each(float) if kinds == {"dtype"} else None


def _returned(module: Module, node: cst.BaseExpression) -> Triangle | None:
    """Return what a call of torch's own function for it gives, or of one of this file that has one
    result."""
    if not isinstance(node, cst.Call):
        return None
    callees = callees_of(module, node)
    if not callees and last_part(node.func) == _SQUARE_MASK:
        return Triangle(0.0, 0.0, -math.inf)
    found: list[Triangle | None] = []
    for callee in callees:
        ends = returned(module, callee)
        found += [_triangle(module, end) for end in ends] if ends else [None]
    return _common(found)


def _number(module: Module, node: cst.BaseExpression | None) -> float | None:
    """Return the number that an expression spells."""
    match node:
        case cst.Attribute(cst.Call(kind), cst.Name("min")):
            return -math.inf if module.name(kind) == "torch.finfo" else None
    return spelled_number(module, node)
