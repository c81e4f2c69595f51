"""What a loader sends to its workers, and whether it can be pickled there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.flow import call_sites, writes_of
from torchlint.semantic.code.reaching import assigned_to
from torchlint.semantic.code.tree import keyword_of, parameters_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import DATALOADER
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.inferred import inferred

_SENT = ("dataset", "collate_fn", "worker_init_fn")
_CALLABLE = regex(
    r"transform|augment|collat|preproc|tokeni[sz]e|(^|_)(fns?|func|callback|reader)$", re.IGNORECASE
)
"""What people call a parameter that is called for each sample."""


@question(
    yes="what the loader sends to workers can be pickled, as far as is known",
    no="the loader may send a lambda or a local function to its workers",
)
def pickled(module: Module, loader: cst.Call) -> bool | None:
    """Say whether all that a loader sends to workers can be pickled, as `sendable` says it of one
    expression."""
    bound = arguments_of(module, loader, DATALOADER)
    given = (bound.value(name) for name in _SENT)
    return _all_true(sendable(module, each) for each in given if each is not None)


@question(
    yes="`{0}` can be pickled, as far as is known",
    no="`{0}` holds a lambda or a local function, or may hold one that a caller gives",
    circular=True,
)
def sendable(module: Module, node: cst.BaseExpression) -> bool | None:
    """Say whether an object can be sent to a process that is spawned: False where it holds a lambda
    or a function that is defined in another one, None where a caller that is not in view chooses
    a function that it calls.

    Where workers start by ``spawn`` (Windows, macOS) or ``forkserver`` (Linux, from Python 3.14
    on), `DataLoader` pickles dataset, collate and init functions (docs of ``torch.utils.data``,
    "Platform-specific behaviors").
    """
    if module.contains(node, cst.Lambda, nested=True):
        return False
    match node:
        case cst.Name() | cst.Attribute(cst.Name("self")):
            made = inferred(module, node).node
            if isinstance(made, cst.Lambda):
                return False
            if isinstance(made, cst.FunctionDef):
                return module.function(made) is None
            function = module.function(node)
            if (
                isinstance(node, cst.Name)
                and function is not None
                and any(param.name.value == node.value for param in parameters_of(function))
                and not writes_of(module, function.body, node.value)
            ):
                # What the calls in view pass for a parameter; where there are none, a caller
                # chooses what is called like a function.
                name = node.value
                sites = call_sites(module, function)
                if not sites:
                    return None if _CALLABLE.search(name) else True
                bound = (module.bind(function, site).get(name) for site in sites)
                return _all_true(sendable(module, each) for each in bound if each is not None)
            return _all_true(sendable(module, each) for each in assigned_to(module, node))
        case cst.Call(args=args):
            parts = [arg.value for arg in args if _sends(module, arg)]
            return _all_true(
                (_keeps_no_function(module, node), *(sendable(module, part) for part in parts))
            )
        case cst.IfExp(body=first, orelse=second):
            return _all_true((sendable(module, first), sendable(module, second)))
        case cst.List(elements) | cst.Tuple(elements):
            return _all_true(sendable(module, each.value) for each in elements)
    return True


def _all_true(answers: Iterator[bool | None] | tuple[bool | None, ...]) -> bool | None:
    found = set(answers)
    return False if False in found else None if None in found else True


def _sends(module: Module, arg: cst.Arg) -> bool:
    """Say whether an argument is kept by what is made and called later, by what it is called; a
    container, or what is made in its place, may hold such a thing."""
    match arg.value:
        case cst.Call() | cst.List() | cst.Tuple() | cst.IfExp():
            return True
        case cst.Name(name) | cst.Attribute(cst.Name("self"), cst.Name(name)):
            told = keyword_of(arg) or name
            made = inferred(module, arg.value).node
            return isinstance(made, cst.FunctionDef) or any(map(_CALLABLE.search, (told, name)))
    return False


def _keeps_no_function(module: Module, call: cst.Call) -> bool:
    """Say whether the class of what a call makes keeps no lambda and no local function in
    itself."""
    for where, cls in definitions_behind.classes(module, inferred(module, call)):
        for assign in where.within(cls, cst.Assign, nested=True):
            if isinstance(assign.targets[0].target, cst.Attribute) and (
                isinstance(assign.value, cst.Lambda)
                or (
                    isinstance(assign.value, cst.Name)
                    and isinstance(made := inferred(where, assign.value).node, cst.FunctionDef)
                    and where.function(made) is not None
                )
            ):
                return False
    return True
