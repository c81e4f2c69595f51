"""Where nodes stand in the text.

libcst's own position providers cost more than its parser and count in the code that libcst
generates, which is not always the text it read: a lone backslash line, a glued form feed or the
space in ``except A :`` is lost. `Layout` asks `units` first; where that cannot tell, it makes one
code generation pass over the file that tracks the running length, lines up generated code and text
by their characters that are not white space, and hands out a span only after checking it.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.span import Span
from torchlint.edits.codegen import Recorder
from torchlint.edits.statement_spans import StatementSpans, stripped

_BLANK = regex(r"(?:\\[\r\n]|\s)+")


def ws_free(code: str) -> str:
    """Return `code` without white space and without backslash-newlines."""
    return _BLANK.sub("", code)


class _Alignment:
    """Maps offsets of the generated code to the text: the k-th significant character is the k-th.

    Where the two differ in more than white space, only the part before the first difference is
    mapped.
    """

    def __init__(self, generated: str, text: str) -> None:
        self.same = generated == text
        self.text = text
        self.length = len(generated)
        if self.same:
            return
        self.before, ours = _significant(generated)
        _, self.places = _significant(text)
        limit = min(len(ours), len(self.places))
        self.usable = next(
            (k for k in range(limit) if generated[ours[k]] != text[self.places[k]]), limit
        )

    def span(self, start: int, end: int) -> Span | None:
        """Return the span of the text for a range of the generated code, or None."""
        end = min(end, self.length)  # the module's own end counts a newline that libcst takes back
        if self.same:
            return stripped(self.text, start, end)
        first, last = self.before[start], self.before[end] - 1
        if first > last or last >= self.usable:
            return None
        return Span(self.places[first], self.places[last] + 1)


def _significant(code: str) -> tuple[list[int], list[int]]:
    """Return how many significant characters stand before each offset, and the offset of each of
    them."""
    before: list[int] = []
    places: list[int] = []
    position = 0
    for blank in [*_BLANK.finditer(code), None]:
        stop, resume = blank.span() if blank else (len(code), len(code) + 1)
        before.extend(range(len(places), len(places) + stop - position))
        places.extend(range(position, stop))
        before.extend([len(places)] * (resume - stop))
        position = resume
    return before, places


class Layout:
    """The spans of one tree in the text it was parsed from, in code points.

    Args:
        tree: the module.
        text: the decoded text without its BOM.
        units: what knows most places without generating the whole file; None to do without.
    """

    def __init__(self, tree: cst.Module, text: str, units: StatementSpans | None = None) -> None:
        self.tree = tree
        self.text = text
        self._units = units

    @cached_property
    def _state(self) -> Recorder:
        state = Recorder(self.tree.default_indent, self.tree.default_newline)
        self.tree._codegen(state)
        return state

    @cached_property
    def _alignment(self) -> _Alignment:
        return _Alignment("".join(self._state.tokens), self.text)

    def span(self, node: cst.CSTNode) -> Span | None:
        """Return the syntactic span of `node`, as libcst's PositionProvider has it.

        White space, comments and the lines around the node do not count, nor do its own parentheses
        (those of a tuple neither) or decorators. None: the node is empty, not of this tree, or
        fails the self-check.
        """
        return self._checked(node, whole=False)

    def whole(self, node: cst.CSTNode) -> Span | None:
        """Return the span of `node` with its own parentheses, or with its decorators; else as
        `span`."""
        return self._checked(node, whole=True)

    def _checked(self, node: cst.CSTNode, whole: bool) -> Span | None:
        """Return the span if the text in it is the node's own code, but for white space."""
        near = self._units.span(node, whole) if self._units is not None else None
        if near is not None:
            return near
        if node not in self._state.full:
            return None
        span = self._alignment.span(*self._state.range(node, whole))
        if span is None:
            return None
        try:
            code = ws_free(_code(node, self.tree, "", whole))
        except (cst.CSTLogicError, SyntaxError):  # the node cannot be generated without its parent
            return None
        found = ws_free(self.text[span.start : span.end])
        agrees = found == code or (isinstance(node, cst.If) and found == "el" + code)
        return span if agrees else None


def rendered(node: cst.CSTNode, tree: cst.Module, indent: str = "") -> str:
    """Return the code of a new `node`, with its parentheses or decorators, as it reads at depth
    `indent`.

    The code starts at the node's first token; lines after the first are indented by `indent` where
    libcst would indent them. Comments above, behind and below a statement are not part of it.
    """
    return _code(node, tree, indent, whole=True)


def _code(node: cst.CSTNode, tree: cst.Module, indent: str, whole: bool) -> str:
    """Return the code of a node generated on its own, without what surrounds it."""
    state = Recorder(tree.default_indent, tree.default_newline)
    state.increase_indent(indent)
    node._codegen(state)
    start, end = state.range(node, whole)
    return "".join(state.tokens)[start:end]
