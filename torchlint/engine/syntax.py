"""Is this Python, and can our parser read it."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

_OLD_EXCEPT = "multiple exception types must be parenthesized"
_RAW_LINE = re.compile(r"error at (\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """Why a text is not Python: CPython's own words, and where (1-based row and column)."""

    message: str
    row: int
    column: int


class TooDeepError(Exception):
    """The text is nested too deeply for CPython's own parser."""


def syntax_fault(text: str) -> SyntaxFault | None:
    """Return what CPython has against a text, or None.

    A text that only a newer Python accepts counts as Python when libcst can parse it.

    Raises:
        TooDeepError: CPython's parser gives up on the nesting.
    """
    if "\0" in text:
        before = text[: text.index("\0")]
        return SyntaxFault("source code cannot contain null bytes", before.count("\n") + 1, 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (MemoryError, RecursionError):
        # CPython's parser has a stack of its own, and says so in this way when it is full.
        raise TooDeepError from None
    except SyntaxError as error:
        message = error.msg or "invalid syntax"
        if _OLD_EXCEPT not in message and not isinstance(error, IndentationError) and _libcst_parses(text):
            return None
        return SyntaxFault(message, max(error.lineno or 1, 1), max(error.offset or 1, 1))
    return None


def _libcst_parses(text: str) -> bool:
    import libcst as cst

    try:
        cst.parse_module(text)
    except (cst.ParserSyntaxError, cst.CSTValidationError):
        return False
    return True


def parse(text: str) -> cst.Module | str:
    """Parse a text that CPython accepts; return the tree, or why libcst cannot read it."""
    import libcst as cst

    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        found = _RAW_LINE.search(str(error))
        where = f" (near line {found.group(1)})" if found else ""
        return f"the parser does not support this valid Python{where}"
    except cst.CSTValidationError as error:
        return f"the parser does not support this valid Python ({error})"
