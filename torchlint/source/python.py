"""CPython's own tree of a source text."""

from __future__ import annotations

import ast
import warnings


def parsed(text: str) -> ast.Module | None:
    """Return CPython's tree of a text, without its warnings; None where it does not accept the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
