"""Where statements stand in the text: each statement of libcst's tree is paired with CPython's,
which knows.

CPython's parser runs on every file before libcst's does, and its positions cost nothing; libcst's
positions cost a code generation of the whole file. Both trees hold the same statements in the same
order; where a block differs in number or kind, its statements have no place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from torchlint.base.span import LineIndex, Span
from torchlint.source.python import parsed

_Block = Sequence[cst.CSTNode]
_KINDS: dict[type, tuple[type, ...]] = {
    cst.FunctionDef: (ast.FunctionDef, ast.AsyncFunctionDef),
    cst.ClassDef: (ast.ClassDef,),
    cst.For: (ast.For, ast.AsyncFor),
    cst.While: (ast.While,),
    cst.If: (ast.If,),
    cst.With: (ast.With, ast.AsyncWith),
    cst.Try: (ast.Try,),
    cst.Match: (ast.Match,),
}
_COMPOUND = tuple(kind for kinds in _KINDS.values() for kind in kinds)


class _Place(NamedTuple):
    """Where CPython says that a statement stands; no tree of CPython's is held for it, which takes
    as much memory as libcst's."""

    row: int
    column: int
    end_row: int
    end_column: int


class Statements:
    """The places of a file's statements.

    Args:
        root: libcst's tree of the text.
        text: the decoded text without its BOM.
        python: CPython's tree of the same text; where None, it is made when it is first needed.
    """

    def __init__(self, root: cst.Module, text: str, python: ast.Module | None) -> None:
        self._root = root
        self._text = text
        self._given = python

    @property
    def python(self) -> ast.Module | None:
        """CPython's tree of the text; None where only a newer Python accepts it."""
        return self._given or parsed(self._text)

    @cached_property
    def _places(self) -> dict[cst.CSTNode, _Place]:
        found: dict[cst.CSTNode, _Place] = {}
        blocks: list[tuple[_Block, Sequence[ast.stmt]]] = []
        python = self.python
        if python is not None:
            blocks.append((_flat(self._root.body), python.body))
        while blocks:
            ours, theirs = blocks.pop()
            if len(ours) != len(theirs):
                continue
            for one, other in zip(ours, theirs, strict=True):
                kinds = _KINDS.get(type(one))
                if isinstance(other, kinds) if kinds else not isinstance(other, _COMPOUND):
                    found[one] = _extent(other)
                    if kinds:
                        below, beside = list(_suites(one)), list(_blocks(other))
                        if len(below) == len(beside):
                            blocks.extend(zip(below, beside, strict=True))
        return found

    def span(self, node: cst.CSTNode) -> Span | None:
        """Return the span of a small or compound statement, from its first keyword on (decorators
        left out)."""
        found = self._places.get(node)
        if found is None:
            return None
        return Span(
            self._offset(found.row, found.column), self._offset(found.end_row, found.end_column)
        )

    def row(self, node: cst.CSTNode) -> int:
        """Return the row on which a small or compound statement starts; 0 where that is not
        known."""
        found = self._places.get(node)
        return found.row if found is not None else 0

    def sole_row(self, node: cst.CSTNode) -> int:
        """Return the row on which a small statement stands, or a compound one starts; 0 where the
        small one takes several, or that is not known."""
        found = self._places.get(node)
        if found is None or (found.end_row != found.row and type(node) not in _KINDS):
            return 0
        return found.row

    def rows(self, first: cst.CSTNode, last: cst.CSTNode) -> str:
        """Return the lines from those of blanks and comments above a small or compound statement to
        the row on which another one ends; the whole text where that is not known."""
        start, end = self._places.get(first), self._places.get(last)
        if start is None or end is None:
            return self._text
        row = start.row - len(self._above(start))
        return self._text[self._lines.starts[row - 1] : self._lines.line_end(end.end_row)]

    def comment_above(self, node: cst.CSTNode) -> bool | None:
        """Say whether a comment stands right above a small statement that begins a line; None where
        the tree has to say whether it speaks of the statement, or of a block or file before it."""
        found = self._places.get(node)
        if found is None:
            return None
        above = [line for line in self._above(found) if line.strip()]
        if not above:
            return False
        line = self._lines.line(found.row)
        indent = line[: len(line) - len(line.lstrip())]
        # The nearest line may be the end of a string.
        sure = not any(quote in above[0] for quote in "\"'") and found != self._first
        return True if sure and any(each.startswith(f"{indent}#") for each in above) else None

    def comment_after(self, node: cst.CSTNode) -> bool | None:
        """Say whether a comment stands behind the last small statement of a line; None where its
        place is not known."""
        found, span = self._places.get(node), self.span(node)
        if found is None or span is None:
            return None
        return "#" in self._text[span.end : self._lines.line_end(found.end_row)]

    @property
    def _first(self) -> _Place | None:
        python = self.python
        return _extent(python.body[0]) if python is not None and python.body else None

    def _above(self, statement: _Place) -> list[str]:
        """Return the lines of blanks and comments right above a statement, the nearest first."""
        found: list[str] = []
        row = statement.row - 1
        while row > 0 and (line := self._lines.line(row)).strip()[:1] in ("", "#"):
            found.append(line)
            row -= 1
        return found

    @cached_property
    def _lines(self) -> LineIndex:
        return LineIndex(self._text)

    def _offset(self, row: int, column: int) -> int:
        """Return the offset in code points of CPython's position: a 1-based row and a column in
        UTF-8 bytes."""
        start = self._lines.starts[row - 1]
        line = self._text[start : start + column]
        if line.isascii():
            return start + column
        return start + len(
            line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "surrogatepass")
        )


def _extent(statement: ast.stmt) -> _Place:
    row, column = statement.lineno, statement.col_offset
    return _Place(row, column, statement.end_lineno or row, statement.end_col_offset or column)


def _flat(body: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    out: list[cst.CSTNode] = []
    for each in body:
        if type(each) is cst.SimpleStatementLine:
            out.extend(each.body)
        else:
            out.append(each)
    return out


def _suites(node: cst.CSTNode) -> Iterator[_Block]:
    """Yield the blocks of a compound statement of libcst's, in source order."""
    if isinstance(node, cst.Match):
        for case in node.cases:
            yield _flat(case.body.body)
        return
    at: cst.CSTNode | None = node
    while at is not None:
        yield _flat(at.body.body)  # type: ignore[attr-defined]
        for handler in getattr(at, "handlers", ()):
            yield _flat(handler.body.body)
        below = getattr(at, "orelse", None)
        if isinstance(below, cst.If):
            yield [below]
        elif below is not None:
            yield _flat(below.body.body)
        at = getattr(at, "finalbody", None)


def _blocks(node: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """Yield the blocks of a compound statement of CPython's, in source order."""
    if isinstance(node, ast.Match):
        for case in node.cases:
            yield case.body
        return
    yield node.body  # type: ignore[attr-defined]
    for handler in getattr(node, "handlers", ()):
        yield handler.body
    for block in (getattr(node, "orelse", ()), getattr(node, "finalbody", ())):
        if block:
            yield block
