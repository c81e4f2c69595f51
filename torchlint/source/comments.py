"""The comments of a source text, and the rows that a remark in each of them speaks of.

Comments are found by `tokenize`. Where that fails (an older Python reading newer syntax), a plain
scan stands in that rather misses a comment than looks inside a string.
"""

from __future__ import annotations

import bisect
import tokenize
from collections.abc import Iterator

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex

_LAYOUT = frozenset(
    {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
)
_TOKENIZE_ERRORS = (tokenize.TokenError, SyntaxError, ValueError, RecursionError, UnicodeError)
_OPENING = regex(r"\"\"\"|'''|\"|'|#")


@frozen
class Comment:
    """One comment.

    Args:
        text: from its ``#`` to the end of the line.
        start: the offset of the ``#``.
        row: its row.
        alone: whether only white space stands before it.
        first: the first row it speaks of. Behind code on the first or last row of a statement, that
            is the statement (of a compound one, its header); on another row of a statement, only
            that row; on a line of its own, the next statement (decorators and header), or inside
            brackets the next row with code.
        last: the last such row.
        guessed: whether `tokenize` failed, so that `first` and `last` are only its own row.
    """

    text: str
    start: int
    row: int
    alone: bool
    first: int
    last: int
    guessed: bool = False


def comments(index: LineIndex) -> list[Comment]:
    """Return the comments of a text in order; never raises."""
    try:
        return sorted(_tokenized(index), key=lambda comment: comment.start)
    except _TOKENIZE_ERRORS:
        return list(_scanned(index))


def logical_lines(index: LineIndex) -> list[tuple[int, int]]:
    """Return the first and the last row of every logical line with code, in order; none where
    `tokenize` fails."""
    found: list[tuple[int, int]] = []
    first = 0
    try:
        for token in _tokens(index):
            if token.type == tokenize.NEWLINE:
                found.append((first or token.start[0], token.start[0]))
                first = 0
            elif token.type not in _LAYOUT and token.type != tokenize.COMMENT:
                first = first or token.start[0]
    except _TOKENIZE_ERRORS:
        return []
    return found


def _is_alone(index: LineIndex, row: int, column: int) -> bool:
    return not index.line(row)[:column].strip()


class _Rows:
    """Gathers comments until the statement that they speak of is read to its end."""

    def __init__(self, index: LineIndex) -> None:
        self.index = index
        self.before: list[tokenize.TokenInfo] = []
        self.inside: list[tokenize.TokenInfo] = []
        self.code: list[int] = []
        self.decorators = 0

    def add(self, token: tokenize.TokenInfo) -> None:
        """Take a token that belongs to a statement, or a comment."""
        if token.type == tokenize.COMMENT:
            (self.inside if self.code else self.before).append(token)
            return
        if not self.code and token.string == "@" and not self.decorators:
            self.decorators = token.start[0]
        elif not self.code and token.string != "@":
            # Not a decorator line: this statement ends the run of decorators, if there was one.
            self.decorators = -self.decorators
        self.code.append(token.start[0])
        if token.end[0] != token.start[0]:
            self.code.append(token.end[0])

    def end(self) -> Iterator[Comment]:
        """Yield the comments of the statement that ends here."""
        first, last = (self.code[0], self.code[-1]) if self.code else (0, 0)
        for token in self.inside:
            yield self._inside(token, first, last)
        self.inside = []
        self.code = []
        if self.decorators > 0:
            return
        start = -self.decorators or first
        for token in self.before:
            yield self._comment_of(token, *((start, last) if first else (token.start[0],) * 2))
        self.before = []
        self.decorators = 0

    def _inside(self, token: tokenize.TokenInfo, first: int, last: int) -> Comment:
        row = token.start[0]
        if _is_alone(self.index, row, token.start[1]):
            after = bisect.bisect_right(self.code, row)
            row = self.code[after] if after < len(self.code) else row
            return self._comment_of(token, row, row)
        return self._comment_of(token, *((first, last) if row in (first, last) else (row, row)))

    def _comment_of(self, token: tokenize.TokenInfo, first: int, last: int) -> Comment:
        row, column = token.start
        alone = _is_alone(self.index, row, column)
        return Comment(token.string, self.index.starts[row - 1] + column, row, alone, first, last)


def _tokens(index: LineIndex) -> Iterator[tokenize.TokenInfo]:
    # tokenize knows \n only; every line gets one, so that rows and columns stay those of the index.
    lines = iter([index.line(row) + "\n" for row in range(1, len(index) + 1)])
    return tokenize.generate_tokens(lambda: next(lines, ""))


def _tokenized(index: LineIndex) -> Iterator[Comment]:
    rows = _Rows(index)
    for token in _tokens(index):
        if token.type == tokenize.NEWLINE:
            yield from rows.end()
        elif token.type not in _LAYOUT:
            rows.add(token)
    rows.decorators = 0
    yield from rows.end()


def _scanned(index: LineIndex) -> Iterator[Comment]:
    """Find comments by following quotes; a comment that holds a quote is not believed to be one."""
    open_until = ""
    for row in range(1, len(index) + 1):
        line = index.line(row)
        at = 0
        while at < len(line):
            if open_until:
                at, open_until = _after_string(line, at, open_until)
                continue
            found = _OPENING.search(line, at)
            if found is None:
                break
            if found[0] == "#":
                if not set("'\"") & set(line[found.start() :]):
                    alone = _is_alone(index, row, found.start())
                    start = index.starts[row - 1] + found.start()
                    yield Comment(line[found.start() :], start, row, alone, row, row, guessed=True)
                break
            open_until, at = found[0], found.end()
        if len(open_until) == 1 and not line.endswith("\\"):
            open_until = ""


def _after_string(line: str, at: int, quote: str) -> tuple[int, str]:
    """Return where scanning goes on in a string that `quote` closes, and the quote if it is still
    open."""
    while at < len(line):
        if line[at] == "\\":
            at += 2
        elif line.startswith(quote, at):
            return at + len(quote), ""
        else:
            at += 1
    return len(line), quote
