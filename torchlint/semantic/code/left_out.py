"""What the texts of a project say of a class or a name, by CPython's tree: of files that are not
analysed."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator

from torchlint.base.regex import regex
from torchlint.base.remembered import TEXTS
from torchlint.source.python import parsed, walk

TESTED = regex(r"^[ \t]*(import|from)[ \t]+(pytest|unittest)\b", re.MULTILINE)
"""What a file of tests imports."""
_RUNS = regex(
    r"(^|_)(train|fit|eval|valid|test|predict|infer|run|step|epoch|generat|sampl|forward|call|apply"
    r"|loop|prepare|wrap|compile|script|trace|export|partial)|^[A-Z]"
)
"""Functions and classes that run a network they are given, or make another object of it."""
_MAKERS = frozenset(("from_pretrained", "from_config"))
_ASKS = frozenset(("isinstance", "issubclass", "super", "hasattr", "setattr", "len", "print"))
_FORWARD = "forward"

Say = Callable[..., bool | None]
"""Says whether a test of a text holds for any other file of the project; None for not known."""


def last_name(func: ast.AST) -> str:
    """Return the last part of a name or attribute; empty for other expressions."""
    if type(func) is ast.Attribute:
        return func.attr
    return func.id if type(func) is ast.Name else ""


def says(word: str, text: str) -> bool:
    """Say whether a text holds a word, and not only as a part of others. The pattern begins with
    the word itself, which is found soon."""
    return word in text and re.search(rf"{word}(?<!\w{word})\b", text) is not None


def concerns(cls: str, text: str) -> bool:
    """Say whether a file may do something with a class: most that name one import it, and say that
    a parameter is one."""
    names = _spoken(text) if says(cls, text) else ()
    return names is None or cls in names


@functools.lru_cache(maxsize=TEXTS)
def _spoken(text: str) -> frozenset[str] | None:
    """Return the names that the code of a file says, but for what annotates a parameter; None where
    it is no Python."""
    tree = parsed(text)
    if tree is None:
        return None
    nodes = walk(tree)
    annotations = {node.annotation for node in nodes if isinstance(node, ast.arg)}
    return frozenset(
        node.name if isinstance(node, ast.ClassDef) else last_name(node)
        for node in nodes
        if isinstance(node, (ast.ClassDef, ast.Name, ast.Attribute)) and node not in annotations
    )


def around(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """Yield what holds a node, from the inside."""
    while node in above:
        node = above[node]
        yield node
