"""Masks of attention that are nothing but causal: each position sees itself and what came before.

A mask is worked out as the three values that it has below its diagonal, on it and above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from torchlint.semantic.code.calls import keyword_argument, string
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.numbers import spelled_number
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.classes import family_of
from torchlint.semantic.values.definitions_behind import returned
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.operations import Operation, operation_of

_NOTHING_LEFT = -1e4
"""From here on, ``exp`` of a score is 0 in float32."""
_KEEPS = ops.having("same") | ops.having("move")
_INDEXED = 2
_SQUARE_MASK = "generate_square_subsequent_mask"


class Triangle(NamedTuple):
    """The values of a square matrix below its diagonal, on it and above it; booleans are 1 and
    0."""

    below: float
    on: float
    above: float
    boolean: bool = False


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


@question()
def _triangle(module: Module, node: cst.BaseExpression | None) -> Triangle | None:
    """Return what a matrix holds, None where that is not known."""
    if node is None:
        return None
    match node:
        case cst.Name():
            return _named(module, node)
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
            return _kept(module, node, name)
        case cst.Subscript(value=inner) if _from_the_start(node):
            return _triangle(module, inner)
    found = _operation(module, node)
    return found if found is not None else _returned(module, node)


def _one(found: Sequence[Triangle | None]) -> Triangle | None:
    """Return what several ways all give."""
    return found[0] if found and all(each == found[0] for each in found) else None


def _named(module: Module, read: cst.Name) -> Triangle | None:
    found: list[Triangle | None] = []
    for made in definitions_of(module, read):
        match made:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value):
                pass
            case cst.AnnAssign(value=cst.BaseExpression() as value):
                pass
            case _:
                return None
        changed = any(_changes(module, each) for each in readers_of(module, made, read.value))
        found.append(None if changed else _triangle(module, value))
    return _one(found)


def _changes(module: Module, read: cst.Name) -> bool:
    """Say whether a read changes the tensor that it reads in place: ``mask.triu_(1)``, ``mask[0] =
    …``."""
    match module.parent(read):
        case cst.Attribute(attr=cst.Name(name)):
            return name.endswith("_") and not name.endswith("__")
        case cst.Subscript() as part:
            return isinstance(module.parent(part), (cst.AssignTarget, cst.AugAssign))
    return False


def _kept(module: Module, node: cst.Attribute, name: str) -> Triangle | None:
    """Return what a class keeps under an attribute: what all assignments and buffers of that name
    give, but for a None of the constructor's."""
    cls = module.class_of(node)
    if cls is None:
        return None
    found = [
        _triangle(module, value)
        for member in family_of(module, cls)
        for value in _given(module, member, name)
    ]
    return _one(found)


def _given(module: Module, cls: cst.ClassDef, name: str) -> Iterator[cst.BaseExpression | None]:
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
            case cst.Index(value=cst.Name("None") | cst.Ellipsis()):
                pass
            case _:
                return False
    return True


# -- operations ------------------------------------------------------------------------------------


def _operation(module: Module, node: cst.BaseExpression) -> Triangle | None:
    found = operation_of(module, node)
    if found is None:
        return None
    match found.name:
        case "ones" | "zeros" | "full":
            return _filled(module, found)
    own = _triangle(module, found.operands[0]) if found.operands else None
    if own is None:
        return None
    match found.name:
        case "tril" | "triu":
            return _cut(module, found, own)
        case "bool":
            below, on, above, _ = own
            return Triangle(below != 0, on != 0, above != 0, True)
    given = [*found.operands[1:], *found.keywords.values()]
    devices = all(inferred(module, each).kind in ("device", "str") for each in given)
    return own if found.name in _KEEPS and devices else None


def _filled(module: Module, found: Operation) -> Triangle | None:
    value = {"ones": 1.0, "zeros": 0.0}.get(found.name)
    sizes: Sequence[cst.BaseExpression] = found.operands
    boolean = False
    if value is None:
        sizes, filling = sizes[:1], found.argument(1, "fill_value")
        value = _number(module, filling)
        boolean = is_name(filling, "True", "False")
    given = found.keywords.get("size", sizes[0] if len(sizes) == 1 else None)
    if isinstance(given, (cst.Tuple, cst.List)):
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


def _returned(module: Module, node: cst.BaseExpression) -> Triangle | None:
    """Return what a call of torch's own function for it gives, or of one of this file that has one
    result."""
    if not isinstance(node, cst.Call):
        return None
    callees = callees_of(module, node)
    if not callees and (dotted_text(node.func) or "").rpartition(".")[2] == _SQUARE_MASK:
        return Triangle(0.0, 0.0, -math.inf)
    found: list[Triangle | None] = []
    for callee in callees:
        ends = returned(module, callee)
        found += [_triangle(module, end) for end in ends] if ends else [None]
    return _one(found)


def _number(module: Module, node: cst.BaseExpression | None) -> float | None:
    """Return the number that an expression spells."""
    match node:
        case cst.Attribute(value=cst.Call(func=kind), attr=cst.Name("min")):
            return -math.inf if module.name(kind) == "torch.finfo" else None
    return spelled_number(module, node)
