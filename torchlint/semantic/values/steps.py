"""What a step came to: one that meets values which it has met before is not evaluated again.

A step is what an interpreter evaluates in one go: a simple statement, or an expression in the
header of a compound one. What it comes to depends on the values of the names in it, and on the
budget as far as it asks for any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import children
from torchlint.semantic.values.value import Value

_LITERALS = frozenset((cst.Integer, cst.Float, cst.SimpleString))


class Met(NamedTuple):
    """One evaluation of a step.

    Args:
        before: the values of its names that it met.
        least: the least amount of budget with which it is known to come to the same.
        short: whether it was cut short, and comes to the same with that very amount alone.
        value: of the whole.
        recorded: the values of the expressions in it.
        bound: what it binds.
    """

    before: list[Value | None]
    least: int
    short: bool
    value: Value
    recorded: dict[cst.CSTNode, Value]
    bound: dict[str, Value]


class Step:
    """The evaluations of one step.

    Args:
        node: the statement or expression.
    """

    __slots__ = ("met", "names", "targets")

    def __init__(self, node: cst.CSTNode) -> None:
        self.met: list[Met] = []
        names: dict[str, None] = {}
        targets: dict[str, None] = {}
        nodes: list[Any] = [node]
        for at in nodes:
            kind = type(at)
            if kind is cst.Name:
                names[at.value] = None
            elif kind is cst.Attribute:
                text = dotted_text(at) or ""
                if not text:
                    nodes.append(at.value)
                while text:
                    names[text] = None
                    text = text.rpartition(".")[0]
            elif kind is cst.Call:
                nodes.append(at.func)
                nodes += [arg.value for arg in at.args]
            elif kind in _LITERALS:
                continue
            elif kind is cst.AssignTarget and type(at.target) is cst.Name:
                targets[at.target.value] = None
            else:
                nodes += children(at)
        self.names = tuple(names)
        """All that it may look up, dotted names too."""
        self.targets = tuple(targets)
        """What it binds, whatever that was before."""
