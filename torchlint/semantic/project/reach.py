"""Whether a file may read or replace a name of another file's module: by import, by attribute, or
by a string."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.source.python import parsed, walk

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
_LAST_NAME = regex(r"[.:](\w+)\Z")
"""The name at the end of a target of ``mock.patch`` or of an entry point."""


@frozen
class Aim:
    """The name that is asked about.

    Args:
        name: the name in its module.
        leads: says where the dotted name of a module in an import statement leads.
    """

    name: str
    leads: Callable[[str], str]


@lru_cache(20_000)
def stem_of(path: str) -> str:
    """Return the last part of the name of a file's module."""
    return os.path.basename(
        os.path.dirname(path) if path.endswith("__init__.py") else path
    ).removesuffix(".py")


@frozen
class Reach:
    """What of a file's code decides which names of other modules it may read or replace.

    Args:
        imports: the import statements.
        free: whether a call may import what no import statement names.
        whole: whether a module's names may be taken all at once, or by a name that is computed.
        strings: the strings that are a name.
        ends: the names at the end of the other strings.
        attributes: by attribute the names that it is read from, through any number of attributes;
            None stands for what is no name.
    """

    imports: tuple[ast.Import | ast.ImportFrom, ...]
    free: bool
    whole: bool
    strings: frozenset[str]
    ends: frozenset[str]
    attributes: Mapping[str, set[str | None]]

    def reaches(self, aim: Aim) -> bool:
        """Say whether the code may read or replace the name."""
        roots: dict[str, str] = {}
        for node in self.imports:
            for local, where in _imported(node, aim):
                if not local:
                    return True
                roots[local] = MINE if MINE in (where, roots.get(local)) else where
        mine = MINE in roots.values()
        if mine and self.whole:
            return True
        near = self.free or mine
        if aim.name in self.ends or (near and aim.name in self.strings):
            return True
        return any(
            roots[root] != OUTSIDE if root in roots else near
            for root in self.attributes.get(aim.name, ())
        )


@lru_cache(1)
def reach(text: str) -> Reach | None:
    """Return what a file's code reaches; None where it cannot be parsed."""
    tree = parsed(text)
    return _reach(tree) if tree is not None else None


def _reach(tree: ast.Module) -> Reach:
    imports: list[ast.Import | ast.ImportFrom] = []
    strings: set[str] = set()
    ends: set[str] = set()
    attributes: defaultdict[str, set[str | None]] = defaultdict(set)
    names: set[str] = set()
    computed = False
    for node in walk(tree):
        if type(node) is ast.Name:
            names.add(node.id)
        elif type(node) is ast.Attribute:
            root: ast.expr = node.value
            while type(root) is ast.Attribute:
                root = root.value
            attributes[node.attr].add(root.id if isinstance(root, ast.Name) else None)
        elif type(node) is ast.Constant:
            if isinstance(node.value, str):
                end = _LAST_NAME.search(node.value)
                if end is not None:
                    ends.add(end[1])
                else:
                    strings.add(node.value)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif type(node) is ast.Call:
            computed = computed or _is_computed(node)
    names |= attributes.keys()
    return Reach(
        tuple(imports),
        not names.isdisjoint(_AT_RUN_TIME),
        computed or not names.isdisjoint(_WHOLE),
        frozenset(strings),
        frozenset(ends),
        attributes,
    )


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


def _is_computed(node: ast.Call) -> bool:
    """Say whether a call is a ``getattr`` of a name that is not written out."""
    return (
        isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "setattr", "delattr")
        and not (len(node.args) > 1 and isinstance(node.args[1], ast.Constant))
    )
