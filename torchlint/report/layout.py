"""A source line as a terminal shows it: tabs, wide characters, spelled-out controls, very long lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from torchlint.report.text import visible

TAB = 4
"""Width of a tab stop, in terminal columns."""
LONGEST = 180
"""Code points of a longer line that are shown: generated files have lines of a megabyte."""
_CUT = "..."


@dataclass(frozen=True, slots=True)
class Line:
    """A shown line; ``columns[i]`` is the terminal column, from 0, of the source's code point `i`.

    `columns` has one more entry than there are code points, for the end of the line.
    """

    text: str
    columns: Sequence[int]


def shown_line(source: str) -> Line:
    """Return `source`, one line without its newline, as text without tabs or control characters."""
    if source.isascii() and source.isprintable():  # most lines: each character is one column
        return Line(source, range(len(source) + 1))
    pieces: list[str] = []
    columns = [0]
    for character in source:
        at = columns[-1]
        piece = " " * (TAB - at % TAB) if character == "\t" else visible(character)
        pieces.append(piece)
        columns.append(at + (_width(character) if piece == character else len(piece)))
    return Line("".join(pieces), tuple(columns))


def clip(source: str, column: int) -> tuple[str, int]:
    """Cut a very long line to a window around 1-based `column`.

    Returns:
        The window, and what to subtract from a column of `source` to get the column in the window.
    """
    if len(source) <= LONGEST:
        return source, 0
    begin = max(0, min(column - 1 - LONGEST // 3, len(source) - LONGEST))
    end = begin + LONGEST
    before, after = (_CUT if begin else ""), (_CUT if end < len(source) else "")
    return f"{before}{source[begin:end]}{after}", begin - len(before)


def fitted(source: str, at: int, room: int) -> str:
    """Return a line without its newline in at most `room` columns (8 or more); what is cut leaves dots.

    Args:
        source: the line.
        at: the index of a code point that is shown in any case.
        room: terminal columns.
    """
    line = shown_line(source)
    if line.columns[-1] <= room:
        return line.text
    begin = 0 if line.columns[at] < 2 * room // 3 else max(at - room // 4, 0)
    before = _CUT if begin else ""
    last = line.columns[begin] + room - len(before)
    if line.columns[-1] > last:
        last -= len(_CUT)
    end = max(end for end in range(begin, len(source) + 1) if line.columns[end] <= last)
    after = _CUT if end < len(source) else ""
    while end > begin and shown_line(source[begin:end]).columns[-1] > room - len(before) - len(after):
        end -= 1  # a tab is wider where it starts elsewhere
    return f"{before}{shown_line(source[begin:end]).text}{after}"


def _width(character: str) -> int:
    """Return 2 for East Asian wide characters, 0 for those that add to the one before, else 1."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
