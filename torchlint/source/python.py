"""CPython's own tree of a source text."""

from __future__ import annotations

import ast
import warnings


class MisreadError(Exception):
    """libcst refuses a text, or reads it otherwise than its lean tree says, so that the tree cannot
    be used.

    Args:
        text: what was read.
    """

    def __init__(self, text: str) -> None:
        super().__init__("libcst reads a file otherwise than CPython")
        self.text = text


_KEPT = 200_000
"""Characters of source whose trees are remembered, which take some 50 bytes for each."""
_trees: dict[str, ast.Module] = {}


def read(text: str) -> ast.Module:
    """Return CPython's tree of a text, without its warnings. That of a text which was read a short
    while ago is the same one: nobody may change it.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: as of `ast.parse`.
    """
    found = _trees.pop(text, None)
    if found is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ast.parse(text)
    _trees[text] = found
    total = sum(map(len, _trees))
    while total > _KEPT and len(_trees) > 1:
        oldest = next(iter(_trees))
        del _trees[oldest]
        total -= len(oldest)
    return found


def parsed(text: str) -> ast.Module | None:
    """Return CPython's tree of a text as `read` does; None where it does not accept the text."""
    try:
        return read(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
