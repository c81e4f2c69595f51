"""Findings in the text of a notebook, told by its cells; and fixes kept from reaching beyond them.

While a notebook is analysed, all places are those of its one text. Only the report that leaves the
engine speaks of cells.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from torchlint.base.errors import SourceError
from torchlint.base.finding import AppliedFix, Edit, FileReport, Finding, Note, Reason
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex, Position, Span
from torchlint.source.document import Document, encode, loaded
from torchlint.source.notebook import Cell, Layout, Notebook, Place
from torchlint.source.unfinished import unfinished

_ROW_NAMED = regex(r"\b(in|on) line (\d+)")
_NOT_PYTHON = "it would change a line that only IPython understands"
_ACROSS = "it would reach beyond one cell"
_SHOWN = "it would change what the cell shows"
_OTHER_FILES = "it changes other files too, which no notebook's fix does"


class Cells:
    """The cells of one document that is a notebook."""

    def __init__(self, document: Document) -> None:
        assert document.notebook is not None
        self.document = document
        self.notebook: Notebook = document.notebook
        self._layout = Layout(self.notebook, document.text)

    def layout(self, text: str) -> Layout:
        """Return where the cells are in a text that fixes made of the document's."""
        if self._layout.text != text:
            self._layout = Layout(self.notebook, text)
        return self._layout

    def texts(self, text: str) -> Iterator[tuple[Place, int, str]]:
        """Yield the Python of each cell, with its place and the number of rows of the whole text
        above it.

        IPython compiles each cell by itself: what one leaves open, the next does not close.
        """
        for place in self.layout(text).places:
            python = text[place.start : place.end]
            # A block that holds the cell is part of it.
            yield (
                (place, place.row - 2, f"{place.part.seam}\n{python}")
                if place.indented
                else (place, place.row - 1, python)
            )

    def without(self, text: str, places: Iterable[Place]) -> str:
        """Return a text with the same rows, in which the cells at some places only bind their
        names."""
        pieces = []
        at = 0
        for place in places:
            python = text[place.start : place.end]
            covered = unfinished(python, self.notebook.mark, " " if place.indented else "")
            pieces += [text[at : place.start], covered]
            at = place.end
        return "".join((*pieces, text[at:]))

    def key(self, text: str, row: int) -> int | str:
        """Return what identifies the cell that holds a row: its id, else its number."""
        cell = self.layout(text).place_of(row).part.cell
        return cell.id or cell.number

    # -- fixes -------------------------------------------------------------------------------------

    def contained(
        self, text: str, findings: Iterable[Finding], python: ast.Module | None
    ) -> Iterator[Finding]:
        """Yield the findings; a fix that would reach beyond cells of Python is withheld.

        An import that a fix leaves without a use stays where the cell would show something else
        without it.
        """
        ends = _last_statements(self.layout(text), python)
        for finding in findings:
            if finding.fix is None or not finding.fix.edits:
                yield finding
                continue
            edits, problem = [], ""
            for edit in finding.fix.edits:
                place = self.layout(text).place_of(edit.start.row)
                edit = self._trimmed(edit, place)
                last = ends.get(place.row)
                here = self._problem(edit, place, last)
                if here == _SHOWN and last and last.imports and len(finding.fix.edits) > 1:
                    continue
                problem = problem or here
                edits.append(edit)
            if finding.fix.elsewhere:
                problem = _OTHER_FILES
            withheld = finding.fix.withheld or problem
            yield replace(finding, fix=replace(finding.fix, edits=tuple(edits), withheld=withheld))

    def _trimmed(self, edit: Edit, place: Place) -> Edit:
        """Return an edit without the newline behind its cell's last row; the row above gives its
        own instead."""
        start, end, new = edit.span.start, edit.span.end, edit.text
        if end != place.end + 1 or start > place.end or end > len(self._layout.text):
            return edit
        index = self._layout.index
        if new.endswith("\n"):
            new = new[:-1]
        elif start > place.start and start == index.starts[edit.start.row - 1]:
            start = index.line_end(edit.start.row - 1)
        end -= 1
        return Edit(Span(start, end), new, index.position(start), index.position(end))

    def _problem(self, edit: Edit, place: Place, last: _Last | None) -> str:
        if edit.span.start < place.start or edit.span.end > place.end:
            return _ACROSS
        covered = self._layout.covered(place)
        head = place.part.head
        if any(edit.span.overlaps(row) for row in covered) or (
            head and edit.span.start < covered[head - 1].end
        ):
            return _NOT_PYTHON
        if last is None:
            return ""
        span = last.span
        gone = edit.span.start <= span.start and span.end <= edit.span.end and not edit.text.strip()
        followed = edit.span.start >= span.end and edit.text.strip()
        return _SHOWN if (gone and (last.shows or last.hides)) or (followed and last.shows) else ""

    def unsound(self, text: str) -> str:
        """Return why a fixed text cannot be put back into the file, which is a fault of ours, or an
        empty string."""
        try:
            self.notebook.sources(text)
            if self.document.data:
                encode(self.document, text)
        except (SourceError, ValueError) as error:
            return f"its cells cannot be put back after a fix: {error}; please report this"
        return ""

    # -- reports -----------------------------------------------------------------------------------

    def told(self, report: FileReport, text: str) -> FileReport:
        """Return a report on `text` with every place told by cell."""
        return _Telling(self, text).report(report)


class _Telling:
    """Turns the places of one text into those of cells."""

    def __init__(self, cells: Cells, text: str) -> None:
        self.layout = cells.layout(text)
        self.before = cells.layout(cells.document.text)
        self.name = cells.document.filename
        self.sources = cells.notebook.sources(text)
        self.indices = {
            place.row: LineIndex(now)
            for place, now in zip(self.layout.places, self.sources, strict=True)
        }
        self.stored = cells.notebook
        if cells.document.data and text != cells.document.text:
            document = cells.document
            again = loaded(encode(document, text), document.path, document.filename, 0)
            self.stored = again.notebook or self.stored

    def report(self, report: FileReport) -> FileReport:
        old = [part.cell.source for part in self.layout.notebook.parts]
        numbers = [part.cell.number for part in self.layout.notebook.parts]
        changed = (
            zip(numbers, old, self.sources, strict=True) if report.before != report.after else ()
        )
        return replace(
            report,
            findings=tuple(map(self.finding, report.findings)),
            suppressed=tuple(
                replace(held, finding=self.finding(held.finding)) for held in report.suppressed
            ),
            notes=tuple(map(self.note, report.notes)),
            source=tuple(self.excerpt(row for _, row, _ in report.source)),
            fixes=tuple(map(self.applied, report.fixes)),
            cells=tuple(
                (number, before, after) for number, before, after in changed if before != after
            ),
        )

    def applied(self, fix: AppliedFix) -> AppliedFix:
        place = self.before.place_of(fix.row)
        rows = tuple(row - place.row + 1 for row in fix.rows)
        return replace(fix, row=fix.row - place.row + 1, rows=rows, cell=place.part.cell.number)

    def excerpt(self, rows: Iterable[int]) -> Iterator[tuple[int, int, str]]:
        """Yield the rows of the cells that rows of the text stand for, as they are stored; seams
        are left out."""
        for row in rows:
            place = self.layout.place_of(row)
            index = self.indices[place.row]
            if 0 <= row - place.row < len(index):
                yield place.part.cell.number, row - place.row + 1, index.line(row - place.row + 1)

    def finding(self, finding: Finding) -> Finding:
        place = self.layout.place_of(finding.start.row)
        fix = finding.fix
        start = _position_in_cell(finding.start, place)
        return replace(
            finding,
            start=start,
            end=_position_in_cell(finding.end, place),
            statement=max(finding.statement - place.row + 1, 1),
            statement_end=max(finding.statement_end - place.row + 1, 1),
            fix=fix
            and replace(
                fix, edits=tuple(map(self.edit, fix.edits)), withheld=self.reworded(fix.withheld)
            ),
            why_hot=tuple(map(self.reason, finding.why_hot)),
            cell=place.part.cell.number,
            file_row=self.file_row(place.part.cell, start.row),
        )

    def file_row(self, cell: Cell, row: int) -> int | None:
        """Return the row of the file for one of a cell, where the cells come from a file."""
        stored = next(
            (part.cell for part in self.stored.parts if part.cell.number == cell.number), None
        )
        rows = stored.file_rows if stored is not None else ()
        return rows[min(row, len(rows)) - 1] if rows else None

    def edit(self, edit: Edit) -> Edit:
        place = self.layout.place_of(edit.start.row)
        start, end = _position_in_cell(edit.start, place), _position_in_cell(edit.end, place)
        index = self.indices[place.row]
        try:
            span = Span(index.offset(start), index.offset(end))
        except IndexError:  # of a fix that is withheld, as it reaches beyond the cell
            span = Span(0, 0)
        return Edit(span, edit.text, start, end, place.part.cell.number)

    def reason(self, reason: Reason) -> Reason:
        return reason_in_cell(reason, self.layout, self.name)

    def note(self, note: Note) -> Note:
        words = self.reworded(note.message)
        if not note.line:
            return replace(note, message=words)
        cell, row = self.layout.cell_of(note.line)
        return Note(note.kind, note.filename, words, row, cell.number)

    def reworded(self, words: str) -> str:
        """Return words of ours in which rows of the text are told by cell."""

        def told(found: re.Match[str]) -> str:
            cell, row = self.layout.cell_of(int(found[2]))
            return f"{found[1]} cell {cell.number} line {row}"

        return _ROW_NAMED.sub(told, words)


def reason_in_cell(reason: Reason, layout: Layout, filename: str) -> Reason:
    """Return a reason that speaks of a row of a notebook's text told by cell; one that speaks of
    another file as is."""
    if reason.filename != filename or not reason.line:
        return reason
    cell, row = layout.cell_of(reason.line)
    return Reason(reason.text, reason.filename, row, cell.number)


def _position_in_cell(position: Position, place: Place) -> Position:
    return Position(max(position.row - place.row + 1, 1), position.column)


@frozen
class _Last:
    """The last top-level statement of a cell.

    IPython shows its value where it is an expression without a semicolon behind it: `shows`.
    `hides` says that the one before it is an expression, which would be shown without it.
    """

    span: Span
    shows: bool
    hides: bool
    imports: bool


def _last_statements(layout: Layout, python: ast.Module | None) -> dict[int, _Last]:
    """Return the last top-level statement of each cell, by the cell's first row."""
    found: dict[int, _Last] = {}
    expressions: dict[int, bool] = {}
    for statement in python.body if python is not None else ():
        place = layout.place_of(statement.lineno)
        if (
            statement.lineno < place.row
            or not place.start <= (span := _span(layout.index, statement)).start < place.end
        ):
            continue
        expression = isinstance(statement, ast.Expr)
        quiet = layout.text[span.end : place.end].lstrip().startswith(";")
        shows, hides = expression and not quiet, expressions.get(place.row, False)
        imports = isinstance(statement, (ast.Import, ast.ImportFrom))
        found[place.row] = _Last(span, shows, hides, imports)
        expressions[place.row] = expression
    return found


def _span(index: LineIndex, statement: ast.stmt) -> Span:
    def offset(row: int, column: int) -> int:
        before = index.line(row).encode("utf-8", "surrogatepass")[:column]
        return index.starts[row - 1] + len(before.decode("utf-8", "surrogatepass"))

    end = offset(statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
    return Span(offset(statement.lineno, statement.col_offset), end)
