"""Is this Python, and can our parser read it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from torchlint.base.records import dataclass, frozen
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex
from torchlint.source.python import read, walk

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.semantic.code.tree import Tree

_COMMA_EXCEPT = "multiple exception types must be parenthesized"
_PYTHON_2_NAME = regex(r"\s*except\b.+,\s*[a-z_]\w*\s*:")
"""``except OSError, error:``. Since Python 3.14 a comma is allowed, but classes are seldom in lower
case."""
_NEVER_VALID = ("bytes can only contain ASCII", "(unicode error)", "too many nested parentheses")
"""What CPython says of code that libcst may take, or crash on; no newer Python has it either."""
_TOO_MANY_DIGITS = "Exceeds the limit"
"""A limit for integers that is a setting of the interpreter (``PYTHONINTMAXSTRDIGITS``)."""
_NEWER = regex(
    r"\bexcept\b|\b(?:type|lazy)\s+\w"  # PEP 654 and 758, 695, 810
    r"|\b(?:def|class)\s+\w+\s*\["  # PEP 695
    r"|[fFtT][rR]?['\"]|[rR][fFtT]['\"]"  # PEP 701, 750
    r"|[\[({,:]\s*\*"  # PEP 646, 798
)
"""Signs of what libcst reads and some Python that we run on does not. libcst hangs on some faulty
texts, so that those without a sign are not given to it."""
_KEPT = 500_000
"""Characters of source whose trees are remembered, which take some 90 bytes for each."""
_recent: dict[str, _Remembered] = {}
_in_use: WeakValueDictionary[str, Tree] = WeakValueDictionary()
"""Trees that an analysis still holds, by text."""
left_to_libcst: set[str] = set()
"""Texts of which a lean tree turned out to be another than libcst's."""
reindented: set[str] = set()
"""Texts that libcst refuses for their tabs, so that the tree is that of another indentation."""
_RAW_LINE = regex(r"error at (\d+):(\d+)")


@dataclass(slots=True)
class _Remembered:
    """What a text was read as: CPython's tree, libcst's or why there is none, and what is known of
    its structure once that was asked for."""

    python: ast.Module | None
    root: cst.Module | str
    tree: Tree | None = None


@frozen
class SyntaxFault:
    """Why a text is not Python: CPython's own words, and where (1-based row and column)."""

    message: str
    row: int
    column: int


class TooDeepError(Exception):
    """The text is nested too deeply for CPython's own parser."""


def syntax_fault(text: str) -> SyntaxFault | None:
    """Return what CPython has against a text, or None; see `python_tree`."""
    found = python_tree(text)
    return found if isinstance(found, SyntaxFault) else None


def python_tree(text: str) -> ast.Module | SyntaxFault | None:
    """Return CPython's tree of a text, or what it has against it; that of a remembered text.

    None: only a newer Python accepts the text, but libcst can parse it.

    Raises:
        TooDeepError: CPython's parser gives up on the nesting.
    """
    if text in _recent:
        return _recent[text].python
    if "\0" in text:
        at = LineIndex(text).position(text.index("\0"))
        return SyntaxFault("source code cannot contain null bytes", at.row, at.column)
    try:
        return read(text)
    except (MemoryError, RecursionError):
        # CPython's parser has a stack of its own, and says so in this way when it is full.
        raise TooDeepError from None
    except SyntaxError as error:
        if _may_be_newer(error, text) and _libcst_parses(text):
            return None
        return SyntaxFault(
            error.msg or "invalid syntax", max(error.lineno or 1, 1), max(error.offset or 1, 1)
        )


def _may_be_newer(error: SyntaxError, text: str) -> bool:
    """Say whether what this Python refuses may be valid in a newer one, or with other settings."""
    message = error.msg or ""
    if message.startswith(_TOO_MANY_DIGITS):
        return True
    if (
        isinstance(error, IndentationError)
        or message.startswith(_NEVER_VALID)
        or not _NEWER.search(text)
    ):
        return False
    return _COMMA_EXCEPT not in message or not _PYTHON_2_NAME.match(error.text or "")


def _libcst_parses(text: str) -> bool:
    import libcst as cst

    try:
        cst.parse_module(text)
    except (cst.ParserSyntaxError, cst.CSTValidationError):
        return False
    return True


def parse(text: str, python: ast.Module | None) -> cst.Module | str:
    """Parse a text that CPython accepts; return the tree, or why libcst cannot read it.

    The last trees are remembered, and those in use: a file is read for itself, and for what others
    import from it.

    Args:
        text: the decoded text without its BOM.
        python: CPython's tree of it; None where only a newer Python accepts it.
    """
    used = _in_use.get(text)
    _recent[text] = found = _recent.pop(text, None) or _Remembered(
        python,
        used.root if used is not None else _lean(text, python) or _parsed(text, python),
        used,
    )
    total = sum(map(len, _recent))
    while total > _KEPT and len(_recent) > 1:
        oldest = next(iter(_recent))
        del _recent[oldest]
        total -= len(oldest)
    return found.root


def structure(text: str, root: cst.Module) -> Tree:
    """Return parents, owners and nodes by type of a text's tree; that of a remembered text is
    shared."""
    from torchlint.semantic.code.tree import Tree

    found = _recent.get(text)
    if found is None or found.root is not root:
        return Tree(root)
    if found.tree is None:
        found.tree = _in_use[text] = Tree(root)
    return found.tree


def _lean(text: str, python: ast.Module | None) -> cst.Module | None:
    """Return the lean tree of a text; None where it is left to libcst's own parser."""
    if python is None or text in left_to_libcst:
        return None
    from torchlint.semantic.code.lean_tree import UnreadableError, lean_tree

    try:
        return lean_tree(text, python, exactly)
    except UnreadableError:
        return None


def leave_to_libcst(text: str) -> None:
    """Have libcst's own parser read a text from now on."""
    left_to_libcst.add(text)
    _recent.clear()
    _in_use.clear()


def exactly(text: str) -> cst.Module:
    """Return libcst's own tree of a text, with all that says how it is written."""
    import libcst as cst

    from torchlint.semantic.code.quick_nodes import parsed

    return parsed(cst.parse_module, text)


def _parsed(text: str, python: ast.Module | None) -> cst.Module | str:
    """Return libcst's tree of a text, or of one with a space for each tab of its indentation.

    Where CPython accepts the tabs, both have the same blocks, and each character keeps its place.
    """
    found = _by_libcst(text)
    if isinstance(found, str) and python is not None and "\t" in text:
        strings = {
            row
            for node in walk(python)
            if isinstance(node, (ast.Constant, ast.JoinedStr))
            for row in range(node.lineno + 1, (node.end_lineno or 0) + 1)
        }
        starts = LineIndex(text).starts
        lines = map(text.__getitem__, map(slice, starts, [*starts[1:], len(text)]))
        again = _by_libcst(
            "".join(
                line if row in strings else " " * (len(line) - len(left)) + left
                for row, line in enumerate(lines, 1)
                for left in (line.lstrip(" \t"),)
            )
        )
        if not isinstance(again, str):
            reindented.add(text)
            return again
    return found


def _by_libcst(text: str) -> cst.Module | str:
    import libcst as cst

    try:
        return exactly(text)
    except cst.ParserSyntaxError as error:
        found = _RAW_LINE.search(str(error))
        where = f" (near line {found.group(1)})" if found else ""
        return f"the parser does not support this valid Python{where}"
    except cst.CSTValidationError as error:
        return f"the parser does not support this valid Python ({error})"
