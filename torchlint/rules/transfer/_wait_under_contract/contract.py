"""Code under a contract of no waits: files, functions and decorators that the configuration names,
and lines of which a wait is listed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.rule import Module
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.question import question
from torchlint.source.allowed_waits import listed
from torchlint.source.globs import matches


@question(ground=True, remember=False)
def is_under_contract(module: Module) -> bool:
    """Whether the contract is about anything in the file."""
    return _covered(module) is not None


@question(
    yes="it stands in code that must not wait, or its line lists a wait",
    no="no contract of no waits covers it",
    ground=True,
    remember=False,
)
def held_to(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a node is held to the contract: it stands in a function or file that must not
    wait, or a wait of its statement is listed."""
    held = _covered(module)
    return held is not None and (
        any(module.is_within(node, place) for place in held.places) or is_listed(module, node)
    )


@question(yes="its line lists a wait", no="its line lists no wait", ground=True, remember=False)
def is_listed(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a comment or the configuration lists a wait of a statement."""
    held = _covered(module)
    if held is None or not held.rows:
        return False
    return (
        module.statements.row(module.small_statement(node) or module.statement(node)) in held.rows
    )


@frozen
class _Held:
    """The bodies of the functions, or the file, in which the host must not wait, and the rows of
    statements of which a wait is listed."""

    places: tuple[cst.CSTNode, ...]
    rows: frozenset[int]


@question(ground=True)
def _covered(module: Module) -> _Held | None:
    """Return what of a file the contract is about; None where that is nothing."""
    if matches(module.filename, module.contract.files):
        places: tuple[cst.CSTNode, ...] = (module.root,)
    else:
        functions = module.nodes(cst.FunctionDef)
        places = tuple(each.body for each in functions if _is_named(module, each))
    waits = listed(module.text, module.filename, module.contract)
    rows = frozenset(row for each in waits for row in range(each.first, each.last + 1))
    return _Held(places, rows) if places or rows else None


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
