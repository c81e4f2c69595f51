"""The line of a function that a call in a trace came from.

A Python frame in a trace names the first line of its function. Where the source has one place alone
that can have made the call, that is its line; else the function is all that is known.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

FRAME = re.compile(r"(.+)\((\d+)\): (.+)")
_MODULE = "<module>"
_BUILTIN = re.compile(r"<built-in (?:method|function) (\w+)(?: of .*)?>")
_UNSPOKEN = re.compile(r"__\w+__|<\w+>|forward|_call_impl|_wrapped_call_impl")
"""Names of functions that are called by other names: of a class, a module, an operator."""
_READS = frozenset({"item", "_local_scalar_dense", "is_nonzero"})
"""Operators that ``float(t)``, ``if t:`` and their like come down to."""
_READERS = frozenset({"float", "int", "bool", "complex", "item"})
_KNOWN = frozenset({"marked", "unique", "aligned"})
"""Certainties of sites whose line is known."""
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a program.

    Args:
        file: the name of the source, else the path that the trace has; empty for an operator.
        line: of the call, or the first one of the function; 0 where there is none.
        function: its name, or what was called where there are no frames.
        certainty: ``"marked"`` (the trace names the statement), ``"unique"`` (the one place in the
            function that makes this call), ``"function"`` (somewhere in it) or ``"call"`` (there
            are no frames).
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

    @cached_property
    def functions(self) -> Mapping[tuple[str, int], ast.AST]:
        """Functions and bodies of classes by name and first line, decorators included."""
        try:
            tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
        found: dict[tuple[str, int], ast.AST] = {(_MODULE, 1): tree}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                found[node.name, first] = node
        return found

    def function(self, name: str, first: int) -> ast.AST | None:
        """Return the function of a name and a first line; None where there is none. Lambdas and
        comprehensions have no name, and are not found."""
        # Python 3.10 counts a module from its first statement.
        return self.functions.get((name, 1 if name == _MODULE else first))

    def function_at(self, line: int) -> tuple[str, int] | None:
        """Return name and first line of the innermost function around a line; None where the text
        cannot be read."""
        around = [
            (first, name)
            for (name, first), node in self.functions.items()
            if isinstance(node, ast.Module)
            or first <= line <= (getattr(node, "end_lineno", None) or first)
        ]
        first, name = max(around, default=(0, ""))
        return (name, first) if name else None

    def line(self, function: str, first: int, called: str) -> int | None:
        """Return the line of the one place in a function that can have made a call.

        Returns:
            None where there is no such function; 0 where no place or several can have made it.
        """
        node = self.function(function, first)
        if node is None:  # lambdas and comprehensions are functions of no name
            return 0 if function.startswith("<") and function != _MODULE else None
        builtin = _BUILTIN.fullmatch(called)
        frame = FRAME.fullmatch(called)
        operator = called.partition("::")[2]
        name = builtin[1] if builtin else frame[3] if frame else operator.rstrip("_")
        if not name or _UNSPOKEN.fullmatch(name):
            return 0
        read = not builtin and not frame and operator in _READS
        lines = [line for line, made, reads in _places(node) if made == name or (read and reads)]
        return lines[0] if len(lines) == 1 else 0


def _places(function: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Yield for each place in a function that may call something its line, the name of what it
    calls, and whether it may read a tensor's value."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _INNER):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Call):
            func = node.func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            line = func.end_lineno if isinstance(func, ast.Attribute) else node.lineno
            yield line or node.lineno, name, name in _READERS
        elif isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp)):
            yield node.test.lineno, "", True
        elif isinstance(node, ast.BoolOp) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        ):
            yield node.lineno, "", True
        elif isinstance(node, ast.comprehension):
            yield from ((test.lineno, "", True) for test in node.ifs)


class Sources:
    """The files of a program, found by the paths that a trace has."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.by_name: dict[str, list[Source]] = {}
        for source in sources:
            self.by_name.setdefault(os.path.basename(source.path), []).append(source)

    def named(self, name: str) -> Source | None:
        """Return the file of a name, as the user should see it; None where there is none."""
        base = os.path.basename(name)
        return next((each for each in self.by_name.get(base, ()) if each.name == name), None)

    def of(self, path: str) -> Source | None:
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
