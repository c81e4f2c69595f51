"""Places in a text: offsets, rows and columns.

An *offset* counts code points from the start of the decoded text (without its BOM). Rows and
columns are 1-based and count code points too, as ruff and SARIF's ``unicodeCodePoints`` do. Lines
end at ``\\r\\n``, ``\\n`` or ``\\r`` only: `str.splitlines` would also split at form feeds and
``\\u2028``.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Iterable, Iterator

from torchlint.base.records import dataclass
from torchlint.base.regex import regex

_LINE_END = regex(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A 1-based row and a 1-based column in code points."""

    row: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open range ``[start, end)`` of code point offsets into a document's text."""

    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Say whether the two ranges share a character, or one is an insertion strictly inside the
        other."""
        if self.start == self.end or other.start == other.end:
            return self.start < other.end and other.start < self.end
        return max(self.start, other.start) < min(self.end, other.end)


def line_starts(text: str) -> list[int]:
    """Return the offsets at which the lines of a text start."""
    if "\r" in text:
        return [0, *(found.end() for found in _LINE_END.finditer(text))]
    ends = itertools.accumulate(map(len, text.split("\n")))
    return [0, *map(operator.add, ends, itertools.count(1))][:-1]


class LineIndex:
    """Turns offsets of one text into positions and back."""

    __slots__ = ("starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = line_starts(text)

    def position(self, offset: int) -> Position:
        """Return the row and column of `offset`, which may be the end of the text."""
        row = bisect.bisect_right(self.starts, offset)
        return Position(row, offset - self.starts[row - 1] + 1)

    def offset(self, position: Position) -> int:
        """Return the offset of `position`; a column past the line's end gives the line's end.

        Raises:
            IndexError: the row does not exist.
        """
        if not 1 <= position.row <= len(self.starts):
            raise IndexError(f"row {position.row} of {len(self.starts)}")
        return min(self.starts[position.row - 1] + position.column - 1, self.line_end(position.row))

    def line_end(self, row: int) -> int:
        """Return the offset at which 1-based line `row` ends, before its newline."""
        end = self.starts[row] if row < len(self.starts) else len(self.text)
        while end > self.starts[row - 1] and self.text[end - 1] in "\r\n":
            end -= 1
        return end

    def line(self, row: int) -> str:
        """Return 1-based line `row` without its newline."""
        return self.text[self.starts[row - 1] : self.line_end(row)]

    def excerpt(self, rows: Iterable[int]) -> Iterator[tuple[int, str]]:
        """Yield those of some 1-based rows that the text has, in order, with their lines; behind
        the last newline is no row."""
        last = len(self) - self.text.endswith("\n")
        return ((row, self.line(row)) for row in sorted(set(rows)) if 1 <= row <= last)

    def __len__(self) -> int:
        return len(self.starts)
