"""Lines of a terminal: colours, tabs, wide characters, wrapping, columns, very long lines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from torchlint.report.kit.words import visible

BOLD = "\x1b[1m"
DIM = "\x1b[2m"
RED = "\x1b[31m"
GREEN = "\x1b[32m"
YELLOW = "\x1b[33m"
CYAN = "\x1b[36m"
GUTTER = "\x1b[1;34m"
RESET = "\x1b[0m"
TAB = 4
"""Width of a tab stop, in terminal columns."""
LONGEST = 180
"""Code points of a longer line that are shown: generated files have lines of a megabyte."""
_CUT = "..."
_NARROWEST, _WIDEST = 20, 120
"""Columns: longer lines are hard to read, however wide the terminal is."""


def paint(text: str, style: str, color: bool) -> str:
    """Return `text` in `style`, or as it is where there is no colour or no text."""
    return f"{style}{text}{RESET}" if color and text else text


def readable(width: int) -> int:
    """Return how many columns of a terminal to use."""
    return max(_NARROWEST, min(width, _WIDEST))


def wrapped(text: str, room: int, indent: str = "", hang: str = "") -> list[str]:
    """Return words in lines of at most `room` columns; a word that is too long is left whole.

    Args:
        text: one paragraph; without words it is one empty line.
        room: columns, the indentation among them; 8 are used at least.
        indent: stands before every line.
        hang: stands between the indentation and all lines but the first.
    """
    return textwrap.wrap(
        text,
        max(room, 8),
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def aligned(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Return rows of words as lines whose columns stand under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [gap.join(map(str.ljust, row, widths)).rstrip() for row in rows]


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


def columns(text: str) -> int:
    """Return how many terminal columns `text` takes; wide characters take two."""
    return shown_line(text).columns[-1]


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
    """Return a line without its newline in at most `room` columns; what is cut leaves dots.

    Args:
        source: the line.
        at: the index of a code point that is shown in any case.
        room: terminal columns, 8 or more.
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
    room -= len(before) + len(after)
    while end > begin and columns(source[begin:end]) > room:
        end -= 1  # a tab is wider where it starts elsewhere
    return f"{before}{shown_line(source[begin:end]).text}{after}"


def _width(character: str) -> int:
    """Return 2 for East Asian wide characters, 0 for those that add to the one before, else 1."""
    import unicodedata  # most reports need no table of characters

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
