"""Positions in the client's units: lines from 0, and columns in UTF-8 bytes, UTF-16 units or code
points."""

from __future__ import annotations

from lsprotocol import types as lsp

from torchlint.base.span import LineIndex, Position, Span

_UNITS = {
    lsp.PositionEncodingKind.Utf8: ("utf-8", 1),
    lsp.PositionEncodingKind.Utf16: ("utf-16-le", 2),
}
"""Encoding → codec, and bytes in a unit. UTF-32 counts code points, as we do."""


class Columns:
    """Turns the positions in one text into the client's and back.

    Args:
        text: as the client has it; the analysis does not see a byte order mark at its start.
        encoding: what was negotiated.
    """

    __slots__ = ("_codec", "_mark", "_size", "index")

    def __init__(self, text: str, encoding: str = lsp.PositionEncodingKind.Utf16) -> None:
        self.index = LineIndex(text)
        self._mark = text.startswith("\ufeff")
        self._codec, self._size = _UNITS.get(lsp.PositionEncodingKind(encoding), ("", 1))

    @property
    def text(self) -> str:
        """The text as the analysis has it."""
        return self.index.text[self._mark :]

    def position(self, place: Position) -> lsp.Position:
        """Return a position of the analysis for the client; one behind the text gives the text's
        end."""
        row = min(max(place.row, 1), len(self.index))
        line = self.index.line(row)
        column = place.column - 1 + (self._mark and row == 1) if row == place.row else len(line)
        return lsp.Position(row - 1, self._units(line[: max(column, 0)]))

    def range(self, start: Position, end: Position) -> lsp.Range:
        """Return the range between two positions of the analysis."""
        return lsp.Range(self.position(start), self.position(end))

    def span(self, span: Span) -> lsp.Range:
        """Return the range of a span of the client's text."""
        ends = (self.index.position(span.start), self.index.position(span.end))
        return lsp.Range(
            *(lsp.Position(end.row - 1, self._units(self._text_before(end))) for end in ends)
        )

    def _text_before(self, place: Position) -> str:
        return self.index.line(place.row)[: place.column - 1]

    def line(self, row: int) -> lsp.Range:
        """Return the range of a whole line, 1-based, without its newline."""
        row = min(max(row, 1), len(self.index))
        return lsp.Range(
            lsp.Position(row - 1, 0), lsp.Position(row - 1, self._units(self.index.line(row)))
        )

    def offset(self, place: lsp.Position) -> int:
        """Return the offset in the client's text; columns behind a line and lines behind the text
        give their ends."""
        if place.line >= len(self.index):
            return len(self.index.text)
        start = self.index.starts[place.line]
        line = self.index.line(place.line + 1)
        if not self._codec or line.isascii():
            return start + min(place.character, len(line))
        units = 0
        for at, char in enumerate(line):
            units += self._units(char)
            if units > place.character:
                return start + at
        return start + len(line)

    def _units(self, text: str) -> int:
        if not self._codec or text.isascii():
            return len(text)
        return len(text.encode(self._codec, "surrogatepass")) // self._size
