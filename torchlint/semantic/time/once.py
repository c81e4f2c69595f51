"""What runs once in a program, in an epoch or every so many steps: at the top level, in a
constructor, in functions that only these call."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.flow import call_sites, escapes
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.scopes import name_outside, scopes
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import function_heat
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.values.unknown_objects import calls_of_unknown

_SPAWN = frozenset(("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"))
_MANY = 8
"""Calls of a function that are looked at."""


@question(
    yes="it runs once, in an epoch or behind an interval: there, in a constructor, or by its calls",
    no="it is not known to run that seldom",
)
def runs_once(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a node runs once in a program, for an object that is made, in an epoch or every
    so many steps: it is in no other loop, and neither is any call on the way to it, of which there
    is one at least."""
    function = module.function(node)
    if throttled(module, node, function):
        return True
    if any(loop_kind(module, loop) is not LoopKind.EPOCH for loop in module.loops(node)):
        return False
    if function is None or function.name.value == "__init__":
        return function is None or not function_heat(module, function).hot
    if escapes(module, function):
        started = list(_started(module, function))
        return bool(started) and all(site and runs_once(module, site) for site in started)
    outside = module.outside.calls(name_outside(module, function))
    known = bool(call_sites(module, function) or outside)
    sites = [
        site
        for site in (*call_sites(module, function), *_of_objects(module, function, known))
        if module.function(site) is not function
    ]
    if len(sites) > _MANY or not all(runs_once(module, site) for site in sites):
        return False
    return bool(sites or outside) and all(site.once for site in outside)


@question(
    yes="its object is only made for the time in which another one is constructed",
    no="its object may be used outside of constructors",
)
def while_constructing(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a node stands in the forward pass of a class of which all objects in view are
    made in constructors, which do not keep them: a shape that a matrix is built by."""
    function, cls = module.function(node), module.class_of(node)
    forward = function is not None and function.name.value == "forward"
    return forward and cls is not None and _made_in_constructors(module, cls)


@question()
def _made_in_constructors(module: Module, cls: cst.ClassDef) -> bool:
    named = (module.tree.call_of(each) for each in module.tree.named(cls.name.value))
    sites = [(module, call) for call in named if call is not None]
    kept = functools.partial(_made_otherwise, cls.name.value)
    if not all(_of_constructor(*each) for each in sites) or (
        module.outside.others_say(kept) is not False
    ):
        return False
    sites += module.outside.calling(Definition(module.path, cls.name.value, ""))
    return bool(sites) and all(_of_constructor(*each) for each in sites)


def _made_otherwise(name: str, text: str) -> bool:
    """Say whether a file makes an object of a class and does more in that line than to name it."""
    return (
        name in text and re.search(rf"^(?!\s*\w+ = {name}\().*\b{name}\(", text, re.M) is not None
    )


def _of_constructor(module: Module, made: cst.Call) -> bool:
    """Say whether a constructor binds what it makes to a name, and does not keep that."""
    function = module.function(made)
    match module.parent(made):
        case cst.Assign([cst.AssignTarget(cst.Name(name))]) if (
            function is not None and function.name.value == "__init__"
        ):
            kept = (
                each.value
                for each in module.within(function, cst.Assign)
                if any(isinstance(target.target, cst.Attribute) for target in each.targets)
            )
            return not any(name in module.names_in(value) for value in kept)
    return False


def _started(module: Module, function: cst.FunctionDef) -> Iterator[cst.Call | None]:
    """Yield the calls by which processes or threads run a function, which each does once; None for
    another use of its name."""
    for name in module.tree.named(function.name.value):
        arg = module.parent(name)
        call = module.taker(name)
        match arg, call:
            case cst.Arg(keyword=cst.Name("target")), cst.Call():
                yield call
            case _, cst.Call(func) if module.name(func) in _SPAWN:
                yield call
            case _ if name is not function.name:
                yield None


def _of_objects(module: Module, function: cst.FunctionDef, known: bool) -> Iterator[cst.Call]:
    """Yield the calls of a method's name on objects that are not known, where the file has one
    method of that name; where no call is known, also where all are of one family of classes."""
    name = function.name.value
    definitions = scopes(module).functions_named(name)
    if len(definitions) > 1 and (known or not _one_family(module, definitions)):
        return
    yield from calls_of_unknown(module, function)


def _one_family(module: Module, definitions: list[cst.FunctionDef]) -> bool:
    """Say whether one class of the file is a base, or the very class, of all classes that define
    some methods."""
    lineages = [
        {cls, *scopes(module).lineage(cls)} if (cls := module.class_of(each)) is not None else set()
        for each in definitions
    ]
    return bool(set.intersection(*lineages))
