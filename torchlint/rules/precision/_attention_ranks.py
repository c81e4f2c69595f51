"""How many dimensions the queries of attention have, by what is written on their way."""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from torchlint.rule import Module
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.operations import operation_of

_KEEPS = ops.having("keeps-rank") | ops.having("turns") | {"chunk", "split"}


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
