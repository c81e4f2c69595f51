"""CPython's own tree of a source text."""

from __future__ import annotations

import ast
import bisect
import functools
import itertools
import re
import warnings
from collections.abc import Iterator

from torchlint.base.span import LineIndex

DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
"""The nodes of functions with a name."""
_PLAIN = frozenset(
    "ctx op ops id attr arg kind type_comment level module conversion simple is_async asname rest "
    "type_ignores kwd_attrs".split()
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


_KEPT = 800_000
"""Characters of source whose trees are remembered, which take some 50 bytes for each."""
_trees: dict[str, ast.Module] = {}


def read(text: str, *, keep: bool = True) -> ast.Module:
    """Return CPython's tree of a text, without its warnings. That of a text which was read a short
    while ago is the same one: nobody may change it. Where it is not to `keep`, it is forgotten.

    Raises:
        SyntaxError, ValueError, MemoryError, RecursionError: as of `ast.parse`.
    """
    if text in _trees:
        _trees[text] = found = _trees.pop(text)
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ast.parse(text)
    if not keep:
        return found
    _trees[text] = found
    total = sum(map(len, _trees))
    while total > _KEPT and len(_trees) > 1:
        oldest = next(iter(_trees))
        del _trees[oldest]
        total -= len(oldest)
    return found


def parsed(text: str, *, keep: bool = True) -> ast.Module | None:
    """Return CPython's tree of a text as `read` does; None where it does not accept the text."""
    try:
        return read(text, keep=keep)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


_WORK = (ast.For, ast.While, ast.With)


def needs(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what a file imports in any case before it does any work, a loop or a block: modules,
    relative ones with dots before them, each with the names that are taken from it."""
    for node in itertools.takewhile(lambda each: not isinstance(each, _WORK), tree.body):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), tuple(each.name for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, ()) for each in node.names)


class _Fields(dict[type, tuple[str, ...]]):
    """By type of node the fields that may hold other nodes, or lists of them."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = self[kind] = tuple(name for name in kind._fields if name not in _PLAIN)
        return found


BELOW = _Fields({ast.Global: (), ast.Nonlocal: ()})
LEAVES = frozenset((ast.Name, ast.Constant))
"""Half of all nodes, with nothing below them."""
_NODES = frozenset(each for each in vars(ast).values() if type(each) is type)


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below one, as `ast.iter_child_nodes` does in three times the time, but
    for some that have nothing below them: operators and contexts."""
    found: list[ast.AST] = []
    for value in map(node.__getattribute__, BELOW[type(node)]):
        if type(value) is list:
            found += value if None not in value else filter(None, value)
        elif type(value) in _NODES:
            found.append(value)
    return found


@functools.lru_cache(8)
def parents(tree: ast.Module) -> dict[ast.AST, ast.AST]:
    """Return the node above each node of a tree but for those that `children` leaves out, in the
    order of `walk`."""
    found: dict[ast.AST, ast.AST] = {}
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        if type(node) not in LEAVES:
            below = children(node)
            found.update(dict.fromkeys(below, node))
            nodes += below
    return found


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return a node and all below it in the order of `ast.walk`, but for those that `children`
    leaves out."""
    found = [tree]
    for node in found:
        if type(node) not in LEAVES:
            found += children(node)
    return found


def around(tree: ast.Module, text: str, word: str) -> list[ast.AST]:
    """Return the nodes of a text's tree as `walk` does, but for the statements that do not hold a
    word: few of a long file do."""
    index = LineIndex(text)
    rows = [index.position(each.start()).row for each in re.finditer(re.escape(word), text)]
    found: list[ast.AST] = [tree]
    for node in found:
        if type(node) not in LEAVES:
            found += [each for each in children(node) if _is_in(each, rows)]
    return found


def _is_in(node: ast.AST, rows: list[int]) -> bool:
    if not isinstance(node, ast.stmt):
        return True
    first = min((node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))))
    return bisect.bisect_left(rows, first) < bisect.bisect_right(rows, node.end_lineno or first)


def problem(
    takes: ast.arguments, skipped: int, places: int, keywords: list[str], *, open_ended: bool
) -> str | None:
    """Return how arguments do not fit parameters, None where they do, or may.

    Args:
        takes: the parameters.
        skipped: how many of the first are given by the language.
        places: how many arguments are given by place.
        keywords: those that are given by name.
        open_ended: whether there may be more.
    """
    first = [each.arg for each in (*takes.posonlyargs, *takes.args)]
    named = {each.arg for each in (*takes.args, *takes.kwonlyargs)}
    unknown = [each for each in keywords if each not in named]
    if len(first) < skipped:
        return None
    if unknown and takes.kwarg is None:
        return f"gives `{unknown[0]}`, which is no parameter"
    if places + skipped > len(first) and takes.vararg is None:
        return f"gives {places} arguments by place, where {len(first) - skipped} are taken"
    if open_ended:
        return None
    needed = first[skipped + places : len(first) - len(takes.defaults)]
    pairs = zip(takes.kwonlyargs, takes.kw_defaults, strict=True)
    needed += [each.arg for each, default in pairs if default is None]
    lacking = [each for each in needed if each not in keywords]
    return f"leaves out `{lacking[0]}`" if lacking else None
