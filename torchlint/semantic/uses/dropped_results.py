"""Results that a function gives and nobody takes: the second of two that all callers leave, what a
flag gives that is off by default. What is kept on ``self`` is kept for somebody."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_to, readers_of
from torchlint.semantic.code.tree import is_name, parameters_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.inferred import inferred


@question(yes="nobody takes the result", no="somebody may take the result")
def dropped_result(module: Module, read: cst.CSTNode) -> bool:
    """Say whether a read stands in ``return out, weights`` and no caller in this file takes it, or
    it is only given where a flag says so that is off by default."""
    element = module.parent(read)
    results = module.parent(element) if isinstance(element, cst.Element) else None
    if not isinstance(results, cst.Tuple):
        return False
    above = module.parent(results)
    if not isinstance(above, (cst.Return, cst.IfExp)):
        return False
    if _behind_a_flag_that_is_off(module, results):
        return True
    function = module.function(read)
    if function is None or not isinstance(above, cst.Return):
        return False
    index = results.elements.index(element)
    calls = calls_of(module, function)
    return bool(calls) and all(_leaves(module, call, index) for call in calls)


@question(remember=False)
def calls_of(module: Module, function: cst.FunctionDef) -> list[cst.Call]:
    """Return the calls of a function; those of a module for its ``forward``."""
    cls = module.class_of(function)
    if function.name.value != "forward" or cls is None:
        return list(call_sites(module, function))
    instances = (call for call in module.nodes(cst.Call) if _may_be_instance(call.func))
    made = ((call, inferred(module, call.func)) for call in instances)
    return [call for call, value in made if value.kind == "module" and value.node is cls]


def _may_be_instance(func: cst.BaseExpression) -> bool:
    kept = isinstance(func, cst.Attribute) and dotted_text(func.value) == "self"
    return kept or isinstance(func, (cst.Name, cst.Subscript))


def _leaves(module: Module, call: cst.Call, index: int) -> bool:
    """Say whether a caller leaves one of several results unread, or hands it on to callers that
    do."""
    above = module.parent(call)
    match above:
        case cst.Subscript(
            value,
            [cst.SubscriptElement(cst.Index(cst.Integer(taken)))],
        ) if value is call:
            return int(taken) != index
        case cst.Assign([cst.AssignTarget(cst.Tuple(elements))]) if len(elements) > index:
            target = elements[index].value
            return isinstance(target, cst.Name) and all(
                dropped_result(module, read) for read in readers_of(module, above, target.value)
            )
    return False


def _behind_a_flag_that_is_off(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a flag whose default is False has to be set for a place to be reached."""
    child: cst.CSTNode = node
    for above in module.ancestors(node):
        if isinstance(above, cst.FunctionDef):
            return False
        if isinstance(above, (cst.If, cst.IfExp)) and child is above.body:
            flag = above.test
            if isinstance(flag, cst.Name):
                function = module.function(flag)
                return function is not None and _default_false(function, flag.value)
            path = dotted_text(flag) or ""
            made = assigned_to(module, flag)
            if not path.startswith("self.") or len(made) != 1 or not isinstance(made[0], cst.Name):
                return False
            maker = module.function(made[0])
            return made[0].value == "False" or (
                maker is not None and _default_false(maker, made[0].value)
            )
        child = above
    return False


def _default_false(function: cst.FunctionDef, name: str) -> bool:
    return any(
        param.name.value == name and is_name(param.default, "False")
        for param in parameters_of(function)
    )


__all__ = ["calls_of", "dropped_result"]
