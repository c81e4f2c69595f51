"""Words and places as they may be shown on a terminal."""

from __future__ import annotations

from torchlint.base.finding import INVALID_SYNTAX, NOT_ANALYSED, UNREADABLE, Finding, Safety
from torchlint.report.escapes import path_bytes, visible, visible_path
from torchlint.report.run_report import applicable

__all__ = [
    "file_row",
    "in_cell",
    "in_file",
    "marker",
    "path_bytes",
    "place",
    "pluralise",
    "shown_code",
    "visible",
    "visible_path",
]

_MARKERS = {Safety.SAFE: "[*]", Safety.UNSAFE: "[~]"}
_WORD_CODES = frozenset({INVALID_SYNTAX, UNREADABLE, NOT_ANALYSED})


def place(finding: Finding) -> str:
    """Return ``path:row:column``, with the cell between path and row in a notebook."""
    cell = "" if finding.cell is None else f":cell {finding.cell}"
    return f"{visible_path(finding.filename)}{cell}:{finding.start.row}:{finding.start.column}"


def in_file(finding: Finding) -> str:
    """Return ``row:column``, with the cell before it in a notebook, for reports that have named the file."""
    cell = "" if finding.cell is None else f"cell {finding.cell}:"
    return f"{cell}{finding.start.row}:{finding.start.column}"


def in_cell(finding: Finding) -> str:
    """Return ``cell 4:6:16: `` for a finding in a notebook, for formats whose lines are the file's, else nothing."""
    if finding.cell is None:
        return ""
    return f"cell {finding.cell}:{finding.start.row}:{finding.start.column}: "


def file_row(finding: Finding) -> int:
    """Return the row of the file as stored: in a notebook that of its JSON text."""
    return finding.file_row or finding.start.row


def marker(finding: Finding) -> str:
    """Return ``[*]`` for a safe fix, ``[~]`` for an unsafe one, and nothing where none would be written."""
    safety = applicable(finding)
    return "" if safety is None else _MARKERS[safety]


def shown_code(finding: Finding) -> str:
    """Return the code before a message; the engine's codes that are words take a colon, as ruff's do."""
    return f"{finding.code}:" if finding.code in _WORD_CODES else finding.code


def pluralise(count: int, word: str) -> str:
    """Return ``1 file``, ``2 files``, ``2 fixes``."""
    if count == 1:
        return f"1 {word}"
    return f"{count} {word}{'es' if word.endswith(('x', 's')) else 's'}"
