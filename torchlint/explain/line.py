"""What stands on a line: the statement that holds it, and the expressions that lie on it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from torchlint.base.explanation import Place
from torchlint.base.records import frozen
from torchlint.base.remembered import remembered
from torchlint.base.span import LineIndex, Span
from torchlint.edits.positions import Layout
from torchlint.explain.cells import Rows
from torchlint.semantic.module import Module

_COMPOUND = (
    cst.FunctionDef,
    cst.ClassDef,
    cst.For,
    cst.While,
    cst.If,
    cst.With,
    cst.Try,
    cst.TryStar,
    cst.Match,
)
_HOLDERS = (cst.For, cst.While, cst.With, cst.FunctionDef, cst.ClassDef)
"""Statements whose checks may speak of what stands inside them."""


@frozen
class Spot:
    """The code on one line.

    Args:
        statement: the simple statement, or the compound one whose header this is.
        first: the row on which it starts; `last` that on which it, or its header, ends.
        nodes: its nodes that lie on the line, in source order.
        around: the loops, functions and classes that hold it, innermost first, and the file.
    """

    statement: cst.CSTNode
    first: int
    last: int
    nodes: tuple[cst.CSTNode, ...]
    around: tuple[cst.CSTNode, ...]


class Spots:
    """Finds the code on the lines of one file."""

    def __init__(self, module: Module, layout: Layout, index: LineIndex, rows: Rows) -> None:
        self.module = module
        self.layout = layout
        self.index = index
        self.rows = rows
        self._all = list(module.tree.order)

    @remembered
    def span(self, node: cst.CSTNode) -> Span | None:
        """Return the place of a node."""
        return self.layout.span(node)

    def row(self, node: cst.CSTNode) -> int:
        """Return the row on which a node starts; 0 where that is not known."""
        span = self.span(node)
        return self.index.position(span.start).row if span is not None else 0

    def lines(self, *nodes: cst.CSTNode, most: int = 1) -> str:
        """Return in words on which lines nodes start."""
        return self.rows.words((row for row in map(self.row, nodes) if row), most)

    def at(self, place: Place) -> Spot | None:
        """Return the code at a place; None for a blank line, a comment, or a lone ``else:``."""
        found = self._statement(place.row)
        if found is None:
            return None
        statement, first, last = found
        nodes = tuple(node for node in self._own_nodes(statement) if self._covers(node, place))
        around = (
            *(above for above in self.module.ancestors(statement) if isinstance(above, _HOLDERS)),
            self.module.root,
        )
        return Spot(statement, first, last, nodes, around)

    def _statement(self, row: int) -> tuple[cst.CSTNode, int, int] | None:
        found = [each for each in self._statements if each[1] <= row <= each[2]]
        return found[-1] if found else None

    @cached_property
    def _statements(self) -> list[tuple[cst.CSTNode, int, int]]:
        """All statements in source order, each with the first and last row of its own code."""
        out: list[tuple[cst.CSTNode, int, int]] = []
        for node in self.module.nodes(
            cst.SimpleStatementLine, cst.SimpleStatementSuite, *_COMPOUND
        ):
            if isinstance(node, cst.SimpleStatementSuite) and isinstance(
                self.module.parent(node), _COMPOUND
            ):
                continue  # ``if x: y`` is one line
            rows = self._rows(node)
            if rows is not None:
                out.append((node, *rows))
        return out

    def _rows(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """Return the first and last row of a simple statement, or of the header of a compound
        one."""
        smalls = (
            node.body
            if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
            else (node,)
        )
        ends = [self.span(smalls[0]), self.span(smalls[-1])]
        if ends[0] is None or ends[1] is None:
            return None
        first, last = self.index.position(ends[0].start).row, self.index.position(ends[1].end).row
        if isinstance(node, _COMPOUND):
            parts = [part for part in self._own_nodes(node) if part is not node]
            spans = [span for span in map(self.span, parts) if span is not None]
            last = max([first, *(self.index.position(span.end).row for span in spans)])
            first = min(
                [first, *(self.index.position(span.start).row for span in spans)]
            )  # decorators
        return first, last

    def _own_nodes(self, statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield a statement and what lies in it; of a compound one, without its blocks."""
        blocks = list(self._blocks(statement)) if isinstance(statement, _COMPOUND) else []
        order, end = self.module.tree.order, self.module.tree.end
        hidden = [(order[block], end(block)) for block in blocks]
        low, high = order[statement], end(statement)
        for node in self._all[low : high + 1]:
            if not any(first <= order[node] <= last for first, last in hidden):
                yield node

    def _blocks(self, statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(statement, name, None)
            if isinstance(block, cst.CSTNode) and not isinstance(block, cst.SimpleStatementSuite):
                yield block
        for name in ("handlers", "cases"):
            yield from getattr(statement, name, ())

    def _covers(self, node: cst.CSTNode, place: Place) -> bool:
        if not isinstance(
            node,
            (
                cst.BaseExpression,
                cst.BaseSmallStatement,
                cst.BaseCompoundStatement,
                cst.Decorator,
                cst.CompFor,
                cst.CompIf,
            ),
        ):
            return False
        span = self.span(node)
        if span is None:
            return False
        start, end = self.index.position(span.start), self.index.position(span.end)
        if isinstance(node, _COMPOUND):
            return place.column is None
        if place.column is None:
            return start.row <= place.row <= end.row
        at = (place.row, place.column)
        return (start.row, start.column) <= at < (end.row, end.column)
