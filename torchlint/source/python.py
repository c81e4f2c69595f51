"""CPython's own tree of a source text."""

from __future__ import annotations

import ast
import warnings

_PLAIN = frozenset(
    "ctx op ops id attr arg kind type_comment level module conversion simple is_async asname rest "
    "type_ignores".split()
)
"""Fields of nodes that hold no node, or one with nothing below it."""


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


_below: dict[type, tuple[str, ...]] = {}


def below(node: ast.AST) -> tuple[str, ...]:
    """Return the fields of a node that may hold other nodes, or lists of them."""
    kind = type(node)
    if kind not in _below:
        _below[kind] = tuple(name for name in kind._fields if name not in _PLAIN)
    return _below[kind]


def walk(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes of a tree in the order of `ast.walk`, which takes twice the time, but for
    some that have nothing below them: operators and contexts."""
    found: list[ast.AST] = [tree]
    for node in found:
        for value in map(node.__getattribute__, below(node)):
            if type(value) is list:
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found
