"""The line of a function that a call in a trace came from.

A Python frame in a trace names the first line of its function. Where the source has one place alone
that can have made the call, that is its line; where several can, their order tells which probably
did; else the function is all that is known.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from torchlint.base.records import frozen
from torchlint.profile.callsites import COMPREHENSIONS, Body, Scope, body, kept_classes, last_name

FRAME = re.compile(r"(.+)\((\d+)\): (.+)")
_MODULE = "<module>"
_KNOWN = frozenset({"marked", "unique", "aligned"})
"""Certainties of sites whose line is known."""
_MARKED = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
_UNMARKED = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
_INNER = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


@frozen
class Site:
    """A place in a program.

    Args:
        file: the name of the source, else the path that the trace has; empty for an operator.
        line: of the call, or the first one of the function; 0 where there is none.
        function: its name, or what was called where there are no frames.
        certainty: ``"marked"`` (the trace names the statement), ``"unique"`` (the one place in the
            function that makes this call), ``"aligned"`` (several can, and this one fits their
            order), ``"function"`` (somewhere in it) or ``"call"`` (there are no frames).
        differs: whether there is a source, and no such function in it.
    """

    file: str
    line: int
    function: str
    certainty: str
    differs: bool = False

    @property
    def has_line(self) -> bool:
        """Whether the line is that of a call, and not of a function's beginning."""
        return self.certainty in _KNOWN


class Source:
    """A file of the program: its real path, its name as the user should see it, and its text."""

    def __init__(self, path: str, name: str, text: str) -> None:
        self.path = path
        self.name = name
        self.text = text
        self._kept: dict[ast.ClassDef | None, Mapping[str, frozenset[str]]] = {}

    @cached_property
    def _tree(self) -> ast.Module | None:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def _functions(self) -> Mapping[tuple[str, int], Sequence[_Function]]:
        """Functions, bodies of classes, lambdas and comprehensions by name and first line,
        decorators included."""
        found: dict[tuple[str, int], list[_Function]] = {}
        if self._tree is not None:
            found[_MODULE, 1] = [_Function(self._tree, None, nested=False)]
            for function in _walked(self._tree):
                found.setdefault(_named(function.node), []).append(function)
        return found

    def _found(self, name: str, first: int) -> Sequence[_Function]:
        # Python 3.10 counts a module from its first statement.
        return self._functions.get((name, 1 if name == _MODULE else first), ())

    def function_at(self, line: int) -> tuple[str, int] | None:
        """Return name and first line of the innermost function around a line; None where the text
        cannot be read."""
        around = [
            (first, name)
            for (name, first), found in self._functions.items()
            for each in found
            if isinstance(each.node, ast.Module)
            or (
                isinstance(each.node, ast.stmt) and first <= line <= (each.node.end_lineno or first)
            )
        ]
        first, name = max(around, default=(0, ""))
        return (name, first) if name else None

    def marked(self, line: int) -> bool:
        """Say whether a statement begins in a line that is certain to have a mark of its own in a
        trace that torchlint recorded, wherever it runs: one that calls something, and neither
        suspends its function nor binds a name in an expression."""
        found = [
            node
            for node in ast.walk(self._tree or ast.Module([], []))
            if isinstance(node, _MARKED) and node.lineno == line
        ]
        inside = [part for node in found for part in ast.walk(node)]
        calls = any(isinstance(part, ast.Call) for part in inside)
        return calls and not any(isinstance(part, _UNMARKED) for part in inside)

    def holds(self, name: str, first: int) -> bool:
        """Say whether there is a function of a name and a first line."""
        return bool(self._found(name, first))

    def body(self, name: str, first: int, *, inline: bool) -> Body | None:
        """Return the call sites of a function; None where there is none, or where several lambdas
        or comprehensions begin in one line.

        Args:
            name: of the function.
            first: its first line.
            inline: whether comprehensions run in the function itself.
        """
        found = self._found(name, first)
        if len(found) != 1:
            return None
        owner = found[0].owner
        if owner not in self._kept:
            self._kept[owner] = {} if owner is None else kept_classes(owner)
        attributes = self._kept[owner]
        return body(found[0].node, Scope(attributes, self._aliases, self._names_of_file, inline))

    def owner(self, name: str, first: int) -> str:
        """Return the class that a method is of; empty where it is of none."""
        owners = [each.owner for each in self._found(name, first)]
        return owners[0].name if len(owners) == 1 and owners[0] is not None else ""

    def nested(self, name: str, first: int) -> bool:
        """Say whether a function stands in another one, as wrappers do."""
        return any(each.nested for each in self._found(name, first))

    def between(self, first: int, behind: int) -> bool:
        """Say whether another function begins between the end of the one that begins in a line, and
        a line after it."""
        ends = [
            each.node.end_lineno or 0
            for (_, line), found in self._functions.items()
            for each in found
            if line == first and isinstance(each.node, (ast.stmt, ast.expr))
        ]
        end = max(ends, default=behind)
        return any(end < line < behind for _, line in self._functions)

    def one_line(self, name: str, first: int) -> bool:
        """Say whether a function is a lambda or a comprehension in one line."""
        found = [each.node for each in self._found(name, first)]
        return bool(found) and all(
            isinstance(node, ast.expr) and node.end_lineno == node.lineno for node in found
        )

    def generates(self, name: str, first: int) -> bool:
        """Say whether a function is a generator."""
        return any(_yields(each.node) for each in self._found(name, first))

    @cached_property
    def bases(self) -> Mapping[str, frozenset[str]]:
        """The names of each class's bases."""
        tree = self._tree or ast.Module([], [])
        return {
            node.name: frozenset(filter(None, map(last_name, node.bases)))
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        """What is imported under another name, by that name."""
        return {
            alias.asname: alias.name.rpartition(".")[2]
            for node in ast.walk(self._tree or ast.Module([], []))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
            if alias.asname
        }

    @cached_property
    def _names_of_file(self) -> frozenset[str]:
        """Names of functions and classes of the file, and of what it imports."""
        found = set(dir(builtins))
        for node in ast.walk(self._tree or ast.Module([], [])):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = (alias.asname or alias.name.partition(".")[0] for alias in node.names)
                found.update(names)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
        return frozenset(found)


@frozen
class _Function:
    """A function with the class whose method it is, and whether it stands in another function."""

    node: ast.AST
    owner: ast.ClassDef | None
    nested: bool


def _walked(node: ast.AST) -> Iterator[_Function]:
    """Yield all functions below a node; comprehensions and lambdas are of their method's class."""
    waiting: list[tuple[ast.AST, ast.ClassDef | None, bool]] = [(node, None, False)]
    while waiting:
        outer, owner, nested = waiting.pop()
        for inner in ast.iter_child_nodes(outer):
            if isinstance(inner, _INNER):
                yield _Function(inner, owner, nested)
            if isinstance(inner, ast.ClassDef):
                waiting.append((inner, inner, nested))
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                waiting.append((inner, owner, True))
            else:
                waiting.append((inner, owner, nested))


def _named(node: ast.AST) -> tuple[str, int]:
    """Return what a trace calls a function, and its first line."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])
    assert isinstance(node, ast.expr)
    return COMPREHENSIONS.get(type(node), "<lambda>"), node.lineno


def _yields(function: ast.AST) -> bool:
    """Say whether a function itself yields."""
    if isinstance(function, ast.GeneratorExp):
        return True
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, _INNER):
            waiting += ast.iter_child_nodes(node)
    return False


class Sources:
    """The files of a program, found by the paths that a trace has."""

    def __init__(self, sources: Iterable[Source], moved: Sequence[tuple[str, str]] = ()) -> None:
        """Take up files.

        Args:
            sources: the files.
            moved: folders, and files, as a trace has them and where they lie here; what lies there
                is read when the trace names it.
        """
        self.by_name: dict[str, list[Source]] = {}
        self._moved = [(old.replace("\\", "/").rstrip("/"), new) for old, new in moved]
        for source in sources:
            self.by_name.setdefault(os.path.basename(source.path), []).append(source)
        self._of: dict[str, Source | None] = {}

    def heirs(self, name: str) -> frozenset[str]:
        """Return the names of a class and of all that inherit from it."""
        return self._heirs.get(name, frozenset({name}))

    @cached_property
    def _heirs(self) -> Mapping[str, frozenset[str]]:
        direct: dict[str, set[str]] = {}
        for sources in self.by_name.values():
            for source in sources:
                for name, bases in source.bases.items():
                    for base in bases:
                        direct.setdefault(base, set()).add(name)
        found = {}
        for name in direct:
            seen, waiting = {name}, [name]
            while waiting:
                new = direct.get(waiting.pop(), set()) - seen
                seen |= new
                waiting += new
            found[name] = frozenset(seen)
        return found

    def named(self, name: str) -> Source | None:
        """Return the file of a name, as the user should see it; None where there is none."""
        base = os.path.basename(name)
        return next((each for each in self.by_name.get(base, ()) if each.name == name), None)

    def of(self, path: str) -> Source | None:
        """Return the file that a trace means, None where none or several may be it."""
        if path not in self._of:
            self._of[path] = self._elsewhere(path.replace("\\", "/")) or self._meant(path)
        return self._of[path]

    def _elsewhere(self, path: str) -> Source | None:
        """Return the file that lies where a folder was moved to; None where there is none."""
        for old, new in self._moved:
            if path != old and not path.startswith(f"{old}/"):
                continue
            name = os.path.normpath(os.path.join(new, path[len(old) + 1 :]) if path != old else new)
            real, top = os.path.realpath(name), os.path.realpath(new)
            if real != top and not real.startswith(os.path.join(top, "")):
                continue
            for source in self.by_name.get(os.path.basename(real), ()):
                if os.path.realpath(source.path) == real:
                    return source
            try:
                return Source(real, name, Path(real).read_text("utf-8", "replace"))
            except OSError:
                continue
        return None

    def _meant(self, path: str) -> Source | None:
        """Return the file that a trace means: that which has most of the path's last parts; None
        where none or several do.

        A path of a trace is absolute, or begins below a folder that Python searches.
        """
        path = path.replace("\\", "/")
        if "-packages/" in path:  # of what is installed there no two files have one path
            path = path.rpartition("-packages/")[2]
        parts = path.split("/")
        scored = [
            (_common(parts, source.path.replace(os.sep, "/").split("/")), source)
            for source in self.by_name.get(parts[-1], ())
        ]
        most = max((score for score, _ in scored), default=0)
        best = [source for score, source in scored if score == most]
        short = not path.startswith("/") and most < len(parts)
        return best[0] if len(best) == 1 and not short else None


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count
