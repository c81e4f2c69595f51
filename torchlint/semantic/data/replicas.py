"""Training on several processes: who holds a DistributedDataParallel model, and who accumulates
gradients."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.intervals import is_interval
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import base_names, local_class
from torchlint.semantic.code.tree import has_star, keyword_of, method_called
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

DDP = "torch.nn.parallel.DistributedDataParallel"
_ACCUMULATION = regex(r"accum", re.IGNORECASE)


@frozen
class Accumulation:
    """A loop that adds up the gradients of several micro-batches.

    Args:
        backwards: the backward passes of every micro-batch.
        steps: the optimizer steps, which run only under `test`.
        test: the condition on the micro-batch that lets the optimizer step.
        period: the k of ``i % k``, or None where the condition is spelled otherwise.
    """

    backwards: tuple[cst.Call, ...]
    steps: tuple[cst.Call, ...]
    test: cst.BaseExpression
    period: cst.BaseExpression | None


# -- DistributedDataParallel -----------------------------------------------------------------------


@question(
    yes="the file wraps a model in DistributedDataParallel", no="the file wraps no model in DDP"
)
def replica_wraps(module: Module) -> list[cst.Call]:
    """Return the calls of a file that wrap a model in DistributedDataParallel or a subclass of
    it."""
    return [call for call in module.nodes(cst.Call) if _wrap(module, call)]


def _wrap(module: Module, call: cst.Call) -> bool:
    if module.name(call.func) == DDP:
        return True
    cls = local_class(module, call.func)
    return cls is not None and DDP in base_names(module, cls)


@question(yes="`{0}` is a DDP model", no="`{0}` is not known to be a DDP model")
def is_replica(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an expression holds a model that some way through this file has wrapped in
    DDP."""
    if isinstance(node, cst.Call):
        return _wrap(module, node) or any(
            is_replica(module, back.value)
            for callee in callees_of(module, node)
            for back in module.within(callee, cst.Return)
            if back.value is not None
        )
    if not isinstance(node, (cst.Name, cst.Attribute)) or dotted_text(node) is None:
        return False
    function = module.function(node)
    scopes = [module.class_of(node)] if isinstance(node, cst.Attribute) else [function, module.root]
    for scope in scopes:
        if scope is not None and _is_assigned(module, node, scope):
            return True
    return (
        isinstance(node, cst.Name) and function is not None and _is_passed(module, node, function)
    )


def _is_assigned(module: Module, place: cst.CSTNode, scope: cst.CSTNode) -> bool:
    for assign in module.within(scope, cst.Assign, nested=isinstance(scope, cst.ClassDef)):
        if not any(t.target.deep_equals(place) for t in assign.targets):
            continue
        if is_replica(module, assign.value):
            return True
    return False


def _is_passed(module: Module, name: cst.Name, function: cst.FunctionDef) -> bool:
    cls = module.class_of(function)
    given = [module.bind(function, site).get(name.value) for site in call_sites(module, function)]
    if cls is not None and function.name.value == "__init__":
        # What the calls of a class in this file give for a parameter of its constructor.
        names = [param.name.value for param in function.params.params][1:]
        given += [
            arg.value
            for call in module.nodes(cst.Call)
            if local_class(module, call.func) is cls and not has_star(call)
            for at, arg in enumerate(call.args)
            if (keyword_of(arg) or "".join(names[at : at + 1])) == name.value
        ]
    return any(each is not None and is_replica(module, each) for each in given)


@question(yes="a DDP model runs in the loop", no="no DDP model runs in the loop")
def runs_replica(module: Module, loop: cst.For | cst.While) -> bool:
    """Say whether a DDP model runs in a loop, or in a local function called there, or is handed to
    other code."""
    for call in module.within(loop.body, cst.Call):
        if any(is_replica(module, node) for node in (call.func, *(arg.value for arg in call.args))):
            return True
        for callee in callees_of(module, call):
            for inner in module.within(callee, cst.Call):
                if is_replica(module, inner.func):
                    return True
    return False


# -- accumulation ----------------------------------------------------------------------------------


@question(
    yes="the loop accumulates gradients",
    no="the loop does not accumulate gradients over micro-batches",
)
def accumulation_in(module: Module, loop: cst.For | cst.While) -> Accumulation | None:
    """Return how a loop accumulates gradients: backward for each micro-batch, a step only for every
    k-th."""
    calls = list(module.within(loop.body, cst.Call))
    own = [c for c in calls if is_step(module, c) and module.loop(c) is loop]
    steps = [c for c in own if method_called(c) == "step"]
    tests = [counter(module, c, loop) for c in steps]
    backwards = tuple(c for c in own if method_called(c) == "backward")
    if not steps or not backwards or any(counter(module, c, loop) is not None for c in backwards):
        return None
    test = tests[0]
    return (
        None
        if test is None or None in tests
        else Accumulation(backwards, tuple(steps), test, period(module, test))
    )


@question()
def counter(module: Module, call: cst.Call, loop: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the condition that lets `call` run only for every k-th or the last micro-batch, if
    there is one."""
    for test, _ in conditions_around(module, call, loop):
        counts = module.contains(test, cst.BinaryOperation, cst.Comparison)
        if counts and (
            is_interval(module, test) or _ACCUMULATION.search(module.source_of(test)) is not None
        ):
            return test
    return None


@question()
def period(module: Module, test: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the k of ``i % k`` in a test; None where there is none."""
    for node in module.within(test, cst.BinaryOperation):
        if isinstance(node.operator, cst.Modulo):
            return node.right
    return None
