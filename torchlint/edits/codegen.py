"""libcst's code generation, with a note of where each node starts and ends in what it gives."""

from __future__ import annotations

from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

_WHITE_SPACE = frozenset(
    (
        cst.Comment,
        cst.SimpleWhitespace,
        cst.ParenthesizedWhitespace,
        cst.TrailingWhitespace,
        cst.EmptyLine,
        cst.Newline,
    )
)


class Recorder(CodegenState):
    """Generates code and notes at which offsets of it each node starts and ends.

    `full` holds the ranges with a node's own parentheses and the lines above it, `syntactic` those
    without.
    """

    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.length = 0
        self.full: dict[cst.CSTNode, tuple[int, int]] = {}
        self.syntactic: dict[cst.CSTNode, tuple[int, int]] = {}
        self._starts: list[int] = []

    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        self.length += sum(map(len, self.indent_tokens))

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.length += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(self.length)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        if type(node) not in _WHITE_SPACE:
            self.full[node] = (start, self.length)

    def entered(self, node: cst.CSTNode) -> None:
        """Take note that the syntactic range of `node` starts here."""

    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Any:
        return _Syntactic(self, node, start_node, end_node)

    def range(self, node: cst.CSTNode, whole: bool = False) -> tuple[int, int]:
        """Return the syntactic range of a generated node; `whole` adds its parentheses or
        decorators."""
        if whole and isinstance(node, cst.BaseExpression) and not isinstance(node, cst.BaseElement):
            return self.full[node]
        start, end = self.syntactic.get(node) or self.full[node]
        if whole and isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:
            start = self.range(node.decorators[0])[0]
        return (start, end)


class _Syntactic:
    """The context in which a node generates what belongs to its syntactic range."""

    __slots__ = ("_end_node", "_node", "_recorder", "_start", "_start_node")

    def __init__(
        self,
        recorder: Recorder,
        node: cst.CSTNode,
        start_node: cst.CSTNode | None,
        end_node: cst.CSTNode | None,
    ) -> None:
        self._recorder = recorder
        self._node = node
        self._start_node = start_node
        self._end_node = end_node

    def __enter__(self) -> None:
        self._start = self._recorder.length
        self._recorder.entered(self._node)

    def __exit__(self, *raised: object) -> None:
        if raised[0] is not None:
            return
        recorder = self._recorder
        end = recorder.length if self._end_node is None else recorder.range(self._end_node)[1]
        start = self._start if self._start_node is None else recorder.range(self._start_node)[0]
        recorder.syntactic[self._node] = (start, end)
