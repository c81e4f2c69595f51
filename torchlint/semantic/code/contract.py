"""Code under a contract of no waits: files, functions and decorators that the configuration names,
and lines of which a wait is listed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.source.allowed_waits import listed
from torchlint.source.globs import matches


@question(ground=True)
def under_contract(module: Module) -> tuple[cst.CSTNode, ...]:
    """Return the file, or the outermost functions, in which the host must not wait."""
    if matches(module.filename, module.contract.files):
        return (module.root,)
    named = [each for each in module.nodes(cst.FunctionDef) if _is_named(module, each)]
    return tuple(each for each in named if set(named).isdisjoint(module.ancestors(each)))


@question(ground=True)
def listed_rows(module: Module) -> frozenset[int]:
    """Return the rows of the statements of which a comment or the configuration lists a wait."""
    found = listed(module.text, module.filename, module.contract)
    return frozenset(row for each in found for row in range(each.first, each.last + 1))


@question(ground=True, remember=False)
def qualified_name(module: Module, node: cst.CSTNode) -> str:
    """Return the name of the function that a node is or stands in, with those around it:
    ``Trainer.training_step``; empty where it stands in none."""
    names = [
        each.name.value
        for each in (node, *module.ancestors(node))
        if isinstance(each, (cst.FunctionDef, cst.ClassDef))
    ]
    return ".".join(reversed(names))


def _is_named(module: Module, function: cst.FunctionDef) -> bool:
    contract = module.contract
    decorators = [name for _, name in scopes(module).decorators(function)]
    if any(
        name == each or name.endswith(f".{each}")
        for name in decorators
        for each in contract.decorators
    ):
        return True
    return any(
        fnmatch.fnmatchcase(name, glob)
        for name in (_full_names(module, function) if contract.functions else ())
        for glob in contract.functions
    )


def _full_names(module: Module, function: cst.FunctionDef) -> Iterator[str]:
    """Yield what a function may be called: ``pkg.train.Trainer.step``, ``train.Trainer.step``,
    ``Trainer.step``, ``step``."""
    path = module.filename.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")
    name = f"{path}.{qualified_name(module, function)}"
    while name:
        yield name
        name = name.partition(".")[2]
