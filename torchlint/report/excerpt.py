"""The source around a finding, for the formats that show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchlint.base.finding import FileReport, Finding, TextFix
from torchlint.report.kit.terminal import clip

CONTEXT = 2
"""Rows shown before and after the row of a finding."""
Rows = Mapping[int, str]
"""The text of rows by their number, without newlines."""


def source_rows(file: FileReport) -> dict[int | None, dict[int, str]]:
    """Return the rows of a file that its report knows, by cell; None where there are no cells."""
    rows: dict[int | None, dict[int, str]] = {}
    for cell, row, text in file.source:
        rows.setdefault(cell, {})[row] = text
    return rows


def around(finding: Finding, rows: Rows) -> list[int]:
    """Return the rows to show: around the first of a finding, no blank ones at either end."""
    first = finding.start.row
    if first not in rows:
        return []
    shown = [row for row in range(first - CONTEXT, first + CONTEXT + 1) if row in rows]
    while shown[0] < first and not rows[shown[0]].strip():
        del shown[0]
    while shown[-1] > first and not rows[shown[-1]].strip():
        del shown[-1]
    return shown


def marked(finding: Finding, source: str) -> tuple[str, int, int]:
    """Return the first row of a finding, and where in it the finding begins and ends.

    A very long row is cut.
    """
    text, cut = clip(source, finding.start.column)
    one_row = finding.end.row == finding.start.row
    last = finding.end.column - 1 if one_row else len(source.rstrip())
    start, end = (min(max(at - cut, 0), len(text)) for at in (finding.start.column - 1, last))
    return text, start, max(start, end)


def by_cell(fix: TextFix) -> Iterator[tuple[int | None, TextFix]]:
    """Yield the parts of a fix that change one cell each."""
    for cell in sorted({edit.cell for edit in fix.edits}, key=lambda cell: cell or 0):
        yield cell, replace(fix, edits=tuple(edit for edit in fix.edits if edit.cell == cell))
