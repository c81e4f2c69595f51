"""Calls of a method on objects of which the class is not known: they may be calls of it."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.tree import Tree, is_name, positional_parameters
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.inferred import inferred


@question()
def calls_of_unknown(module: Module, function: cst.FunctionDef) -> list[cst.Call]:
    """Return the calls in this file that may be of a method, for all that is known of the object
    and by what they pass."""
    if module.class_of(function) is None:
        return []
    calls = map(module.tree.call_of, module.tree.named(function.name.value))
    return [call for call in calls if call is not None and _may_reach(module, function, call)]


def _may_reach(module: Module, function: cst.FunctionDef, call: cst.Call) -> bool:
    match call.func:
        case cst.Attribute(cst.Call(func)) if is_name(func, "super"):
            return False
        case cst.Attribute(owner) if module.name(call.func) is None:
            known = inferred(module, owner).kind not in ("module", "object", "?")
            return not known and not callees_of(module, call) and _fits(module.tree, function, call)
    return False


def _fits(tree: Tree, function: cst.FunctionDef, call: cst.Call) -> bool:
    """Say whether a method takes what a call passes."""
    if function.decorators or any(arg.star for arg in call.args):
        return True
    needed = {each.name.value for each in positional_parameters(function)[1:] if not each.default}
    given = sum(arg.keyword is None for arg in call.args)
    most = len(tree.parameters_by_place(function, call))
    more = isinstance(function.params.star_arg, cst.Param)
    return needed <= tree.bind(function, call).keys() and (more or given <= most)
