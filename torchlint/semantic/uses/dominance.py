"""Whether one place runs on every path on which another does: the dominance of control flow.

`runs_whenever` compares two places, `in_each_iteration` a place and its loop, `is_optional` a place
and the code around it; `runs_as_often` and `either_runs_whenever` take more than one way into
account.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.off_the_gpu import on_gpu
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import FUNCTIONS, LOOPS, is_name, last_small
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of

_BRANCHES = (cst.If, cst.IfExp, cst.Try, cst.Match)


def runs_whenever(
    module: Module, place: cst.CSTNode, node: cst.CSTNode, *, inner: bool = False
) -> bool:
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


@question(
    yes="a branch decides whether `{0}` is come to",
    no="no branch decides whether `{0}` is come to",
    ground=True,
    remember=False,
)
def is_optional(module: Module, node: cst.CSTNode, within: cst.CSTNode | None) -> bool:
    """Say whether a branch of a piece of code decides whether a place in it is come to."""
    child = node
    for above in module.ancestors(node):
        if above is within:
            break
        if isinstance(above, _BRANCHES) and child is not getattr(above, "test", None):
            return True
        child = above
    return False


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


def either_runs_whenever(
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
        return runs_whenever(module, branch, node) and all(
            any(module.is_within(each, arm) for each in places)
            for arm in (branch.body, branch.orelse)
        )
    if branch is None or not isinstance(branch.orelse, cst.Else) or module.is_within(node, branch):
        return False
    return runs_whenever(module, branch, node) and all(
        any(module.is_within(each, arm) and runs_whenever(module, each, arm) for each in places)
        or (module.before(arm, place) and not heat_of(module, arm.body[0]).hot)
        for arm in (branch.body, branch.orelse.body)
    )


def runs_as_often(
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


def leaves_loop(suite: cst.BaseSuite) -> bool:
    """Say whether a block ends in ``break`` or ``return``."""
    return isinstance(last_small(suite), (cst.Break, cst.Return))
