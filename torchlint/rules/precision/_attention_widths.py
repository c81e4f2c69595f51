"""Whether the scale of written-out attention is the one that the fused call takes by itself: one
divided by the root of the width of its queries.

A width, and what the scale is the root of, are followed to what tells them: the size of a tensor,
an attribute that the constructor alone sets, a name that is bound once. Where both are told by the
same, they are the same number; where one of them is not known, they may differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import libcst as cst

from torchlint.rule import Module
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import has_star, is_name, positional
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.attention import is_scale
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.kept import made_once
from torchlint.semantic.values.operations import Operation, operation_of

_ROOTS = ("math.sqrt", "numpy.sqrt")
_FLOAT = "builtins.float"
_ONE = frozenset(("1", "1.0", "1."))
_HALF = frozenset(("0.5", ".5", "1/2"))
_SAME_SHAPE = ops.having("same") | ops.having("copy") | ops.having("cast") | ops.having("move")
_SIZED = ops.having("method", "sizes", "keeps-last", "keeps-whole")
_SWAPS = ops.having("turns")
_RESHAPES = ops.having("reshapes")


def is_default_scale(
    module: Module, scale: cst.BaseExpression, tensors: Iterable[cst.BaseExpression]
) -> bool:
    """Say whether a scale is certainly ``1 / sqrt(width)`` of one of these tensors, which are as
    wide as the queries."""
    tensors = list(tensors)
    home = module.scope(tensors[0])
    attributes = module.within(home, cst.Attribute, nested=True)
    if any(node.attr.value in _RESHAPES for node in attributes):
        return False
    number = _inverse_root(module, scale)
    width = _number(module, number) if number is not None else None
    return width is not None and any(_width(module, each) == width for each in tensors)


@question()
def _inverse_root(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the number of whose root an expression is the inverse."""
    match node:
        case cst.BinaryOperation(left=one, operator=cst.Divide(), right=root):
            return _under_root(module, root) if module.source_of(one) in _ONE else None
        case cst.BinaryOperation(left=number, operator=cst.Power(), right=power):
            return (
                number
                if _plain(module, power).removeprefix("-") in _HALF
                and (_plain(module, power).startswith("-"))
                else None
            )
    meant = _meant(module, node)
    return _inverse_root(module, meant) if meant is not None else None


@question()
def _under_root(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    match node:
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=number)]):
            return number if module.name(func) in _ROOTS else None
        case cst.BinaryOperation(left=number, operator=cst.Power(), right=power):
            return number if _plain(module, power) in _HALF else None
    meant = _meant(module, node)
    return _under_root(module, meant) if meant is not None else None


def _plain(module: Module, node: cst.BaseExpression) -> str:
    return module.source_of(node).replace(" ", "").strip("()")


def _meant(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what gives a name or an attribute of ``self`` its one value."""
    match node:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(value=name)):
            cls = module.class_of(node)
            made = made_once(module, cls, name) if cls is not None else None
            return made.value if made is not None and not module.loops(made) else None
        case cst.Name(value=name):
            return _value_of(_bound_once(module, node), name)
    return None


def _bound_once(module: Module, read: cst.Name) -> cst.CSTNode | None:
    """Return what binds a name, where that is one statement that no loop repeats."""
    found = definitions_of(module, read)
    return found[0] if len(found) == 1 and not module.loops(found[0]) else None


def _value_of(made: cst.CSTNode | None, name: str) -> cst.BaseExpression | None:
    match made:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=bound))], value=value):
            return value if bound == name else None
        case cst.AnnAssign(target=cst.Name(value=bound), value=value):
            return value if bound == name else None
    return None


def computed_for_nothing(
    module: Module, scale: cst.BaseExpression, last: cst.CSTNode
) -> list[cst.CSTNode]:
    """Return the assignments beside a statement that only compute what a scale is made of."""
    found: list[cst.CSTNode] = []
    for read in module.within(scale, cst.Name):
        made = _bound_once(module, read)
        value = _value_of(made, read.value)
        if made is None or value is None or readers_of(module, made, read.value) != [read]:
            continue
        line = module.statement(made)
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        plain = all(
            module.name(call.func) in (*_ROOTS, _FLOAT) or _sized_tensor(module, call) is not None
            for call in module.within(value, cst.Call, nested=True)
        )
        if alone and plain and module.parent(line) is module.parent(last):
            found += [made, *computed_for_nothing(module, value, last)]
    return found


# -- numbers ---------------------------------------------------------------------------------------


@question()
def _number(module: Module, node: cst.BaseExpression) -> Hashable:
    """Return what tells a number: the same for what is certainly the same number; None where that
    is not known."""
    sized = _sized_tensor(module, node)
    if sized is not None:
        return _width(module, sized)
    match node:
        case cst.Integer(value=digits):
            return int(digits.replace("_", ""), 0)
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=inner)]):
            return _number(module, inner) if module.name(func) == _FLOAT else None
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            sides = [_number(module, each) for each in (left, right)]
            return None if None in sides else (type(operator), *sides)
        case cst.Name(value=name):
            made = _bound_once(module, node)
            if made is None:
                return None
            return _told(module, _value_of(made, name)) or _unpacked(module, made, name)
        case cst.Attribute(value=cst.Name("self")):
            meant = _meant(module, node)
            return (_told(module, meant) or meant) if meant is not None else None
    return None


def _told(module: Module, value: cst.BaseExpression | None) -> Hashable:
    return _number(module, value) if value is not None else None


def _unpacked(module: Module, made: cst.CSTNode, name: str) -> Hashable:
    """Return what tells a number that a parameter or an assignment binds: in ``b, n, d = x.shape``
    the last is the width of `x`."""
    match made:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Tuple(elements=[*_, cst.Element(value=last)]))],
            value=value,
        ):
            tensor = _shape_of(value)
            if tensor is not None and is_name(last, name):
                return _width(module, tensor)
            return made, name
        case cst.Assign() | cst.AnnAssign() | cst.FunctionDef():
            return made, name
    return None


def _shape_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor in ``x.shape`` and ``x.size()``."""
    match node:
        case cst.Attribute(value=tensor, attr=cst.Name("shape")):
            return tensor
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("size")), args=[]):
            return tensor
    return None


def _sized_tensor(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor of which an expression is the last size."""
    match node:
        case cst.Call(
            func=cst.Attribute(value=tensor, attr=cst.Name("size")), args=[cst.Arg(value=last)]
        ):
            return tensor if module.source_of(last) == "-1" else None
        case cst.Subscript(
            value=shape, slice=[cst.SubscriptElement(slice=cst.Index(star="" | None, value=last))]
        ):
            return _shape_of(shape) if module.source_of(last) == "-1" else None
    return None


# -- tensors ---------------------------------------------------------------------------------------


@question()
def _width(module: Module, node: cst.BaseExpression) -> Hashable:
    """Return what tells the last size of a tensor: the same for what certainly is as wide; None
    where that is not known."""
    match node:
        case cst.Name(value=name):
            found = definitions_of(module, node)
            value = _value_of(found[0], name) if len(found) == 1 else None
            told = _width(module, value) if value is not None else None
            if told is None and len(found) == 1:
                told = _width_of_part(module, found[0], name)
            return told or ((name, frozenset(found)) if found else None)
        case cst.Attribute():
            return dotted_text(node)
        case cst.Subscript(
            value=inner, slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer()))]
        ):
            return _width(module, inner)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method))) if (
            method in _SIZED
        ):
            # What tells the last of the sizes that ``x.view(b, n, d)`` is given.
            sizes = _sizes(node)
            return _number(module, sizes[-1]) if sizes else None
    found_operation = operation_of(module, node)
    return _kept(module, found_operation) if found_operation is not None else None


def _width_of_part(module: Module, made: cst.CSTNode, name: str) -> Hashable:
    """Return what tells the width of one of several tensors that are bound at once."""
    match made:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Tuple(elements=targets))], value=value
        ):
            pass
        case _:
            return None
    at = [n for n, each in enumerate(targets) if name in module.names_in(each.value)]
    if len(at) != 1 or not all(isinstance(each, cst.Element) for each in targets):
        return None
    match value:
        case cst.Tuple(elements=given) if len(given) == len(targets):
            return _width(module, given[at[0]].value)
        case cst.ListComp(elt=each) | cst.GeneratorExp(elt=each):
            return _width(module, each)
        case cst.Call(func=func, args=[cst.Arg(value=cst.Lambda(body=each)), *_]) if (
            module.name(func) == "builtins.map"
        ):
            return _width(module, each)
    return None


def _sizes(call: cst.Call) -> list[cst.BaseExpression]:
    given = positional(call)
    if len(given) == 1 and isinstance(given[0], (cst.Tuple, cst.List)):
        elements = given[0].elements
        plain = all(isinstance(each, cst.Element) for each in elements)
        return [each.value for each in elements] if plain else []
    plain = len(given) == len(call.args) > 1 and not has_star(call)
    return given if plain else []


def _kept(module: Module, found: Operation) -> Hashable:
    """Return what tells the width of what an operation gives, where that is the width of its
    tensor, or that of a linear layer."""
    if found.name == "Linear" and found.made is not None:
        size = keyword_argument(module, found.made, "out_features")
        given = [arg.value for arg in found.made.args if arg.keyword is None and not arg.star]
        size = size or (given[1] if len(given) > 1 else None)
        return _number(module, size) if size is not None else None
    if not found.operands:
        return None
    inner, *others = found.operands
    scaled = found.name in ("mul", "div") and len(others) == 1 and is_scale(module, others[0])
    stays = found.name in _SAME_SHAPE or scaled
    if found.name in _SWAPS and not found.keywords:
        stays = _keeps_last(module, inner, others)
    return _width(module, inner) if stays else None


def _keeps_last(module: Module, inner: cst.BaseExpression, axes: list[cst.BaseExpression]) -> bool:
    """Say whether another order of axes certainly leaves the last one where it is."""
    if len(axes) == 1 and isinstance(axes[0], (cst.Tuple, cst.List)):
        axes = [each.value for each in axes[0].elements]
    codes = [_plain(module, each) for each in axes]
    if not all(each.removeprefix("-").isdigit() for each in codes) or len(codes) < 2:
        return False
    at = [int(each) for each in codes]
    if len(at) > 2:
        return at[-1] in (-1, len(at) - 1)
    rank = _rank(module, inner)
    if rank is None:
        return all(each < -1 for each in at)
    return all(each % rank != rank - 1 for each in at)


@question()
def _rank(module: Module, node: cst.BaseExpression) -> int | None:
    """Return how many axes a tensor certainly has."""
    match node:
        case cst.Name(value=name):
            found = definitions_of(module, node)
            made = found[0] if len(found) == 1 else None
            value = _value_of(made, name)
            rank = _rank(module, value) if value is not None else None
            return rank if rank is not None else inferred(module, node).rank
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=method))) if method in _SIZED:
            return len(_sizes(node)) or None
    found_operation = operation_of(module, node)
    if found_operation is not None and found_operation.operands:
        same = found_operation.name in _SWAPS | _SAME_SHAPE
        return _rank(module, found_operation.operands[0]) if same else None
    return inferred(module, node).rank
