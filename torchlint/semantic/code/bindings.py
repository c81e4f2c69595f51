"""What binds a name, and what a name means at a place."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question


@question(
    yes="the name is bound once",
    no="the name is bound more than once, or by something else",
    ground=True,
)
def sole_definition(module: Module, node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return the expression that a plain name is assigned in its one and only binding, or None."""
    return module.names.sole_definition(node)


@question(
    yes="the name stands for `{answer}` there",
    no="what the name stands for there is not known",
    ground=True,
    remember=False,
)
def meaning_of(module: Module, name: str, at: cst.CSTNode) -> str | None:
    """Return the one dotted name that a plain name would stand for, were it written where `at`
    stands."""
    return module.names.meaning(name, at)


@question(ground=True, remember=False)
def top_level(module: Module, name: str) -> cst.CSTNode | None:
    """Return the function or class that the file's top level binds to `name`, where it binds
    nothing else."""
    bindings = module.names.tables.get(module.root, {}).get(name, [])
    return bindings[0].node if len(bindings) == 1 else None


@question(ground=True, remember=False)
def binds_globally(module: Module, function: cst.CSTNode, name: str) -> bool:
    """Say whether a function declares `name` global or nonlocal."""
    return name in module.names.outer.get(function, ())


@question(ground=True, remember=False)
def names_of_outer_scopes(module: Module) -> list[set[str]]:
    """Return, for each function that has any, the names that it declares global or nonlocal."""
    return list(module.names.outer.values())


@question(ground=True)
def imported_over(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an import may give a name inside `node` another meaning than a binding above it
    gave it."""
    names = module.tree.within(node, cst.Name, nested=True)
    return any(
        module.names.imported_over(each.value, each) for each in names if not module.is_label(each)
    )


@question(ground=True, remember=False)
def starred_over(module: Module, home: cst.CSTNode, names: Iterable[str]) -> bool:
    """Say whether an ``import *`` below a statement may bind anew one of the names that the
    statement binds."""
    return module.names.starred_over(home, names)
