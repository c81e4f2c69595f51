"""How many dimensions the queries of attention have, and whether its scale is the one that the
fused call takes by itself: one divided by the root of their width.

A width, and what the scale is the root of, are followed to what tells them: the size of a tensor,
the last size of a view, an attribute that the constructor alone sets, a name that is bound once.
Where both are told by the same, they are the same number; else they may differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeGuard

import libcst as cst

from torchlint.rule import Module
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import positional
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.kept import made_once
from torchlint.semantic.values.operations import operation_of

ROOTS = ("math.sqrt", "numpy.sqrt")
_FLOAT = "builtins.float"
_ONE = frozenset(("1", "1.0", "1."))
_HALF = frozenset(("0.5", ".5", "1/2"))
_SAME_SHAPE = ops.having("same") | ops.having("copy") | ops.having("cast") | ops.having("move")
_SWAPS = ops.having("turns")
_RESHAPES = ops.having("reshapes")
_KEEPS = ops.having("keeps-rank") | ops.having("turns") | {"chunk", "split"}


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
    number = _under_root(module, scale, "-")
    told = _told(module, number) if number is not None else None
    return told is not None and any(_width(module, each) == told for each in tensors)


@question()
def _under_root(
    module: Module, node: cst.BaseExpression, sign: str = ""
) -> cst.BaseExpression | None:
    """Return the number of whose root an expression is: the root itself, or with `sign` one divided
    by it."""
    match node:
        case cst.BinaryOperation(left=one, operator=cst.Divide(), right=root) if sign:
            return _under_root(module, root) if module.source_of(one) in _ONE else None
        case cst.BinaryOperation(left=number, operator=cst.Power(), right=power):
            written = module.source_of(power).replace(" ", "")
            negative = written.startswith(("-", "(-"))
            half = written.strip("()").removeprefix("-").strip("()") in _HALF
            return number if half and negative is bool(sign) else None
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=number)]):
            return number if not sign and module.name(func) in ROOTS else None
    value = meant(module, node)
    return _under_root(module, value, sign) if value is not None else None


def meant(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
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
            module.name(call.func) in (*ROOTS, _FLOAT) or _sized_tensor(module, call) is not None
            for call in module.within(value, cst.Call, nested=True)
        )
        if alone and plain and module.parent(line) is module.parent(last):
            found += [made, *computed_for_nothing(module, value, last)]
    return found


@question()
def _told(module: Module, node: cst.BaseExpression) -> Hashable:
    """Return what tells a number: the same for what is certainly the same number; None where that
    is not known."""
    sized = _sized_tensor(module, node)
    if sized is not None:
        return _width(module, sized)
    match node:
        case cst.Integer(value=digits):
            return digits
        case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=inner)]):
            return _told(module, inner) if module.name(func) == _FLOAT else None
        case cst.Name() | cst.Attribute(value=cst.Name("self")):
            value = meant(module, node)
            if value is not None:
                return _told(module, value) or value
            made = _bound_once(module, node) if isinstance(node, cst.Name) else None
            return (module.source_of(node), made) if made is not None else None
    return None


def _sized_tensor(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor of which an expression is the last size."""
    match node:
        case (
            cst.Call(
                func=cst.Attribute(value=tensor, attr=cst.Name("size")), args=[cst.Arg(value=last)]
            )
            | cst.Subscript(
                value=cst.Attribute(value=tensor, attr=cst.Name("shape")),
                slice=[cst.SubscriptElement(slice=cst.Index(star="" | None, value=last))],
            )
        ):
            return tensor if module.source_of(last) == "-1" else None
    return None


@question()
def _width(module: Module, node: cst.BaseExpression) -> Hashable:
    """Return what tells the last size of a tensor: the same for what certainly is as wide; None
    where that is not known."""
    match node:
        case cst.Name(value=name):
            found = definitions_of(module, node)
            value = _value_of(found[0], name) if len(found) == 1 else None
            told = _width(module, value) if value is not None else None
            return told or ((name, frozenset(found)) if found else None)
        case cst.Attribute():
            return dotted_text(node)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method))) if (
            module.name(node.func) is None
        ):
            given = positional(node)
            if method in ("view", "reshape") and len(given) == len(node.args) > 1:
                return _told(module, given[-1])
            if method in _SAME_SHAPE or (method in _SWAPS and _keeps_last(module, inner, given)):
                return _width(module, inner)
    return None


def _keeps_last(module: Module, inner: cst.BaseExpression, axes: list[cst.BaseExpression]) -> bool:
    """Say whether another order of axes certainly leaves the last one where it is."""
    codes = [module.source_of(each) for each in axes]
    if not all(each.removeprefix("-").isdigit() for each in codes) or len(codes) < 2:
        return False
    at = [int(each) for each in codes]
    if len(at) > 2:
        return at[-1] in (-1, len(at) - 1)
    rank = written_rank(module, inner)
    return all(each < -1 if rank is None else each % rank != rank - 1 for each in at)


# -- dimensions ------------------------------------------------------------------------------------


@question()
def written_rank(module: Module, node: cst.BaseExpression) -> int | None:
    """Return the number of dimensions that sizes, axes or a pattern of ``rearrange`` spell out;
    None where they do not."""
    match node:
        case cst.Name():
            found = {_bound(module, node, each) for each in definitions_of(module, node)}
            return found.pop() if len(found) == 1 else None
        case cst.Subscript(value=value):
            whole = written_rank(module, value)
            number = all(
                isinstance(e.slice, cst.Index) and isinstance(e.slice.value, cst.Integer)
                for e in node.slice
            )
            return None if whole is None or not number else whole - len(node.slice)
        case cst.Call(args=[_, cst.Arg(value=cst.SimpleString() as pattern), *_]):
            return _of_pattern(str(pattern.raw_value))
    found_here = operation_of(module, node)
    if found_here is None or not found_here.operands:
        return None
    first, *rest = found_here.operands
    if found_here.name == "permute" or found_here.name in ("view", "reshape"):
        sizes = [e.value for e in rest[0].elements] if rest and _is_row(rest[0]) else rest
        return len(sizes) if len(sizes) > 1 else None
    if found_here.name == "unbind":
        whole = written_rank(module, first)
        return None if whole is None else whole - 1
    return written_rank(module, first) if found_here.name in _KEEPS else None


def _bound(module: Module, name: cst.Name, made: cst.CSTNode) -> int | None:
    match made:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value):
            return written_rank(module, value)
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if _is_row(target):
            if not _is_row(value):
                return written_rank(module, value)
            for place, each in zip(target.elements, value.elements, strict=False):
                if place.value.deep_equals(name):
                    return written_rank(module, each.value)
    return None


def _is_row(node: cst.CSTNode) -> TypeGuard[cst.Tuple | cst.List]:
    return isinstance(node, (cst.Tuple, cst.List))


def _of_pattern(pattern: str) -> int | None:
    """Return how many axes ``b n (h d) -> b h n d`` gives."""
    _, arrow, result = pattern.partition("->")
    if not arrow or "..." in result or "," in pattern:
        return None
    depth = axes = 0
    for word in result.replace("(", " ( ").replace(")", " ) ").split():
        axes += depth == 0 and word != ")"
        depth += (word == "(") - (word == ")")
    return axes
