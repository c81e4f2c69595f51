"""What code has made on the host by itself, in memory that no loader has pinned."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch import ops
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.operations import operation_of

_FRESH = ops.having("fresh")
_OF_ARRAYS = ops.having("from-data") - {"as_tensor", "asarray"}
"""What copies an array or a list, or shares the array's memory; the others may give the tensor."""
_VIEWS = ops.having("view")
_CASTS = ops.having("cast") - ops.having("move")
_Bound = tuple[cst.BaseExpression | None, int | None]


@question(
    yes="`{0}` was computed or joined here, in memory that no loader pins",
    no="`{0}` may lie in memory that a loader has pinned",
)
def in_new_memory(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether what is moved was computed or joined on the host here, ``torch.stack(parts)``, or
    may be made of an array here: no loader pins that memory."""
    values = values_of_name(module, source) if isinstance(source, cst.Name) else [(source, None)]
    return bool(values) and (
        all(_is_fresh(module, each, at) for each, at in values)
        or any(_makes_one_of(module, each, _OF_ARRAYS) for each, _ in values)
    )


@question(
    yes="`{0}` lies in memory that the host has just taken for it",
    no="`{0}` may lie in memory that a loader has pinned",
)
def _is_fresh(module: Module, node: cst.BaseExpression | None, at: int | None = None) -> bool:
    """Say whether an expression is a tensor that torch computes or joins on the host, that itself,
    ``Variable(torch.stack(parts))``, a view or a cast of one, or what a function of the project
    makes so; with `at` that element of a tuple."""
    match node:
        case cst.Tuple(parts) if at is not None and at < len(parts):
            return _is_fresh(module, parts[at].value)
        case cst.Name():
            values = values_of_name(module, node)
            return bool(values) and all(_is_fresh(module, each, its) for each, its in values)
        case cst.Call(func, [cst.Arg(inner), *_]) if module.name(func) == "torch.autograd.Variable":
            return _is_fresh(module, inner)
    made = operation_of(module, node)
    if made is not None:
        same = made.name in _VIEWS | _CASTS and bool(made.operands)
        return made.name in _FRESH or (same and _is_fresh(module, made.operands[0]))
    functions = definitions_behind.functions(module, node) if isinstance(node, cst.Call) else []
    given = [
        (where, each)
        for where, function in functions
        for each in definitions_behind.returned(where, function)
    ]
    return bool(given) and all(_is_fresh(where, each, at) for where, each in given)


@question(yes="what binds `{0}` is in view", no="nothing in view binds `{0}`", remember=False)
def values_of_name(module: Module, name: cst.Name) -> list[_Bound]:
    """Return what a name may hold, each with the element of it that the name is: what it is
    assigned, what a loop takes one by one, or calls give; None for what is not known."""
    return [
        value
        for each in definitions_of(module, name)
        for value in _given_to(module, each, name.value) or [_bound_to(module, each, name.value)]
    ]


def _given_to(module: Module, definition: cst.CSTNode, name: str) -> list[_Bound]:
    if not isinstance(definition, cst.FunctionDef):
        return []
    sites = call_sites(module, definition)
    return [(module.bind(definition, site).get(name), None) for site in sites]


def _bound_to(module: Module, definition: cst.CSTNode, name: str) -> _Bound:
    match definition:
        case cst.Assign([cst.AssignTarget(cst.Tuple(parts))], value):
            at = next((i for i, each in enumerate(parts) if is_name(each.value, name)), None)
            return (value if at is not None else None), at
        case cst.Assign(value=value):
            return value, None
        case cst.For():
            for goes in loop_sources(module, definition):
                if is_name(goes.target, name):
                    return goes.iterated, None
    return None, None


def _makes_one_of(module: Module, value: cst.BaseExpression | None, names: frozenset[str]) -> bool:
    made = operation_of(module, value) if isinstance(value, cst.Call) else None
    return made is not None and made.name in names
