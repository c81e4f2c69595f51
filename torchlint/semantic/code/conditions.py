"""Conditions around a node: which tests decide whether it runs, with the truth that each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from torchlint.semantic.code.tree import FUNCTIONS, LOOPS, Tree, last_small
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_DECIDING = frozenset(
    (cst.If, cst.IfExp, cst.BooleanOperation, cst.IndentedBlock, cst.Module, *FUNCTIONS)
)
"""What may decide whether a node below it runs, and where its function begins."""
LEAVING = (cst.Continue, cst.Break, cst.Return, cst.Raise)


class Condition(NamedTuple):
    """What decides whether a node runs: a test, the truth it needs, and the statements that it
    decides about."""

    test: cst.BaseExpression
    needed: bool
    branch: Sequence[cst.CSTNode]


class Conditions:
    """Yields the conditions around the nodes of one file."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._leaving: dict[cst.CSTNode, list[cst.If]] = {}
        self._last: dict[cst.CSTNode, type[cst.CSTNode]] = {}

    def tests(
        self, node: cst.CSTNode, until: cst.CSTNode | None
    ) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """Yield each condition that decides whether `node` runs inside `until`, with the truth it
        needs.

        Counts ``if`` and conditional expressions around it, operands of ``and`` and ``or`` before
        it, and earlier ``if test: continue`` (or break, return, raise) in the same blocks, whose
        truth needed is False.
        """
        for condition in self.around(node, until):
            yield condition.test, condition.needed

    def around(self, node: cst.CSTNode, until: cst.CSTNode | None) -> Iterator[Condition]:
        at, parents = node, self.tree.parents
        while at in parents:
            child = at
            at = above = parents[child]
            if type(above) not in _DECIDING and above is not until:
                continue
            if type(above) is cst.IndentedBlock or type(above) is cst.Module:
                yield from self._exits(above, child)
            elif type(above) is cst.If and child is not above.test:
                branch = child.body if isinstance(child, (cst.BaseSuite, cst.Else)) else (child,)
                if isinstance(branch, cst.BaseSuite):
                    branch = branch.body
                yield Condition(above.test, child is above.body, branch)
            elif type(above) is cst.IfExp and child is not above.test:
                yield Condition(above.test, child is above.body, ())
            elif type(above) is cst.BooleanOperation and child is above.right:
                yield Condition(above.left, isinstance(above.operator, cst.And), ())
            if above is until or (until is None and type(above) in FUNCTIONS):
                return

    def _exits(
        self, block: cst.IndentedBlock | cst.Module, child: cst.CSTNode
    ) -> Iterator[Condition]:
        if block not in self._leaving:
            self._leaving[block] = [
                each
                for each in block.body
                if isinstance(each, cst.If) and each.orelse is None and always_leaves(each.body)
            ]
        order = self.tree.order
        for statement in self._leaving[block]:
            if order[statement] >= order[child]:
                return
            rest = [each for each in block.body if order[each] > order[statement]]
            yield Condition(statement.test, False, rest)

    def ends_loop(self, block: cst.CSTNode, node: cst.CSTNode) -> type[cst.CSTNode] | None:
        """Return ``Break`` or ``Return`` where all that follows `node` in a block leads there, so
        that a pass of the loop around the block, once it has come to `node`, is the last one; else
        None."""
        if block not in self._last:
            self._last[block] = self.last_of(block)
        last = self._last[block]
        if last not in (cst.Break, cst.Return):
            return None
        order = self.tree.order
        again = (
            each
            for each in self.tree.within(block, cst.Continue)
            if order[each] > order[node]
            and not any(
                isinstance(above, LOOPS) and self.tree.is_within(above, block)
                for above in self.tree.ancestors(each)
            )
        )
        return None if any(True for _ in again) else last

    def last_of(self, suite: cst.CSTNode) -> type[cst.CSTNode]:
        """Return the type of the last small statement of a block, also of one in its ``with``."""
        last = last_small(suite)
        return self.last_of(last.body) if isinstance(last, cst.With) else type(last)

    def condition(
        self,
        node: cst.CSTNode,
        until: cst.CSTNode | None,
        says: Callable[[cst.BaseExpression, bool], bool],
    ) -> cst.BaseExpression | None:
        """Return the condition by which a node runs inside `until` only where a fact holds, of
        which `says` tells as for `certain`."""
        tests = self.tests(node, until)
        return next((test for test, needed in tests if certain(test, needed, says)), None)


def always_leaves(suite: cst.CSTNode) -> bool:
    """Say whether a block always ends in continue, break, return or raise."""
    return isinstance(last_small(suite), LEAVING)


def certain(
    test: cst.BaseExpression,
    needed: bool,
    says: Callable[[cst.BaseExpression, bool], bool],
) -> bool:
    """Say whether a fact holds wherever a test is true (or false, as needed); `says` tells it
    of the parts that ``not``, ``and`` and ``or`` join."""
    match test:
        case cst.UnaryOperation(cst.Not(), inner):
            return certain(inner, not needed, says)
        case cst.BooleanOperation(left, operator, right):
            sides = (certain(each, needed, says) for each in (left, right))
            return (any if isinstance(operator, cst.And) is needed else all)(sides)
    return says(test, needed)


@question(ground=True)
def conditions(module: Module) -> Conditions:
    """Return the conditions of a file."""
    return Conditions(module.tree)


@question(yes="it depends on `{answer}`", no="no condition stands around it", ground=True)
def conditions_around(
    module: Module, node: cst.CSTNode, until: cst.CSTNode | None = None
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield the conditions on which `node` runs inside `until`, with the truth each needs."""
    return conditions(module).tests(node, until)
