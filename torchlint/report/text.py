"""What reports in words say of a finding: its place, its code, whether it has a fix."""

from __future__ import annotations

from collections.abc import Sequence

from torchlint.base.finding import (
    INVALID_SYNTAX,
    NOT_ANALYSED,
    UNREADABLE,
    Finding,
    Note,
    Safety,
    Severity,
)
from torchlint.report.kit.terminal import CYAN, paint
from torchlint.report.kit.words import location, visible, visible_path
from torchlint.report.run_report import applicable

SEVERITY = {
    Severity.ERROR: "\x1b[1;31m",
    Severity.WARNING: "\x1b[1;33m",
    Severity.INFO: "\x1b[1;36m",
}
"""The colours of findings on a terminal."""
_MARKERS = {Safety.SAFE: "[*]", Safety.UNSAFE: "[~]"}
_WORD_CODES = frozenset({INVALID_SYNTAX, UNREADABLE, NOT_ANALYSED})


def place(finding: Finding) -> str:
    """Return ``path:row:column``, with the cell between path and row in a notebook."""
    return f"{visible_path(finding.filename)}:{in_file(finding)}"


def in_file(finding: Finding) -> str:
    """Return ``row:column``, with the cell before it in a notebook, for reports that have named the
    file."""
    return location("", finding.cell, finding.start.row, finding.start.column)


def in_cell(finding: Finding) -> str:
    """Return ``cell 4:6:16: `` for a finding in a notebook, for formats whose lines are the file's,
    else nothing."""
    return "" if finding.cell is None else f"{in_file(finding)}: "


def file_row(finding: Finding) -> int:
    """Return the row of the file as stored: in a notebook that of its JSON text."""
    return finding.file_row or finding.start.row


def note_place(note: Note) -> str:
    """Return where a note belongs: ``path``, or ``path:row`` where it speaks of one."""
    return location(visible_path(note.filename), note.cell, note.line)


def marker(finding: Finding) -> str:
    """Return ``[*]`` for a safe fix, ``[~]`` for an unsafe one, and nothing where none would be
    written."""
    safety = applicable(finding)
    return "" if safety is None else _MARKERS[safety]


def shown_code(finding: Finding) -> str:
    """Return the code before a message; the engine's codes that are words take a colon, as ruff's
    do."""
    return f"{finding.code}:" if finding.code in _WORD_CODES else finding.code


def reasons(finding: Finding) -> str:
    """Return why the line of a finding is hot, each reason with its place; empty if it is not."""
    return " <- ".join(
        f"{visible(why.text)} ({location(visible_path(why.filename), why.cell)}:{why.line})"
        for why in finding.why_hot
    )


def one_line(before: Sequence[str], finding: Finding, color: bool) -> str:
    """Return a finding as one line after words of its place: its code, the mark of its fix, its
    message."""
    words = [
        *before,
        paint(shown_code(finding), SEVERITY[finding.severity], color),
        paint(marker(finding), CYAN, color),
        visible(finding.said),
    ]
    return " ".join(filter(None, words))


def log_data(text: str, percent: str) -> str:
    """Return a message for a build's log, with per cent signs as `percent`.

    With no raw newline left, it cannot start a command of its own.
    """
    return visible(text.replace("%", percent).replace("\r", "%0D").replace("\n", "%0A"))
