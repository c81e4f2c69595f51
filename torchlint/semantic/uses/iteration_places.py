"""The places of an iteration: what each one comes to, and which lie side by side, with no run of a
model between them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

import libcst as cst

from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import LOOPS
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.loops import has_model_call
from torchlint.semantic.uses.dominance import in_each_iteration

_Place = TypeVar("_Place", bound=cst.CSTNode)


def iteration_places(module: Module, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the calls, and what tests ask first, that each iteration of the innermost loop around
    `node` comes to outside of its statement."""
    loops = module.loops(node)
    if not loops or not isinstance(loops[0], LOOPS):
        return
    own = module.small_statement(node) or node
    for place in iteration_steps(module, loops[0]):
        if not module.is_within(place, own):
            yield place


@question()
def iteration_steps(module: Module, loop: cst.For | cst.While) -> list[cst.BaseExpression]:
    """Return the calls, and the tests of branches, that each iteration of a loop comes to, in
    order."""
    places = (
        asked_first(each.test) if isinstance(each, cst.If) else each
        for each in module.within(loop.body, cst.Call, cst.If)
        if module.loop(each) is loop and isinstance(each, (cst.Call, cst.If))
    )
    return [each for each in dict.fromkeys(places) if in_each_iteration(module, each, loop)]


def nearest(
    module: Module,
    node: cst.CSTNode,
    others: Iterable[_Place],
    iteration: cst.CSTNode | None = None,
) -> _Place | None:
    """Return the first of some places of an iteration with no run of a model, backward pass or step
    between it and `node`; the iteration is one of the innermost loop, where it is not given."""
    for other in others:
        calls, orders = _starting_work(module, iteration or module.loops(node)[0])
        first, last = (other, node) if module.before(other, node) else (node, other)
        begin = bisect.bisect_left(orders, module.tree.order[first])
        end = bisect.bisect_right(orders, module.tree.end(last))
        # A call that begins before the first one may hold it, and then is done behind it.
        earlier = calls[:begin]
        around = [each for each in module.ancestors(first) if each in earlier]
        between = itertools.chain(around, calls[begin:end])
        behind = (each for each in between if _comes_behind(module, each, first))
        if not any(_comes_behind(module, last, each) for each in behind):
            return other
    return None


@question(circular=([], []))
def _starting_work(module: Module, iteration: cst.CSTNode) -> tuple[list[cst.Call], list[int]]:
    """Return the calls of an iteration that start work on the device, and their places in the
    file."""
    calls = [each for each in module.within(iteration, cst.Call) if starts_work(module, each)]
    return calls, [module.tree.order[each] for each in calls]


def _comes_behind(module: Module, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Say whether a place is done when another one before it is, which may be a part of it."""
    if module.is_within(other, one):
        return other is not one
    return module.before(other, one) and not module.is_within(one, other)


def starts_work(module: Module, call: cst.Call) -> bool:
    inside = (
        each for callee in callees_of(module, call) for each in module.within(callee, cst.Call)
    )
    return (
        back_propagates_or_steps(call)
        or has_model_call(module, call)
        or any(back_propagates_or_steps(each) for each in inside)
    )


def back_propagates_or_steps(call: cst.Call) -> bool:
    """Say whether a call is a backward pass or a step of anything but a learning rate's schedule,
    which the host computes."""
    match call.func:
        case cst.Attribute(receiver, cst.Name("step")):
            return "sched" not in (dotted_text(receiver) or "").lower()
        case cst.Attribute(attr=cst.Name("backward")):
            return True
    return False


def asked_first(test: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression that a test asks for its truth whenever it is evaluated."""
    while True:
        match test:
            case cst.BooleanOperation(test) | cst.UnaryOperation(cst.Not(), test):
                pass
            case _:
                return test
