"""Code to which no ordinary run comes: on the way to an exception, or behind what always leaves."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import always_leaves
from torchlint.semantic.code.decided import Decided
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.reaching import reaching
from torchlint.semantic.code.tree import FUNCTIONS, OPEN, Open, components, last_small
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_ENDING = frozenset(
    (
        *(cst.Raise, cst.ExceptHandler, cst.Assert, cst.If, cst.Else),
        *(cst.IfExp, cst.While, cst.BooleanOperation, cst.IndentedBlock),
    )
)
"""The nodes that may keep ordinary runs from what lies in them."""
_OUT_OF_MEMORY = regex(
    r"^_*((is|was|had|has|hit|got|found|saw)_)?((cuda|gpu)_)?(oom|out_of_memory)$", re.IGNORECASE
)
"""Names of what says that memory ran out."""


class Unreached:
    """Says of the nodes of one file whether an ordinary run comes to them."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self._decided = Decided(module.text, module.names, reaching(module))
        self._unreached: dict[cst.CSTNode, bool] = {}
        self._ends: dict[cst.CSTNode, cst.CSTNode] = {}

    def unreached(self, node: cst.CSTNode) -> bool:
        """Say whether `node` runs only on the way to an exception, or after one, or never.

        That is in a ``raise``, the message of an ``assert``, an ``except`` block, a block that ends
        in ``raise``, or one where the test says that memory ran out; behind a ``return`` of its
        block, or a ``try`` that ends in one, or where a constant decides that another branch runs.
        """
        return self.tree.climbed(node, self._unreached, self._is_unreached)

    def _is_unreached(self, node: cst.CSTNode, above: cst.CSTNode | None) -> bool | Open:
        """Say whether the node above lets no ordinary run come to another."""
        kind = type(above)
        if above is None or kind in FUNCTIONS:
            return False
        if kind not in _ENDING:
            return OPEN
        if isinstance(above, (cst.Raise, cst.ExceptHandler)):
            return True
        if isinstance(above, cst.Assert) and node is above.msg:
            return True
        if isinstance(above, (cst.If, cst.Else)) and node is above.body:
            short = isinstance(above, cst.If) and _out_of_memory(above.test)
            if short or self.raises(above.body):
                return True
        return True if self._left_out(node, above) else OPEN

    def _left_out(self, node: cst.CSTNode, above: cst.CSTNode) -> bool:
        """Say whether a part of a node never runs, as a constant decides its test, or as a
        statement before it has left the block."""
        match above:
            case cst.If(test) | cst.IfExp(test=test) if node is not test:
                return self._decided.truth(test) is (node is not above.body)
            case cst.While(test, body) if node is body:
                return self._decided.truth(test) is False
            case cst.BooleanOperation(left, joined, right) if node is right:
                return self._decided.truth(left) is isinstance(joined, cst.Or)
            case cst.IndentedBlock(lines):
                if above not in self._ends:
                    self._ends[above] = next(filter(self._has_left, lines), lines[-1])
                return self.tree.order[self._ends[above]] < self.tree.order[node]
        return False

    def _has_left(self, line: cst.CSTNode) -> bool:
        """Say whether a statement always leaves its block."""
        if isinstance(line, cst.If):
            return always_leaves(line.body) and self._decided.truth(line.test) is True
        if type(line) is cst.Try:
            return always_leaves(line.body)  # What stands behind it runs after an exception.
        return always_leaves(line) or self._fails(last_small(line))

    def _fails(self, node: cst.CSTNode | None) -> bool:
        """Say whether a statement is ``assert False``, or of another test that never holds."""
        return isinstance(node, cst.Assert) and self._decided.truth(node.test) is False

    def raises(self, suite: cst.BaseSuite) -> bool:
        last = last_small(suite)
        if isinstance(last, cst.If) and isinstance(last.orelse, cst.Else):
            return self.raises(last.body) and self.raises(last.orelse.body)
        return isinstance(last, cst.Raise) or self._fails(last)


def _out_of_memory(test: cst.BaseExpression) -> bool:
    """Say whether a test holds where memory ran out, by a name in it: ``if oom:``, ``oom == 1``."""
    for part in components(test, cst.And):
        match part:
            case cst.Comparison(name, [cst.ComparisonTarget(cst.Equal() | cst.Is())]):
                part = name
        if _OUT_OF_MEMORY.search(last_part(part)):
            return True
    return False


@question(ground=True)
def unreached_code(module: Module) -> Unreached:
    """Return the code of a file to which no ordinary run comes."""
    return Unreached(module)


@question(
    yes="it only runs on the way to an exception (a raise, an assert's message, an except block), "
    "or never: a constant decides a test, or a return stands before it",
    no="an ordinary run comes to it",
    ground=True,
)
def unreached(module: Module, node: cst.CSTNode) -> bool:
    """Say whether no ordinary run comes to `node`: it stands on the way to an exception, behind a
    ``return``, or where a constant decides that another branch runs."""
    return unreached_code(module).unreached(node)
