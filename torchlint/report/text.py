"""Words and places as they may be shown on a terminal."""

from __future__ import annotations

import os
import re

from torchlint.base.finding import INVALID_SYNTAX, NOT_ANALYSED, UNREADABLE, Finding, Safety
from torchlint.report.run_report import applicable

_HIDDEN = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 but tab, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    r"\u2028\u2029"  # line separators: one finding stays one line
    r"\ud800-\udfff]"  # undecodable bytes of file names
)
_SHORT = {"\n": r"\n", "\r": r"\r"}
_MARKERS = {Safety.SAFE: "[*]", Safety.UNSAFE: "[~]"}
_WORD_CODES = frozenset({INVALID_SYNTAX, UNREADABLE, NOT_ANALYSED})


def visible(text: str) -> str:
    r"""Return `text` with all that could steer a terminal or hide code spelled out (``\x1b``, ``\u202e``)."""
    return _HIDDEN.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def visible_path(filename: str) -> str:
    """Return a file name to show; one that starts with ``::`` would be a command in a GitHub log."""
    shown = visible(filename)
    return f"./{shown}" if shown.lstrip().startswith("::") else shown


def path_bytes(path: str) -> bytes:
    """Return the bytes of a path as the file system has them; what cannot be one is spelled out."""
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        return visible(path).encode()


def place(finding: Finding) -> str:
    """Return ``path:row:column``, with the cell between path and row in a notebook."""
    cell = "" if finding.cell is None else f":cell {finding.cell}"
    return f"{visible_path(finding.filename)}{cell}:{finding.start.row}:{finding.start.column}"


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
