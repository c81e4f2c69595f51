"""Lines that a fix makes longer than the project allows are wrapped, as the file wraps its own.

One pass over the splices of a fix, whichever rule made it. Only lines that the fix touches are
looked at, and only those that were within the limit before: what its author let grow stays. A line
is broken inside of brackets, where a break means nothing; where it has none that help (a long
string, a pragma behind the code) it stays as long as it is.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import token as kinds
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from keyword import iskeyword

from torchlint.base.records import dataclass, frozen
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex, Span
from torchlint.edits.splice import EditContext, Splice
from torchlint.source.python import children

USUAL = (88, 100, 120)
"""The limits that projects choose: that of a file whose project says none is one of them."""
_TAB = 4
_MOST = 40
"""How many lines of one fix are wrapped at most."""
_SHORT = 8
"""What is no longer stays in the brackets of its index: ``[0]`` on three lines helps nobody."""
_PRAGMA = regex(
    r"\s*#\s*(?:noqa\b|type:|pyright:|pylint:|pragma\b|fmt:|yapf:|mypy:|isort:|nosec\b|torchlint:).*$"
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_TESTING = ("if", "elif", "while")
_OPERATORS = frozenset((*"+-*/%@|&,", "//", "**", "and", "or"))
_COMPARISONS = frozenset(("==", "!=", "<=", ">=", ":="))
_LAYOUT = frozenset(
    (kinds.NEWLINE, tokenize.NL, tokenize.COMMENT, kinds.INDENT, kinds.DEDENT, kinds.ENDMARKER)
)
_PIECE = regex(
    r"#[^\n]*|\n"
    r"|(?P<string>"
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    r")|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"""|(?P<code>[^\s#"'()\[\]{}\\](?:[^\n#"'()\[\]{}\\]*[^\s#"'()\[\]{}\\])?)""",
    re.DOTALL,
)
"""What a text of Python is made of, as far as it matters how wide and where it stands: comments,
ends of lines, strings, brackets, and runs of other code in one line."""
_STRING_STARTS = frozenset(
    getattr(kinds, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(kinds, name)
)
_STRING_ENDS = frozenset(
    getattr(kinds, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(kinds, name)
)

Tokens = list[tokenize.TokenInfo]
_Places = tuple[tuple[int, int], ...]
"""Rows and columns."""
Change = tuple[int, int, str]
"""In one line: from column, to column, what comes in the place."""


@frozen
class Style:
    """How a file lays out its calls.

    Args:
        longest: the width of its longest line of code, comments behind it not counted.
        aligned: whether arguments go on below the first one more often than indented by one step.
    """

    longest: int
    aligned: bool


@frozen
class _Pair:
    """Two brackets in one line, which hold something.

    Args:
        start: the column behind the opening one.
        end: the column of the closing one.
        commas: the columns behind the commas right in them.
        unfit: whether a comprehension keeps them from being broken at the commas.
        index: whether they index something.
        depth: how many pairs of the line are around them.
    """

    start: int
    end: int
    commas: tuple[int, ...]
    unfit: bool
    index: bool
    depth: int


def width(line: str) -> int:
    """Return how wide a line is, pragmas at its end not counted: black does not count them
    either."""
    return len(_PRAGMA.sub("", line).rstrip().expandtabs(_TAB))


def code_width(line: str) -> int:
    """Return how wide a line is without a comment behind the code, of a line by itself as near as
    can be told."""
    code, _, comment = line.rpartition("  #")
    return width(code) if comment and code.strip() else width(line)


def limit_of(text: str, line_length: int) -> int:
    """Return how wide fixes may make the lines of a file: as wide as the project says, else the
    lowest usual limit that its longest line of code is within, and the highest where none is."""
    longest = style_of(text).longest
    return line_length or next((each for each in USUAL if longest <= each), USUAL[-1])


def wrapped(splices: Sequence[Splice], context: EditContext) -> list[Splice]:
    """Return the splices of a fix, in text order, so that no line they touch passes the limit that
    was within it before."""
    if not _may_be_long(splices, context, context.limit or USUAL[0]):
        return list(splices)
    limit = limit_of(context.text, context.limit)
    ceiling = max(limit, style_of(context.text).longest)
    aligned = style_of(context.text).aligned if context.aligned is None else context.aligned
    out = list(splices)
    for _ in range(_MOST):
        draft = _Draft.of(out, context)
        changed = _wrap_one(draft, context, (limit, ceiling), aligned)
        if changed is None:
            break
        out = changed
    return out


def _may_be_long(splices: Sequence[Splice], context: EditContext, limit: int) -> bool:
    """Say whether a line may pass the limit: a cheap bound, which holds for most fixes."""
    widths: dict[int, int] = {}
    for splice in splices:
        rows = {context.index.position(at).row for at in (splice.span.start, splice.span.end)}
        for row in rows:
            had = widths.setdefault(row, len(context.index.line(row).expandtabs(_TAB)))
            widths[row] = had + max(map(len, splice.text.expandtabs(_TAB).split("\n")))
        if len(rows) > 1:  # What stands behind the end goes on in the row of the start.
            widths[min(rows)] += widths[max(rows)]
    return any(each > limit for each in widths.values())


@lru_cache(maxsize=8)
def comments_of(text: str) -> tuple[Span, ...]:
    """Return the places of a text's comments."""
    return tuple(
        Span(piece.start(), piece.start() + len(piece.group().partition("\r")[0]))
        for piece in _PIECE.finditer(text)
        if piece.lastgroup is None and text[piece.start()] == "#"
    )


@lru_cache(maxsize=8)
def style_of(text: str) -> Style:
    """Return how a file lays out its code."""
    ends: dict[int, int] = {}
    strings: set[int] = set()
    stack: list[int] = []  # the column behind each bracket that is open
    row = start = below = stepped = 0
    last, opened = -1, False  # the row on which the code before ends, and whether in a bracket
    for piece in _PIECE.finditer(text):
        kind = piece.lastgroup
        if kind is None:
            if text[piece.start()] == "\n":
                row, start = row + 1, piece.end()
            continue
        stepped += opened and row > last
        opened = kind == "open"
        if kind == "open":
            stack.append(piece.end() - start)
        elif kind == "close":
            del stack[-1:]
        elif stack and row > last:
            below += piece.start() - start == stack[-1]
        if kind == "string" and (rows := piece.group().count("\n")):
            strings.update(range(row, row + rows + 1))
            row, start = row + rows, text.rindex("\n", 0, piece.end()) + 1
        ends[row], last = piece.end() - start, row
    longest = 0
    lines = text.split("\n")
    for row, end in ends.items():
        line = lines[row][:end]
        if row not in strings and len(line.expandtabs(_TAB)) > longest:
            longest = max(longest, width(line))
    return Style(longest, below > stepped)


def _tokens(draft: _Draft, row: int, context: EditContext) -> Tokens | None:
    """Return the tokens of the statement of the file that a fix first touches, and of those behind
    it, up to the one behind a row; None where Python's tokenizer gives up (a newer syntax, a
    notebook's magic)."""
    first, blocks = _statement_before(draft.touched[0].start, context)
    above = draft.index.position(first).row - 1 - len(blocks)
    headers = "".join(f"{indent}if 1:\n" for indent in blocks)
    found: Tokens = []
    try:
        for each in tokenize.generate_tokens(io.StringIO(headers + draft.text[first:]).readline):
            start, end = (each.start[0] + above, each.start[1]), (each.end[0] + above, each.end[1])
            found.append(each._replace(start=start, end=end))
            if start[0] > row and each.type not in _LAYOUT:
                break
    except (tokenize.TokenError, SyntaxError, RecursionError):
        return None
    return found


def _statement_before(offset: int, context: EditContext) -> tuple[int, list[str]]:
    """Return where the last row at or before an offset starts that a statement begins, and what the
    statements around it are indented by; the text's start where none is known."""
    index = context.index
    rows = _statements(context.python) if context.python is not None else {}
    for row in range(index.position(offset).row, 0, -1):
        before = [index.line(each)[:column] for each, column in rows.get(row, ())]
        if before and not before[-1].strip():
            return index.starts[row - 1], before[:-1]
    return 0, []


@lru_cache(maxsize=8)
def _statements(tree: ast.Module) -> dict[int, _Places]:
    """Return the rows in which statements stand, each with where the first of them begins, behind
    the statements around it."""
    found: dict[int, _Places] = {}
    pending: list[tuple[ast.AST, _Places]] = [(tree, ())]
    for node, around in pending:
        for each in children(node):
            if isinstance(each, ast.stmt):
                places = (*around, (each.lineno, each.col_offset))
                found.setdefault(each.lineno, places)
                pending.append((each, places))
            elif isinstance(each, (ast.ExceptHandler, ast.match_case)):
                pending.append((each, around))
    return found


@dataclass(frozen=True)
class _Draft:
    """What splices make of a text: its characters with where in the old text each stood, -1 for
    new ones."""

    text: str
    origins: Sequence[tuple[int, int, int]]
    """Runs: offset in the new text, offset in the old one or -1, length; in order."""
    touched: tuple[Span, ...]
    """Where the splices stand in the new text."""
    old: LineIndex

    @classmethod
    def of(cls, splices: Sequence[Splice], context: EditContext) -> _Draft:
        """Return the draft that splices in text order make."""
        parts: list[str] = []
        runs: list[tuple[int, int, int]] = []
        touched: list[Span] = []
        at = length = 0
        for splice in (*splices, Splice(Span(len(context.text), len(context.text)), "")):
            kept = context.text[at : splice.span.start]
            runs += [(length, at, len(kept))] if kept else []
            length += len(kept)
            runs += [(length, -1, len(splice.text))] if splice.text else []
            touched.append(Span(length, length + len(splice.text)))
            parts += (kept, splice.text)
            length += len(splice.text)
            at = splice.span.end
        return cls("".join(parts), runs, tuple(touched[:-1]), context.index)

    @cached_property
    def index(self) -> LineIndex:
        """The lines of the new text."""
        return LineIndex(self.text)

    def sources(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the stretches of the old text that a stretch of the new one holds."""
        first = bisect_right(self.origins, start, key=lambda run: run[0]) - 1
        for place, old, length in self.origins[max(first, 0) :]:
            if place >= end:
                break
            low, high = max(place, start), min(place + length, end)
            if old >= 0 and low < high:
                yield old + low - place, old + high - place

    def old_rows(self, row: int) -> set[int]:
        """Return the rows of the old text of which a row of the new one holds code."""
        start, end = self.index.starts[row - 1], self.index.line_end(row)
        return {
            self.old.position(old).row
            for old, stop in self.sources(start, end)
            if self.text[start:end].strip() and self.old.text[old:stop].strip()
        }

    def changed(self, row: int, changes: Sequence[Change], context: EditContext) -> list[Splice]:
        """Return the splices that make this draft with changes of the white space and commas of one
        of its rows."""
        start = self.index.starts[row - 1]
        pieces: list[tuple[int, int, str]] = []  # old start, old end, or (-1, -1) and a text
        at = 0
        for low, high, text in (
            *((start + a, start + b, t) for a, b, t in changes),
            (len(self.text), len(self.text), ""),
        ):
            pieces += self._pieces(at, low)
            pieces += [(-1, -1, text)] if text else []
            at = high
        out: list[Splice] = []
        old, pending = 0, ""
        for low, high, text in (*pieces, (len(context.text), len(context.text), "")):
            if low < 0:
                pending += text
                continue
            if pending or low > old:
                out.append(Splice(Span(old, low), context.as_written(pending, old)))
            old, pending = high, ""
        return out

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        for place, old, length in self.origins:
            low, high = max(place, start), min(place + length, end)
            if low < high and old >= 0:
                yield old + low - place, old + high - place, ""
            elif low < high:
                yield -1, -1, self.text[low:high]


def _too_long(draft: _Draft, limit: int, ceiling: int) -> Iterator[int]:
    """Yield the rows of a draft that a splice touches and that pass the limit, where nothing that
    they hold passed it before, or that get longer than all code of the file."""
    index = draft.index
    rows = {
        row
        for span in draft.touched
        for row in range(index.position(span.start).row, index.position(span.end).row + 1)
    }
    for row in sorted(rows):
        new = index.line(row)
        if width(new) > limit:
            before = [draft.old.line(old) for old in draft.old_rows(row)]
            had, code = _widest(map(code_width, before)), code_width(new)
            grown = had <= limit < code or had <= ceiling < code
            if (grown or _widest(map(width, before)) <= limit) and not _is_moved(draft, new):
                yield row


def _is_moved(draft: _Draft, line: str) -> bool:
    """Say whether a line stood in the old text as it is, and as far to the right: a block whose
    ``with`` went lost some indentation."""
    return line.strip() in draft.old.text and any(
        old.endswith(line.lstrip()) and old.strip() == line.strip() and width(old) >= width(line)
        for old in draft.old.text.split("\n")
    )


def _widest(widths: Iterable[int]) -> int:
    return max(widths, default=0)


def _wrap_one(
    draft: _Draft, context: EditContext, limits: tuple[int, int], aligned: bool
) -> list[Splice] | None:
    """Return the splices with one more line wrapped; None where none can be."""
    rows = list(_too_long(draft, *limits))
    tokens = _tokens(draft, rows[-1], context) if rows else None
    if tokens is None:
        return None
    for row in rows:
        start = draft.index.starts[row - 1]
        edits = [span.start - start for span in draft.touched if span.start >= start]
        line = _Line.of(draft.index.line(row), row, tokens, edits, context.tree.default_indent)
        changes = line.wrapped(limits[0], aligned) if line is not None else None
        if changes:
            return draft.changed(row, changes, context)
    return None


@dataclass(frozen=True)
class _Line:
    """One line of code that is too long.

    Args:
        text: the line.
        tokens: those in it.
        outer: how many brackets are open where it starts.
        alone: whether it is all that stands between two brackets, which are in other lines.
        edits: the columns at which the fix changes something.
        step: one step of indentation.
    """

    text: str
    tokens: Tokens
    outer: int
    alone: bool
    edits: list[int]
    step: str

    @classmethod
    def of(cls, text: str, row: int, tokens: Tokens, edits: list[int], step: str) -> _Line | None:
        """Return a line with its tokens; None where a string goes on into it or out of it."""
        code = [each for each in tokens if each.type not in _LAYOUT]
        here = [n for n, each in enumerate(code) if each.start[0] <= row <= each.end[0]]
        if not here or any(code[n].start[0] != code[n].end[0] for n in here):
            return None
        inside = _inside_strings(code[: here[0]])
        own = list(_outside_strings(code[here[0] : here[-1] + 1]))
        if inside or _inside_strings(code[: here[-1] + 1]):
            return None
        before, after = code[here[0] - 1 : here[0]], code[here[-1] + 1 : here[-1] + 2]
        alone = _is_one_of(before, _OPENING) and _is_one_of(after, _CLOSING)
        depth = _depth(_outside_strings(code[: here[0]]))
        return cls(text, own, depth, alone, edits, step)

    @property
    def indent(self) -> str:
        """The white space that the line starts with."""
        return self.text[: len(self.text) - len(self.text.lstrip())]

    def wrapped(self, limit: int, aligned: bool) -> list[Change] | None:
        """Return the changes that bring the line within the limit, or nearer to it; None where
        there are none."""
        whole = self._excess([], limit)
        for way in self._wrappings(limit, aligned):
            if way and self._excess(way, limit) < whole:
                return way
        return None

    def _wrappings(self, limit: int, aligned: bool) -> Iterator[list[Change]]:
        """Yield the ways to wrap the line, the best first; an empty one stands for none.

        As black does it: of the brackets the outer ones first, what is in them on a line of its own
        where that fits, else one argument a line; long arguments are wrapped after that.
        """
        if self.outer:
            yield self._each_alone() if self.alone and not aligned else []
            yield self._between_arguments(limit)
        pairs = self._pairs()
        near = [pair for pair in pairs if any(pair.start < at <= pair.end for at in self.edits)]
        if self._operators() > bool(near):
            yield self._where_fits(self._in_new_parentheses(), limit)
            yield self._where_fits(self._one_a_line_in_new_parentheses(), limit)
        for pair in (*near, *(pair for pair in pairs if pair not in near)):
            yield self._where_fits(self._below(pair, limit) if aligned else [], limit)
            yield self._where_fits(self._in_one_line(pair), limit)
            yield self._one_a_line(pair)
            yield self._in_one_line(pair)
        yield self._where_fits(self._in_new_parentheses(), limit)

    def _where_fits(self, way: list[Change], limit: int) -> list[Change]:
        return [] if self._excess(way, limit) else way

    def _operators(self) -> int:
        """Return how many operators of the line's value are in no brackets of it; a comma weighs
        two."""
        depth = found = 0
        start = self._value_start()
        if start is None:
            return 0
        for each in self.tokens:
            if each.start[1] < start:
                continue
            if each.type == kinds.OP:
                depth += (each.string in _OPENING) - (each.string in _CLOSING)
            if depth == 0 and each.string in _OPERATORS:
                found += 2 if each.string == "," else 1
        return found

    def _excess(self, changes: list[Change], limit: int) -> int:
        """Return by how much the lines that changes make pass the limit, all in all."""
        text, at = "", 0
        for low, high, new in changes:
            text += self.text[at:low] + new
            at = high
        lines = (text + self.text[at:]).split("\n")
        return sum(max(width(line) - limit, 0) for line in lines)

    def _pairs(self) -> list[_Pair]:
        """Return the pairs of brackets that hold something: calls before indices, outer before
        inner ones, then the last first."""
        out: list[_Pair] = []
        stack: list[tuple[int, list[int], set[str]]] = []
        for number, each in enumerate(self.tokens):
            if each.type == kinds.OP and each.string in _OPENING:
                stack.append((number, [], set()))
            elif each.type == kinds.OP and each.string in _CLOSING and stack:
                first, commas, words = stack.pop()
                if first + 1 < number:
                    out.append(self._pair(first, number, commas, bool(words), len(stack)))
            elif each.type == kinds.OP and each.string == "," and stack:
                if "lambda" not in stack[-1][2]:
                    stack[-1][1].append(number)
            elif each.type == kinds.OP and each.string == ":" and stack:
                stack[-1][2].discard("lambda")  # Its parameters end here.
            elif each.type == kinds.NAME and each.string in ("for", "lambda") and stack:
                stack[-1][2].add(each.string)

        # An index of several parts is broken like a call, before the calls inside it.
        return sorted(
            out, key=lambda pair: (pair.index and not pair.commas, pair.depth, -pair.start)
        )

    def _pair(self, first: int, last: int, commas: Sequence[int], unfit: bool, depth: int) -> _Pair:
        tokens = self.tokens
        before = tokens[first - 1] if first else None
        index = tokens[first].string == "[" and before is not None and _ends_value(before)
        places = tuple(tokens[each].end[1] for each in commas)
        return _Pair(tokens[first].end[1], tokens[last].start[1], places, unfit, index, depth)

    def _gap(self, column: int) -> int:
        """Return where the white space behind a column ends."""
        return len(self.text) - len(self.text[column:].lstrip())

    def _end_before(self, column: int) -> int:
        """Return where the white space before a column starts."""
        return len(self.text[:column].rstrip())

    def _commas(self) -> list[int]:
        """Return where the commas end that part what the line starts in: arguments of an earlier
        line's call."""
        depth = 0
        out = []
        for each in self.tokens:
            if each.type == kinds.OP:
                depth += (each.string in _OPENING) - (each.string in _CLOSING)
                if depth < 0:
                    break
                if each.string == "," and depth == 0:
                    out.append(each.end[1])
            elif depth == 0 and each.string in ("for", "lambda"):
                return []
        return out

    def _between_arguments(self, limit: int) -> list[Change]:
        """Break a line that goes on with the arguments of an earlier one, behind the last comma
        that fits."""
        end = self.tokens[-1].end[1]
        fit = [each for each in self._commas() if each < end and width(self.text[:each]) <= limit]
        return [(fit[-1], self._gap(fit[-1]), f"\n{self.indent}")] if fit else []

    def _each_alone(self) -> list[Change]:
        """Put each of the arguments that are all in this line on one of its own."""
        commas, end = self._commas(), self.tokens[-1].end[1]
        if not commas:
            return []
        out = [(each, self._gap(each), f"\n{self.indent}") for each in commas if each < end]
        return out if commas[-1] == end else [*out, (end, end, ",")]

    def _below(self, pair: _Pair, limit: int) -> list[Change]:
        """Break behind the commas at which a line would pass the limit, and go on below the first
        argument."""
        under = re.sub(r"[^\t]", " ", self.text[: pair.start])
        if "\t" in under.lstrip("\t") or pair.unfit or not pair.commas:
            return []
        out: list[Change] = []
        start, head = 0, ""
        for comma, stop in zip(pair.commas, (*pair.commas[1:], len(self.text)), strict=True):
            rest = self._gap(comma)
            if rest < pair.end and width(head + self.text[start:stop]) > limit:
                out.append((comma, rest, f"\n{under}"))
                start, head = rest, under
        return out

    def _in_one_line(self, pair: _Pair) -> list[Change]:
        """Put what stands in brackets on a line of its own."""
        end = self._end_before(pair.end)
        if pair.commas and pair.commas[-1] >= end:
            return []  # A comma at the end asks for one argument a line.
        if pair.index and end - pair.start < _SHORT:
            return []
        return [
            (pair.start, self._gap(pair.start), f"\n{self.indent}{self.step}"),
            (end, pair.end, f"\n{self.indent}"),
        ]

    def _one_a_line(self, pair: _Pair) -> list[Change]:
        """Put each of what stands in brackets on a line of its own, with a comma behind the
        last."""
        if pair.unfit or pair.index or not pair.commas:
            return []
        inner = f"\n{self.indent}{self.step}"
        end = self._end_before(pair.end)
        out = [(pair.start, self._gap(pair.start), inner)]
        out += [(each, self._gap(each), inner) for each in pair.commas if each < end]
        comma = "" if pair.commas[-1] >= end else ","
        return [*out, (end, pair.end, f"{comma}\n{self.indent}")]

    def _in_new_parentheses(self) -> list[Change]:
        """Put what is assigned, returned or tested in parentheses, on a line of its own."""
        start = None if self.outer else self._value_start()
        tested = self.tokens[0].string in _TESTING and self.tokens[-1].string == ":"
        end = self.tokens[-1].start[1] if tested else self.tokens[-1].end[1]
        if start is None or start >= end or "\\" in self.text[end:]:
            return []
        return [
            (start, start, f"(\n{self.indent}{self.step}"),
            (end, end, f"\n{self.indent})"),
        ]

    def _one_a_line_in_new_parentheses(self) -> list[Change]:
        """Put each of the values of a tuple, or of the terms of an ``or``, in new parentheses, on a
        line of its own."""
        around = self._in_new_parentheses()
        if not around:
            return []
        start, end = around[0][0], around[1][0]
        depth, commas, terms = 0, [], []
        for last, each in itertools.pairwise(self.tokens):
            if each.type == kinds.OP:
                depth += (each.string in _OPENING) - (each.string in _CLOSING)
            if depth == 0 and start < each.end[1] < end:
                commas += [each.end[1]] if each.string == "," else []
                terms += [(last.end[1], each.start[1])] if each.string == "or" else []
        inner = f"\n{self.indent}{self.step}"
        if terms and not commas:
            return [around[0], *((*term, inner) for term in terms), around[1]]
        if not commas:
            return []
        between = [(each, self._gap(each), inner) for each in commas]
        return [around[0], *between, (end, end, f",\n{self.indent})")]

    def _value_start(self) -> int | None:
        """Return where the value of an assignment, a return or a test starts; None for other
        lines."""
        depth = 0
        first = self.tokens[0]
        found = self._gap(first.end[1]) if first.string in ("return", *_TESTING) else None
        for each in self.tokens:
            if each.string in (";", "lambda", "yield"):
                return None
            if each.type == kinds.OP:
                depth += (each.string in _OPENING) - (each.string in _CLOSING)
                if depth == 0 and each.string.endswith("=") and each.string not in _COMPARISONS:
                    found = self._gap(each.end[1])
        return found if depth == 0 else None


def _outside_strings(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens that are not inside of an f-string."""
    inside = 0
    for each in tokens:
        inside -= each.type in _STRING_ENDS
        if not inside:
            yield each
        inside += each.type in _STRING_STARTS


def _inside_strings(tokens: Sequence[tokenize.TokenInfo]) -> int:
    """Return how many f-strings are open behind some tokens."""
    return sum((each.type in _STRING_STARTS) - (each.type in _STRING_ENDS) for each in tokens)


def _depth(tokens: Iterator[tokenize.TokenInfo]) -> int:
    """Return how many brackets are open behind some tokens."""
    strings = [each.string for each in tokens if each.type == kinds.OP]
    return sum((each in _OPENING) - (each in _CLOSING) for each in strings)


def _is_one_of(tokens: Sequence[tokenize.TokenInfo], brackets: frozenset[str]) -> bool:
    return bool(tokens) and tokens[0].type == kinds.OP and tokens[0].string in brackets


def _ends_value(token: tokenize.TokenInfo) -> bool:
    """Say whether a bracket behind a token is an index or a call: behind a name that is no keyword,
    or a bracket."""
    if token.type == kinds.NAME:
        return not iskeyword(token.string)
    return token.string in _CLOSING
