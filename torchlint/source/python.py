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


def parsed(text: str) -> ast.Module | None:
    """Return CPython's tree of a text, without its warnings; None where it does not accept the
    text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
