"""Whether a file may read or replace a name of another file's module: by import, by attribute, or
by a string."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchlint.source.python import parsed

MINE, OTHERS, OUTSIDE = "mine", "others", "outside"
"""Where the name of a module leads: to the file asked about, to another one of the project, or out
of it."""

_AT_RUN_TIME = frozenset(
    (
        "import_module __import__ exec eval runpy run_path run_module modules "
        "spec_from_file_location "
        "SourceFileLoader import_string locate import_from_string resolve_name"
    ).split()
)
"""Functions that import what no import statement names."""
_WHOLE = frozenset(("vars", "dir", "__dict__", "getmembers"))
"""What gives all names of a module at once."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The name that is asked about.

    Args:
        name: the name in its module.
        leads: says where the dotted name of a module in an import statement leads.
    """

    name: str
    leads: Callable[[str], str]


def stem_of(path: str) -> str:
    """Return the last part of the name of a file's module."""
    return os.path.basename(
        os.path.dirname(path) if path.endswith("__init__.py") else path
    ).removesuffix(".py")


def reaches(text: str, aim: Aim) -> bool:
    """Say whether a file's code may read or replace the name; a text that Python does not accept
    may."""
    tree = parsed(text)
    if tree is None:
        return True
    nodes = list(ast.walk(tree))
    roots: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for local, where in _imported(node, aim):
                if not local:
                    return True
                roots[local] = MINE if MINE in (where, roots.get(local)) else where
    spelled = {node.id for node in nodes if isinstance(node, ast.Name)}
    spelled |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    free = bool(spelled & _AT_RUN_TIME)
    if MINE in roots.values() and (spelled & _WHOLE or any(map(_computed, nodes))):
        return True
    return any(_leads_there(node, aim, roots, free) for node in nodes)


def _imported(node: ast.Import | ast.ImportFrom, aim: Aim) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds with where they lead; an empty one where it takes the
    name itself."""
    if isinstance(node, ast.Import):
        for item in node.names:
            yield item.asname or item.name.partition(".")[0], aim.leads(item.name)
        return
    base = "." * node.level + (node.module or "")
    where = aim.leads(base)
    for item in node.names:
        if where == MINE and item.name in ("*", aim.name):
            yield "", MINE
        below = aim.leads(f"{base}{item.name}" if base.endswith(".") else f"{base}.{item.name}")
        # What is defined in the module is not the module.
        yield item.asname or item.name, below if below == MINE or where == OUTSIDE else OTHERS


def _computed(node: ast.AST) -> bool:
    """Say whether a node is a ``getattr`` of a name that is not written out."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "setattr", "delattr")
        and not (len(node.args) > 1 and isinstance(node.args[1], ast.Constant))
    )


def _leads_there(node: ast.AST, aim: Aim, roots: dict[str, str], free: bool) -> bool:
    near = free or MINE in roots.values()
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        # A target of mock.patch, the name for getattr or setattr.
        return node.value.endswith((f".{aim.name}", f":{aim.name}")) or (
            near and node.value == aim.name
        )
    if not isinstance(node, ast.Attribute) or node.attr != aim.name:
        return False
    root: ast.expr = node.value
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and root.id in roots:
        return roots[root.id] != OUTSIDE
    return near
