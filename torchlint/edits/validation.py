"""Is a fixed text still the program it was, but for what the edits say?"""

from __future__ import annotations

import ast
import bisect
import copy
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from torchlint.base.finding import Edit
from torchlint.base.span import LineIndex
from torchlint.semantic.code.quick_nodes import parsed as exactly
from torchlint.source.python import parsed, walk

_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")

Rows = list[tuple[int, int]]


class Validator:
    """Judges the texts that fixes make of one file.

    Where this Python cannot parse the original (newer syntax), libcst alone decides.
    """

    def __init__(self, original: str) -> None:
        self._known = original
        self._tree = self._original = parsed(original)

    @property
    def by_python(self) -> bool:
        """Whether this Python's parser checks the fixes too."""
        return self._tree is not None

    @cached_property
    def _compiled(self) -> bool:
        """Whether CPython's compiler has nothing against the original: asked once there is a
        fix."""
        return self._original is not None and _compiles(self._original)

    def holds(self, before: str, edits: Sequence[Edit], after: str) -> bool:
        """Say whether `after` is Python, as the original is, and holds the statements of `before`
        that no edit touched."""
        try:
            exactly(cst.parse_module, after)
        except (cst.ParserSyntaxError, RecursionError):
            return False
        if self._tree is None:
            return True
        if before != self._known:
            self._known, self._tree = before, parsed(before)
        new = parsed(after)
        if new is None or self._tree is None or (self._compiled and not _compiles(new)):
            return False
        ours, theirs = _touched(before, edits, after)
        return list(_untouched(self._tree, ours)) == list(_untouched(new, theirs))


def _compiles(tree: ast.Module) -> bool:
    """Say whether CPython's compiler has nothing against a tree, such as an argument that is given
    twice; a notebook may await in its cells."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    except (MemoryError, RecursionError):
        pass
    return True


def _touched(before: str, edits: Sequence[Edit], after: str) -> tuple[Rows, Rows]:
    """Return the row ranges that the edits touch in the old and in the new text, in text order."""
    old, new = LineIndex(before), LineIndex(after)
    ours: Rows = []
    theirs: Rows = []
    shift = 0
    for edit in edits:
        start, end = edit.span.start, edit.span.end
        ours.append((old.position(start).row, old.position(end).row))
        theirs.append(
            (new.position(start + shift).row, new.position(start + shift + len(edit.text)).row)
        )
        shift += len(edit.text) - (end - start)
    return ours, theirs


def _untouched(tree: ast.AST, rows: Rows, depth: int = 0) -> Iterator[tuple[int, str, str]]:
    """Yield each statement, and header of a block, that meets none of the row ranges, in text
    order.

    Each is given as its depth, the field of its parent that holds it, and a dump without its
    blocks.
    """
    for name in _BLOCKS:
        block = getattr(tree, name, None)
        for child in block if isinstance(block, list) else ():
            header = copy.copy(child)
            inner = [field for field in _BLOCKS if isinstance(getattr(child, field, None), list)]
            for field in inner:
                setattr(header, field, [])
            nodes = [node for node in walk(header) if hasattr(node, "lineno")]
            first = min(node.lineno for node in nodes)
            last = max(
                (
                    getattr(node, "end_lineno", first)
                    for node in nodes
                    if not inner or node is not header
                ),
                default=first,
            )
            at = bisect.bisect_left(rows, first, key=lambda row: row[1])
            if at == len(rows) or rows[at][0] > last:
                yield depth, name, ast.dump(header)
            yield from _untouched(child, rows, depth + 1)
