"""Where a node stands in the text, worked out within its own statement: no code generation of the
whole file.

CPython's parser says where the statement stands; one code generation of the statement (of a
compound one: of its header) says where the node stands in it. The answer counts only where the
generated code is the text, character for character.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.remembered import remembered
from torchlint.base.span import Span
from torchlint.edits.codegen import Recorder
from torchlint.semantic.code.statements import Statements

Parent = Callable[[cst.CSTNode], cst.CSTNode | None]
_HEADED = (cst.FunctionDef, cst.ClassDef, cst.For, cst.While, cst.If, cst.With, cst.Try, cst.Match)


class _EnoughError(Exception):
    """The header is generated."""


class _Header(Recorder):
    """Generates one statement, of a compound one the header, and notes where its keyword starts."""

    def __init__(self, tree: cst.Module, unit: cst.CSTNode) -> None:
        super().__init__(tree.default_indent, tree.default_newline)
        self._stop: cst.CSTNode | None = None
        if isinstance(unit, _HEADED):
            self._stop = unit.cases[0] if isinstance(unit, cst.Match) else unit.body
        self._unit = unit
        self.anchor = 0

    def entered(self, node: cst.CSTNode) -> None:
        if node is self._unit:
            self.anchor = self.length

    def before_codegen(self, node: cst.CSTNode) -> None:
        if node is self._stop:
            raise _EnoughError
        super().before_codegen(node)


@frozen
class _Unit:
    """A statement whose generated code is the text: add `shift` to an offset of the one to get that
    of the other.

    Args:
        header: what was generated.
        shift: the difference of the offsets.
        sure: the first offset of the generated code from which on the two are the same.
    """

    header: _Header
    shift: int
    sure: int


class StatementSpans:
    """The places of nodes in their statements, as far as they can be had.

    Args:
        tree: the module.
        text: the text it was parsed from.
        statements: where the statements stand.
        parent: gives the parent of a node of `tree`.
    """

    def __init__(self, tree: cst.Module, text: str, statements: Statements, parent: Parent) -> None:
        self._tree = tree
        self._text = text
        self._statements = statements
        self._parent = parent

    def span(self, node: cst.CSTNode, whole: bool) -> Span | None:
        """Return the span of `node`, `whole` with its own parentheses or decorators; None where it
        cannot be had."""
        if isinstance(node, cst.SimpleStatementLine):
            if len(node.body) != 1 or not isinstance(node.body[0].semicolon, cst.MaybeSentinel):
                return None
            node = node.body[0]
        at = self._statement(node)
        unit = self._unit(at) if at is not None else None
        if at is None or unit is None:
            return None
        if node is at:
            span = self._statements.span(at)
            if (
                not whole
                or span is None
                or not isinstance(at, cst.FunctionDef | cst.ClassDef)
                or not at.decorators
            ):
                return span
            start = unit.header.range(at.decorators[0])[0]
            return Span(start + unit.shift, span.end) if start >= unit.sure else None
        if node not in unit.header.full:
            return None
        start, end = unit.header.range(node, whole)
        return (
            stripped(self._text, start + unit.shift, end + unit.shift)
            if start >= unit.sure
            else None
        )

    def _statement(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the statement in whose own code `node` stands; None for what is neither that nor
        in a header."""
        at: cst.CSTNode | None = node
        while at is not None:
            if isinstance(at, cst.BaseSmallStatement | cst.BaseCompoundStatement):
                return at
            if isinstance(
                at, cst.BaseSuite | cst.Else | cst.Finally | cst.ExceptHandler | cst.MatchCase
            ):
                return None
            at = self._parent(at)
        return None

    @remembered
    def _unit(self, statement: cst.CSTNode) -> _Unit | None:
        return self._generated(statement)

    def _generated(self, statement: cst.CSTNode) -> _Unit | None:
        place = self._statements.span(statement)
        if place is None:
            return None
        above = self._parent(statement)
        elif_ = (
            isinstance(statement, cst.If)
            and isinstance(above, cst.If)
            and above.orelse is statement
        )
        # The lines above are not its own code, and nothing else asks the whole file how it is
        # written.
        alone: Any = (
            statement.with_changes(leading_lines=())
            if isinstance(statement, _HEADED)
            else statement
        )
        header = _Header(self._tree, alone)
        first = (
            max(self._text.rfind("\n", 0, place.start), self._text.rfind("\r", 0, place.start)) + 1
        )
        header.increase_indent(
            self._text[first : place.start - len(self._text[first : place.start].lstrip(" \t\f"))]
        )
        try:
            if elif_:
                alone._codegen(header, is_elif=True)
            else:
                alone._codegen(header)
        except _EnoughError:
            pass
        code = "".join(header.tokens)
        shift = place.start - header.anchor
        if self._text[place.start : len(code) + shift] != code[header.anchor :]:
            return None
        decorators = getattr(statement, "decorators", ())
        top = header.range(decorators[0])[0] if decorators else header.anchor
        known = self._text[max(top + shift, 0) : place.start] == code[top : header.anchor]
        return _Unit(header, shift, top if known else header.anchor)


def stripped(text: str, start: int, end: int) -> Span | None:
    """Return the span of a range without the white space at its ends; None where nothing is
    left."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end) if start < end else None
