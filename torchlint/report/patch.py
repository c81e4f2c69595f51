"""A fix shown as the few lines that it changes; `diff` prints whole-file patches."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from torchlint.base.finding import Edit, TextFix
from torchlint.base.regex import regex
from torchlint.report.kit.terminal import GREEN, GUTTER, RED, clip, paint, shown_line

MOST_ROWS = 60
"""Rows of a longer change that are shown; the rest is left to ``torchlint fix``."""
_NEWLINE = regex(r"\r\n|\r")
Row = tuple[str, int, str]
"""``" "``, ``"-"`` or ``"+"``; the row's number in the fixed file; its text."""


def patch_lines(fix: TextFix, source: Mapping[int, str], width: int, color: bool) -> list[str]:
    """Return the change as gutter lines like ruff's, or an empty list where nothing is to be shown.

    Args:
        fix: the fix; its edits do not overlap.
        source: text of the rows around the edits, without newlines. An edit in a row that is not
            there is shown by its new text alone.
        width: digits of the gutter.
        color: whether to use colours.
    """
    lines: list[str] = []
    for column, rows in changes(fix, source):
        lines.append(paint(f"{' ' * width} |", GUTTER, color))
        lines.extend(_line(row, column, width, color) for row in rows[:MOST_ROWS])
        if len(rows) > MOST_ROWS:
            lines.append(f"{' ' * width} ... and {len(rows) - MOST_ROWS} more rows")
    return [*lines, paint(f"{' ' * width} |", GUTTER, color)] if lines else []


def changes(fix: TextFix, source: Mapping[int, str]) -> Iterator[tuple[int, list[Row]]]:
    """Yield the rows of each connected change, after its first column, from which a long row is
    best shown.

    For the arguments see `patch_lines`.
    """
    edits = sorted(fix.edits, key=lambda edit: (edit.start, edit.end))
    shift = 0
    for hunk in _hunks(edits):
        yield min(edit.start.column for edit in hunk), list(_rows(hunk, source, shift))
        shift += sum(edit.text.count("\n") - (edit.end.row - edit.start.row) for edit in hunk)


def _hunks(edits: list[Edit]) -> list[list[Edit]]:
    """Group edits whose rows touch or have one row between them."""
    hunks: list[list[Edit]] = []
    for edit in edits:
        if hunks and edit.start.row <= max(other.end.row for other in hunks[-1]) + 2:
            hunks[-1].append(edit)
        else:
            hunks.append([edit])
    return hunks


def _rows(hunk: list[Edit], source: Mapping[int, str], shift: int) -> Iterator[Row]:
    first, last = hunk[0].start.row, max(edit.end.row for edit in hunk)
    # Whether the last row is known; an edit that ends at its first column needs nothing of it.
    if any(row not in source for row in range(first, last)) or not (
        last in source or all(edit.end.row < last or edit.end.column == 1 for edit in hunk)
    ):
        yield from _rows_without_context(hunk, shift)
        return
    old = [source.get(row, "") for row in range(first, last + 1)]
    new = _applied(hunk, old, first).split("\n")
    if last not in source and not new[-1]:  # behind the last newline is no row
        del old[-1], new[-1]
    number = first + shift
    if first - 1 in source:
        yield (" ", number - 1, source[first - 1])
    for tag, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(
        None, old, new, False
    ).get_opcodes():
        if tag == "equal":
            yield from ((" ", number + at, new[at]) for at in range(new_from, new_to))
        else:
            yield from (("-", 0, text) for text in old[old_from:old_to])
            yield from (("+", number + at, new[at]) for at in range(new_from, new_to))
    if last + 1 in source:
        yield (" ", number + len(new), source[last + 1])


def _rows_without_context(hunk: list[Edit], shift: int) -> Iterator[Row]:
    for edit in hunk:
        for at, text in enumerate(_unix(edit.text).strip("\n").split("\n")):
            if text:
                yield ("+", edit.start.row + shift + at, text)


def _applied(hunk: list[Edit], old: list[str], first: int) -> str:
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line) + 1)
    text = "\n".join(old)
    for edit in reversed(hunk):
        start = starts[edit.start.row - first] + edit.start.column - 1
        end = starts[edit.end.row - first] + edit.end.column - 1
        text = text[:start] + _unix(edit.text) + text[end:]
    return text


def _unix(text: str) -> str:
    return _NEWLINE.sub("\n", text)


def _line(row: Row, column: int, width: int, color: bool) -> str:
    sign, number, text = row
    shown = shown_line(clip(text, column)[0]).text
    if sign == " ":
        return f"{paint(f'{number:>{width}} |', GUTTER, color)} {shown}".rstrip()
    style = RED if sign == "-" else GREEN
    label = "" if sign == "-" else str(number)
    return paint(f"{label:>{width}} {sign} {shown}".rstrip(), style, color)
