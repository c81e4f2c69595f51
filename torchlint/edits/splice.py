"""What turning node edits into text edits needs to know about the text around a node."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import field
from typing import Any

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex, Span
from torchlint.edits.positions import Layout
from torchlint.fixes.fix import NeedImport

_NEWLINE = regex(r"\r\n|\n|\r")
_REST_OF_LINE = regex(r"[ \t\f]*;?[ \t\f]*(?:#.*)?")
_COMMENT_LINE = regex(r"([ \t\f]*)#")

Line = cst.SimpleStatementLine | cst.BaseCompoundStatement


class WithheldError(Exception):
    """A fix that cannot be written down as text edits; the message is the reason, one clause."""


@frozen
class Splice:
    """Replace ``text[span.start:span.end]`` by `text`.

    Args:
        span: what is replaced.
        text: what comes in its place.
        leads: whether what goes is the first statement of its block.
        comments: whether comments right above go too, where they would stand above nothing.
        about: the comments in `span` that go for that reason.
    """

    span: Span
    text: str
    leads: bool = False
    comments: bool = False
    about: Span | None = None


@frozen
class EditContext:
    """One parsed file, for the making of text edits.

    Args:
        tree: the module.
        text: the decoded text it was parsed from.
        index: the lines of `text`.
        layout: the spans of `tree` in `text`.
        parent: gives the parent of a node of `tree`, None for the module itself.
        python: CPython's tree of `text`; made when it is first needed where None.
        limit: how wide the project's formatter lets lines be; 0 where none says.
        aligned: as of `torchlint.edits.wrapping.Style`; None for as the text has it.
    """

    tree: cst.Module
    text: str
    index: LineIndex
    layout: Layout
    parent: Callable[[cst.CSTNode], cst.CSTNode | None]
    python: ast.Module | None = None
    limit: int = 0
    aligned: bool | None = None
    imports: dict[NeedImport, list[Any]] = field(default_factory=dict)
    """What binds the name of an import that fixes need, filled by `imports.import_splices`."""
    binders: list[Any] = field(default_factory=list)
    """All nodes of `python` that bind a name, filled likewise."""
    reads: dict[str, int] = field(default_factory=dict)
    """The last row in which the file reads an attribute of a name, filled likewise; what stands in
    functions is read last."""

    def span(self, node: cst.CSTNode, whole: bool = True) -> Span:
        """Return the node's span, by default with its own parentheses or decorators.

        Raises:
            WithheldError: the node's place in the text is not certain.
        """
        span = self.layout.whole(node) if whole else self.layout.span(node)
        if span is None:
            raise WithheldError("the place of the code in the file is not certain")
        return span

    def line_of(self, node: cst.CSTNode) -> Line:
        """Return the innermost statement around `node` that starts a line of its own.

        Raises:
            WithheldError: `node` is not inside a statement.
        """
        at: cst.CSTNode | None = node
        while at is not None:
            if isinstance(at, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                return at
            at = self.parent(at)
        raise WithheldError("the code is not inside a statement")

    def line_start(self, offset: int) -> int:
        """Return where the line of the statement that starts at `offset` starts, behind any form
        feed.

        Raises:
            WithheldError: something else stands before the statement on its logical line.
        """
        row = self.index.position(offset).row
        start = self.index.starts[row - 1]
        before = self.text[start:offset]
        if before.strip(" \t\f"):
            raise WithheldError("the statement shares its line with other code")
        if row > 1 and self.index.line(row - 1).endswith("\\"):
            raise WithheldError("the statement's line starts with a backslash continuation")
        return start + before.rfind("\f") + 1

    def indent(self, node: cst.CSTNode) -> str:
        """Return the white space in front of the line of the statement that holds `node`."""
        start = self.span(self.line_of(node)).start
        row_start = self.index.starts[self.index.position(start).row - 1]
        before = self.text[row_start:start].rpartition("\f")[2]
        return "" if before.strip() else before

    def newline(self, offset: int) -> str:
        """Return the newline of the line that holds `offset`; for the last line, that of the one
        before."""
        row = self.index.position(offset).row
        for line in (row, row - 1):
            if 0 < line < len(self.index):
                return self.text[self.index.line_end(line) : self.index.starts[line]]
        return self.tree.default_newline

    def as_written(self, code: str, offset: int) -> str:
        """Return `code` with the newlines that the line at `offset` has."""
        return _NEWLINE.sub(lambda _: self.newline(offset), code)

    def after_line(self, statement: Line) -> int:
        """Return the end of the last line of `statement`, before its newline.

        Comment lines below a block that are indented deeper than the statement belong to it.

        Raises:
            WithheldError: something else follows on that line.
        """
        end = self.span(statement).end
        row = self.index.position(end).row
        if not _REST_OF_LINE.fullmatch(self.text, end, self.index.line_end(row)):
            raise WithheldError("the statement shares its line with other code")
        if isinstance(statement, cst.BaseCompoundStatement):
            depth = len(self.indent(statement).expandtabs())
            for below in range(row + 1, len(self.index) + 1):
                line = self.index.line(below)
                comment = _COMMENT_LINE.match(line)
                if comment and len(comment.group(1).expandtabs()) > depth:
                    row = below
                elif line.strip():
                    break
        return self.index.line_end(row)
