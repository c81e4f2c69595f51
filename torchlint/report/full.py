"""The `full` format: each finding with its source lines, the reason why the line is hot, and the
fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchlint.base.finding import FileReport, Finding, Safety, TextFix
from torchlint.report.excerpt import CONTEXT, Rows, around, by_cell, marked, source_rows
from torchlint.report.kit.terminal import (
    BOLD,
    CYAN,
    GUTTER,
    clip,
    paint,
    readable,
    shown_line,
    wrapped,
)
from torchlint.report.kit.words import visible, visible_path
from torchlint.report.run_report import RunReport, measure, report_order
from torchlint.report.text import SEVERITY, marker, place, reasons, shown_code


def render(run: RunReport) -> str:
    """Return one block of lines per finding, with an empty line after each."""
    files = sorted(run.files, key=lambda file: file.filename)
    blocks = [block for file in files for block in _blocks(file, run.color, readable(run.width))]
    return "".join(text for _, text in sorted(blocks, key=lambda block: -block[0]))


def _blocks(file: FileReport, color: bool, columns: int) -> Iterator[tuple[float, str]]:
    """Yield the block of each finding, and what fixing it saves at most, where that is known."""
    rows = source_rows(file)
    for finding in sorted(file.findings, key=report_order):
        lines = [*_head(finding, color, columns), *_finding(finding, rows, color), "", ""]
        yield measure(finding), "\n".join(lines)


def _head(finding: Finding, color: bool, columns: int) -> Iterator[str]:
    """Yield code, mark and message in lines that fit; a word that is too long is left whole."""
    code, mark = shown_code(finding), marker(finding)
    indent = len(" ".join(filter(None, [code, mark]))) + 1
    message = wrapped(visible(finding.said), columns - indent)
    words = [paint(code, SEVERITY[finding.severity], color), paint(mark, CYAN, color)]
    yield " ".join([*filter(None, words), *(paint(line, BOLD, color) for line in message[:1])])
    yield from (" " * indent + paint(line, BOLD, color) for line in message[1:])


def _finding(finding: Finding, rows: Mapping[int | None, Rows], color: bool) -> Iterator[str]:
    width = len(str(_last_row(finding)))
    yield f"{' ' * width}{paint('-->', GUTTER, color)} {place(finding)}"
    yield from _excerpt(finding, rows.get(finding.cell, {}), width, color)
    if finding.why_hot:
        yield _labelled("why", reasons(finding), color)
    if finding.help:
        yield _labelled("help", visible(finding.help), color)
    if finding.fix is not None:
        yield from _fix(finding.fix, finding.cell, rows, width, color)


def _last_row(finding: Finding) -> int:
    fix = finding.fix
    edits = list(fix.edits) if fix is not None else []
    edits += [edit for part in (fix.elsewhere if fix is not None else ()) for edit in part.edits]
    return max(
        [
            finding.start.row + CONTEXT,
            *(edit.end.row + edit.text.count("\n") + CONTEXT for edit in edits),
        ]
    )


def _excerpt(finding: Finding, rows: Rows, width: int, color: bool) -> Iterator[str]:
    shown = around(finding, rows)
    if not shown:
        return
    bar = paint(f"{' ' * width} |", GUTTER, color)
    yield bar
    for at in shown:
        is_first = at == finding.start.row
        text = shown_line(clip(rows[at], finding.start.column if is_first else 1)[0]).text
        yield f"{paint(f'{at:>{width}} |', GUTTER, color)} {text}".rstrip()
        if is_first:
            blank, carets = _underline(finding, rows[at])
            yield f"{bar} {blank}{paint(carets, SEVERITY[finding.severity], color)}"
    yield bar


def _underline(finding: Finding, source: str) -> tuple[str, str]:
    """Return blanks and carets that stand under the finding's part of its first row."""
    text, start, end = marked(finding, source)
    columns = shown_line(text).columns
    return " " * columns[start], "^" * max(1, columns[end] - columns[start])


def _fix(
    fix: TextFix, home: int | None, rows: Mapping[int | None, Rows], width: int, color: bool
) -> Iterator[str]:
    from torchlint.report.patch import patch_lines

    yield _labelled("help", visible(fix.title), color)
    parts = list(by_cell(fix))
    for cell, part in parts:
        if [cell for cell, _ in parts] != [home]:
            yield paint(f"{' ' * width} cell {cell}:", GUTTER, color)
        yield from patch_lines(part, rows.get(cell, {}), width, color)
    for other in fix.elsewhere:
        yield paint(f"{' ' * width} {visible_path(other.filename)}:", GUTTER, color)
        there = replace(fix, edits=other.edits)
        yield from patch_lines(there, dict(other.source), width, color)
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
