"""The `full` format: each finding with its source lines, the reason why the line is hot, and the fix."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchlint.base.finding import FileReport, Finding, Reason, Safety, TextFix
from torchlint.report.layout import clip, shown_line
from torchlint.report.run_report import RunReport, report_order
from torchlint.report.style import BOLD, CYAN, GUTTER, SEVERITY, paint
from torchlint.report.text import marker, place, shown_code, visible, visible_path

_WIDEST = 120
"""Longer lines are hard to read, however wide the terminal is."""
_NARROWEST = 20
CONTEXT = 2
"""Rows shown before and after the row of a finding."""


def render(run: RunReport) -> str:
    """Return one block of lines per finding, with an empty line after each."""
    files = sorted(run.files, key=lambda file: file.filename)
    width = max(_NARROWEST, min(run.width, _WIDEST))
    return "".join(block for file in files for block in _blocks(file, run.color, width))


def _blocks(file: FileReport, color: bool, columns: int) -> Iterator[str]:
    by_cell: dict[int | None, dict[int, str]] = defaultdict(dict)
    for cell, row, text in file.source:
        by_cell[cell][row] = text
    for finding in sorted(file.findings, key=report_order):
        yield "\n".join([*_head(finding, color, columns), *_finding(finding, by_cell, color), "", ""])


def _head(finding: Finding, color: bool, columns: int) -> Iterator[str]:
    """Yield code, mark and message in lines that fit; a word that is too long is left whole."""
    code, mark = shown_code(finding), marker(finding)
    indent = len(" ".join(filter(None, [code, mark]))) + 1
    message = textwrap.wrap(
        visible(finding.message), max(columns - indent, 8), break_long_words=False, break_on_hyphens=False
    )
    words = [paint(code, SEVERITY[finding.severity], color), paint(mark, CYAN, color)]
    yield " ".join([*filter(None, words), *(paint(line, BOLD, color) for line in message[:1])])
    yield from (" " * indent + paint(line, BOLD, color) for line in message[1:])


def _finding(finding: Finding, by_cell: Mapping[int | None, Mapping[int, str]], color: bool) -> Iterator[str]:
    width = len(str(_last_row(finding)))
    yield f"{' ' * width}{paint('-->', GUTTER, color)} {place(finding)}"
    yield from _excerpt(finding, by_cell[finding.cell], width, color)
    if finding.why_hot:
        yield _labelled("why", " <- ".join(_reason(reason) for reason in finding.why_hot), color)
    if finding.help:
        yield _labelled("help", visible(finding.help), color)
    if finding.fix is not None:
        yield from _fix(finding.fix, finding.cell, by_cell, width, color)


def _last_row(finding: Finding) -> int:
    edits = finding.fix.edits if finding.fix is not None else ()
    return max([finding.start.row + CONTEXT, *(edit.end.row + edit.text.count("\n") + CONTEXT for edit in edits)])


def _excerpt(finding: Finding, source: Mapping[int, str], width: int, color: bool) -> Iterator[str]:
    row = finding.start.row
    if row not in source:
        return
    before = [at for at in range(row - CONTEXT, row) if at in source]
    after = [at for at in range(row + 1, row + CONTEXT + 1) if at in source]
    while before and not source[before[0]].strip():
        del before[0]
    while after and not source[after[-1]].strip():
        del after[-1]
    bar = paint(f"{' ' * width} |", GUTTER, color)
    yield bar
    for at in [*before, row, *after]:
        column = finding.start.column if at == row else 1
        text = shown_line(clip(source[at], column)[0]).text
        yield f"{paint(f'{at:>{width}} |', GUTTER, color)} {text}".rstrip()
        if at == row:
            blank, carets = _underline(finding, source[row])
            yield f"{bar} {blank}{paint(carets, SEVERITY[finding.severity], color)}"
    yield bar


def _underline(finding: Finding, source: str) -> tuple[str, str]:
    """Return blanks and carets that stand under the finding's part of its first row."""
    text, cut = clip(source, finding.start.column)
    columns = shown_line(text).columns
    one_row = finding.end.row == finding.start.row
    end = finding.end.column if one_row else len(source.rstrip()) + 1
    from_column, to_column = (columns[min(column - 1 - cut, len(text))] for column in (finding.start.column, end))
    return " " * from_column, "^" * max(1, to_column - from_column)


def _reason(reason: Reason) -> str:
    cell = "" if reason.cell is None else f":cell {reason.cell}"
    return f"{visible(reason.text)} ({visible_path(reason.filename)}{cell}:{reason.line})"


def _fix(
    fix: TextFix, home: int | None, by_cell: Mapping[int | None, Mapping[int, str]], width: int, color: bool
) -> Iterator[str]:
    from torchlint.report.patch import patch_lines

    yield _labelled("help", visible(fix.title), color)
    cells = sorted({edit.cell for edit in fix.edits}, key=lambda cell: cell or 0)
    for cell in cells:
        if cells != [home]:
            yield paint(f"{' ' * width} cell {cell}:", GUTTER, color)
        part = replace(fix, edits=tuple(edit for edit in fix.edits if edit.cell == cell))
        yield from patch_lines(part, by_cell[cell], width, color)
    if fix.safety is Safety.UNSAFE:
        yield _labelled("note", f"unsafe fix: {visible(fix.note)}", color)
    elif fix.note:
        yield _labelled("note", visible(fix.note), color)
    if fix.safety is Safety.SUGGESTION:
        yield _labelled("note", "a suggestion: never applied, for you to judge", color)
    elif fix.withheld:
        yield _labelled("note", f"not applied: {visible(fix.withheld)}", color)


def _labelled(label: str, text: str, color: bool) -> str:
    return f"{paint(label, BOLD, color)}: {text}"
