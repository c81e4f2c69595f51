"""Which places of an iteration the program comes to whenever it comes to another one, and which lie
side by side, with no run of a model between them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

import libcst as cst

from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.off_the_gpu import on_gpu
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import FUNCTIONS, LOOPS, is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.loops import has_model_call
from torchlint.semantic.uses.host_needs import (
    leaves_loop,
)

_BRANCHES = (cst.If, cst.IfExp, cst.Try, cst.Match)
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


@question(
    yes="each iteration of the loop comes to it", no="not each iteration is known to come to it"
)
def in_each_iteration(module: Module, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Say whether each iteration of a loop that goes on comes to a node."""
    child = node
    for above in module.ancestors(node):
        if above is loop:
            return True
        asked = isinstance(above, (cst.If, cst.IfExp)) and child is above.test
        if isinstance(above, (*_BRANCHES, *FUNCTIONS)) and not asked:
            return False
        if isinstance(above, cst.BooleanOperation) and child is above.right:
            # ``if last or converged(x): break``: an iteration that goes on has asked both.
            holder = module.parent(above)
            if not isinstance(above.operator, cst.Or) or not (
                isinstance(holder, cst.If) and leaves_loop(holder.body)
            ):
                return False
        child = above
    return False


def comes_either_way(
    module: Module, place: cst.CSTNode, places: Iterable[cst.CSTNode], node: cst.CSTNode
) -> bool:
    """Say whether a place stands in an arm of an ``if`` whose other arm comes to one of the places
    as well, or runs seldom: each run that comes to `node`, or nearly, comes to one of them."""
    above = module.parent(place)
    if isinstance(above, cst.BooleanOperation) and above.right is place:
        return False  # The left one decides whether it is come to.
    ifs = (each for each in module.ancestors(place) if isinstance(each, (cst.If, cst.IfExp)))
    branch = next(ifs, None)
    if isinstance(branch, cst.IfExp):
        return comes_to(module, branch, node) and all(
            any(module.is_within(each, arm) for each in places)
            for arm in (branch.body, branch.orelse)
        )
    if branch is None or not isinstance(branch.orelse, cst.Else) or module.is_within(node, branch):
        return False
    return comes_to(module, branch, node) and all(
        any(module.is_within(each, arm) and comes_to(module, each, arm) for each in places)
        or (module.before(arm, place) and not heat_of(module, arm.body[0]).hot)
        for arm in (branch.body, branch.orelse.body)
    )


def comes_to(module: Module, place: cst.CSTNode, node: cst.CSTNode, *, inner: bool = False) -> bool:
    """Say whether each run of code that comes to `node` comes to a place of the same iteration too;
    with `inner` the iteration of a loop in it counts, if it has one."""
    child = place
    for above in module.ancestors(place):
        around = module.is_within(node, above)
        asked = isinstance(above, (cst.If, cst.IfExp)) and child is above.test
        if isinstance(above, (*_BRANCHES, *LOOPS, *FUNCTIONS)) and not asked:
            same = around and module.is_within(node, child)
            whole = around and isinstance(above, (*LOOPS, *FUNCTIONS))
            inside = inner and isinstance(above, LOOPS) and child is above.body
            given = isinstance(above, cst.If) and child is above.body and on_gpu(module, above.test)
            if not (same or whole or inside or given):
                return False
        if isinstance(above, cst.BooleanOperation) and child is above.right:
            return False
        if around:
            return True
        child = above
    return False


def comes_as_often(
    module: Module, other: cst.CSTNode, node: cst.CSTNode, function: cst.FunctionDef
) -> bool:
    """Say whether each run that comes to `node` comes to the other place too, in each iteration;
    the branch that `node` decides about counts as taken."""
    for above in module.ancestors(other):
        if above is function:
            break
        if isinstance(above, _BRANCHES) and not (
            module.is_within(node, above) or _asks_the_same(module, other, node, above)
        ):
            return False
    return set(module.loops(node)) <= set(module.loops(other))


def _asks_the_same(
    module: Module, other: cst.CSTNode, node: cst.CSTNode, branch: cst.CSTNode
) -> bool:
    """Say whether a branch only asks what is so wherever `node` is come to: whether an argument,
    which nothing binds anew, was given."""
    holder = module.function(node)
    asked = list(conditions_around(module, other, branch))
    known = list(conditions_around(module, node, holder))
    return bool(asked) and all(
        any(truth is its and test.deep_equals(each) for each, its in known)
        and all(
            definitions_of(module, name) == [holder]
            for name in module.within(test, cst.Name)
            if not is_name(name, "None")
        )
        for test, truth in asked
    )
