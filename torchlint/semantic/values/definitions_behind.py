"""Functions, classes and constants behind a call, an instance or a name, in this file or in another
one of the project.

Each comes with the analysis of the file that it is in, as questions about it must go there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.bindings import top_level
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.scopes import local_class, method_of
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.values.inferred import classes_of_instance, inferred
from torchlint.semantic.values.kept import MUTATORS
from torchlint.semantic.values.value import Value

if TYPE_CHECKING:
    from torchlint.semantic.code.tree import Function


def classes(
    module: Module, instance: Value, via: Module | None = None
) -> Iterator[tuple[Module, cst.ClassDef]]:
    """Yield the class that an instance is of and its ancestors in other files, nearest first.

    Ancestors in a class's own file are left to that file's `Module.method`. The analysis `via` is
    the one that may ask for those of other files, where that of the instance's file may not.
    """
    if isinstance(instance.node, cst.ClassDef):
        yield module, instance.node
    for definition in classes_of_instance(module, instance):
        where = (via or module).outside.module_of(definition)
        found = top_level(where, definition.name) if where is not None else None
        if isinstance(found, cst.ClassDef):
            yield where, found


def method(
    module: Module, instance: Value, name: str, via: Module | None = None
) -> tuple[Module, cst.FunctionDef] | None:
    """Return what an instance finds under a method's name, as far as the project defines it."""
    for where, cls in classes(module, instance, via):
        found = method_of(where, cls, name)
        if found is not None:
            return where, found
    return None


@question(ground=True, remember=False)
def functions(module: Module, call: cst.Call) -> list[tuple[Module, Function]]:
    """Return the functions that a call may reach: of this file, else a function or inherited method
    of another."""
    callees = callees_of(module, call)
    if callees:
        return [(module, callee) for callee in callees]
    elsewhere = named(module, call.func)
    if elsewhere is not None:
        return [elsewhere]
    match call.func:
        case cst.Attribute(cst.Name("self"), cst.Name(name)):
            cls = module.class_of(call)
            inherited = method(module, Value("object", node=cls), name) if cls is not None else None
            return [inherited] if inherited is not None else []
    return []


def reached(module: Module, call: cst.Call) -> list[tuple[Module, Function]]:
    """Return the functions of the project that a call may run: those of `functions`, else the
    method of an object that it calls, or the one by which an object is called."""
    if known := functions(module, call):
        return known
    match call.func:
        case cst.Attribute(receiver, cst.Name(name)) if (
            own := method(module, inferred(module, receiver), name)
        ) is not None:
            return [own]
    value = inferred(module, call.func)
    found = method(module, value, "forward" if value.kind == "module" else "__call__")
    return [found] if found is not None else []


def named(
    module: Module, node: cst.BaseExpression, via: Module | None = None
) -> tuple[Module, cst.FunctionDef] | None:
    """Return the function of another file that an expression names, or None."""
    definition = module.outside.find(module.name(node))
    where = (via or module).outside.module_of(definition) if definition is not None else None
    found = top_level(where, definition.name) if where is not None and definition else None
    return (where, found) if where is not None and isinstance(found, cst.FunctionDef) else None


@question(ground=True)
def constant(module: Module, node: cst.BaseExpression) -> tuple[Module, cst.BaseExpression] | None:
    """Return what the top level of another file alone binds a name to, where no file of the project
    writes into it."""
    home, _, name = (module.name(node) or "").rpartition(".")
    where = module.outside.file(home) if home else None
    bindings = where.names.tables.get(where.root, {}).get(name, []) if where is not None else []
    value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
    if where is None or value is None or said_somewhere(module, functools.partial(_writes, name)):
        return None
    return where, value


def _writes(name: str, text: str) -> bool:
    """Say whether a text may change what a name of another file holds, or bind it anew there."""
    into = rf"\b{name}(\.({'|'.join(sorted(MUTATORS))})\(|(\[[^]]*\])+\s*[^\w\s]?=(?!=))"
    anew = rf"\.{name}\s*[^\w\s]?=(?!=)|['\"]{name}['\"]|\bglobal\b[^\n]*\b{name}\b"
    return name in text and re.search(f"{into}|{anew}", text) is not None


@question(ground=True, remember=False)
def returned(module: Module, function: Function) -> list[cst.BaseExpression]:
    """Return the expressions that a function returns."""
    if isinstance(function, cst.Lambda):
        return [function.body]
    found = module.within(function.body, cst.Return)
    return [each.value for each in found if isinstance(each, cst.Return) and each.value is not None]


def made(module: Module, call: cst.Call) -> Value:
    """Return an instance of the class that a call names, of this file or another; unknown where it
    names none."""
    cls = local_class(module, call.func)
    if cls is not None:
        return Value("object", node=cls)
    return module.outside.instance(module.called(call))
