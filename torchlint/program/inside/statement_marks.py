"""Marks in a trace for the statements of the program's own files, put in as they are imported.

The profiler's stacks name functions by their first line; a mark names a statement. A file is
rewritten as a tree, so that lines, columns, names and source stay as they are::

    STATEMENT             with mark("tl#17"): STATEMENT
    if TEST:              if truth(begun("tl#18"), TEST):         and so `while`
    with EXPRESSION:      with value(begun("tl#19"), EXPRESSION):     and so `match`
    for x in ITERABLE:    for x in each("tl#20", value(begun("tl#20"), ITERABLE)):

Left alone: imports and definitions, what yields, awaits or binds by ``:=``, bodies of classes, and
statements that only move names. A function holds its body twice, as it was for ``torch.compile``
and with marks for everybody else: the compiler takes the one branch and never sees the other.

The helpers are builtins, so that no module has a name more than it defines.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.abc
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType
from typing import Any

from .imports import found_behind

PREFIX = "tl#"
"""How the name of a mark begins in a trace; its number follows."""
_MARK, _BEGUN, _VALUE, _TRUTH, _EACH, _COMPILING = (
    f"_torchlint_{name}" for name in ("mark", "begun", "value", "truth", "each", "compiling")
)
_INSTALLED = {"site-packages", "dist-packages"}
_BYTECODE = {"numba", "taichi", "warp"}
"""Packages that compile the bytecode of functions, wherever they get them: a file that imports one
is left alone."""
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert)
_IDLE = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)
"""Nodes that run nothing of anybody's."""
_SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_MADE: tuple[Iterable[object], ...] = (
    (),
    [],
    {},
    {}.values(),
    {}.items(),
    set(),
    "",
    b"",
    range(0),
)
_QUICK = tuple(type(iter(each)) for each in _MADE)
"""Iterators that nobody waits for: with a call of Python for each of a million numbers, the marks
would be what is measured."""

Row = tuple[str, int, int, str]
"""(file below the root, first line, last line, function) of a mark."""


class Marks:
    """The marks of one process: where they stand, by number.

    Args:
        root: the project's folder; its files alone are marked, save installed packages in it.
    """

    def __init__(self, root: str) -> None:
        self.roots = tuple({os.path.abspath(root) + os.sep, os.path.realpath(root) + os.sep})
        self.rows: list[Row] = []
        self.unmarked: list[str] = []
        """Files that could not be marked, with the reason."""

    def start(self) -> None:
        """Mark what is imported from now on; nobody sees the marks yet."""
        forget()
        _offer(_COMPILING, lambda: False)
        sys.meta_path.insert(0, _Marking(self))

    def below(self, path: str) -> str:
        """Return the path of one of the project's own files below its root; empty for others."""
        full = os.path.abspath(path)
        for root in self.roots:
            if full.startswith(root):
                parts = full[len(root) :].split(os.sep)
                return "" if not _INSTALLED.isdisjoint(parts) else "/".join(parts)
        return ""

    def code(self, source: bytes, path: str) -> CodeType | None:
        """Return the code of a file with marks; None where it cannot have any.

        Args:
            source: its text.
            path: its name in tracebacks.
        """
        before = len(self.rows)
        try:
            tree = ast.parse(source, path)
            if _compiles_bytecode(tree):
                return None
            _Rewriting(self.below(path), self.rows).module(tree)
            return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            del self.rows[before:]  # the file itself may be sound: too many blocks in each other
            self.unmarked.append(f"{self.below(path)}: {type(error).__name__}: {error}")
            return None


def _compiles_bytecode(tree: ast.Module) -> bool:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return any(name.partition(".")[0] in _BYTECODE for name in names)


class _Marking(importlib.abc.MetaPathFinder):
    """Gives the loaders of the project's own files code with marks."""

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = found_behind(self, name, path, target)
        loader = spec.loader if spec is not None else None
        # An attribute of the loader, so that its class, its source and its data stay its own.
        if type(loader) is SourceFileLoader and self.marks.below(loader.path):
            original = loader.get_code

            def get_code(fullname: str) -> CodeType | None:
                found = self.marks.code(loader.get_data(loader.path), loader.path)
                return found or original(fullname)

            loader.get_code = get_code  # type: ignore[method-assign]
        return spec


# What the marked code calls


class _Nothing:
    """A mark that nobody sees."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass


NOTHING = _Nothing()
_mark: Any = None


def _unseen(name: str) -> _Nothing:
    return NOTHING


def compiled_by(torch: Any) -> None:
    """Have functions ask torch whether they are being compiled; to be called once it has been
    imported."""
    compiler = getattr(torch, "compiler", None)
    asked = getattr(compiler, "is_dynamo_compiling", None)  # torch 2.3 and newer, and quicker
    _offer(_COMPILING, asked or getattr(compiler, "is_compiling", None) or (lambda: False))


def show() -> None:
    """Have torch's profiler see the marks of statements that begin from now on.

    A mark is a new object each time: one that is used again dies of an internal assertion where a
    statement calls itself. It dies too where it begins before the profiler does and ends after
    that, so this is to be called when the profiler runs.
    """
    from torch._C._profiler import _RecordFunctionFast

    use(_RecordFunctionFast)


def forget() -> None:
    """Have nobody see marks from now on."""
    use(_unseen)


def use(mark: Any) -> None:
    """Have marks made from now on by a function of their names, which returns a context."""
    global _mark
    _mark = mark
    _offer(_MARK, mark)
    for name, helper in ((_BEGUN, begun), (_VALUE, value), (_TRUTH, truth), (_EACH, each)):
        _offer(name, helper)


def _offer(name: str, helper: object) -> None:
    setattr(builtins, name, helper)


def begun(name: str) -> Any:
    """Begin a mark."""
    found = _mark(name)
    found.__enter__()
    return found  # where what follows raises, it goes, and the mark ends with it


def value(begun: Any, found: Any) -> Any:
    """End a mark whose value is there."""
    begun.__exit__(None, None, None)
    return found


def truth(begun: Any, found: Any) -> bool:
    """End a mark once its value has been tested, as that may read a tensor."""
    try:
        return True if found else False  # noqa: SIM210 - the test of an `if`, not of bool()
    finally:
        begun.__exit__(None, None, None)


def each(name: str, iterable: Any) -> Any:
    """Return the iterator of a loop, which marks its waits if there may be any."""
    with _mark(name):
        iterator = iter(iterable)
    return iterator if _is_quick(iterator) else Each(name, iterator)


class Each:
    """An iterator whose waits are marked."""

    __slots__ = ("iterator", "name")

    def __init__(self, name: str, iterator: Any) -> None:
        self.name = name
        self.iterator = iterator

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        with _mark(self.name):
            return next(self.iterator)


def _is_quick(iterator: Any) -> bool:
    kind = type(iterator)
    if kind is enumerate:
        return _is_quick(iterator.__reduce__()[1][0])
    if kind is zip:
        return all(_is_quick(each) for each in iterator.__reduce__()[1])
    return kind in _QUICK


# Rewriting


class _Rewriting:
    """Rewrites one file, and adds its marks to the rows of all."""

    def __init__(self, file: str, rows: list[Row]) -> None:
        self.file = file
        self.rows = rows
        self.function = "<module>"

    def module(self, tree: ast.Module) -> None:
        """Put marks into a file."""
        tree.body = self._body(tree.body)

    def _body(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return [self._statement(each) for each in body]

    def _statement(self, node: ast.stmt) -> ast.stmt:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._definition(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node.body)
        elif isinstance(node, (*_SIMPLE, ast.Delete)):
            local = self.function != "<module>"
            if isinstance(node, ast.AnnAssign) and (node.value is None or not local):
                return node  # a module's annotations are kept, so they stay where they are
            if _is_idle(node) or _suspends(node):
                return node
            mark = self._mark(node, node.end_lineno or node.lineno)
            item = ast.withitem(context_expr=_call(_MARK, mark), optional_vars=None)
            return ast.copy_location(ast.With(items=[item], body=[node]), node)
        else:
            self._head(node)
            # Mark the bodies of a compound statement.
            for name in ("body", "orelse", "finalbody"):
                if getattr(node, name, None):
                    setattr(node, name, self._body(getattr(node, name)))
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                part.body = self._body(part.body)
        return node

    def _head(self, node: ast.stmt) -> None:
        """Mark what a compound statement computes before its body."""
        if isinstance(node, (ast.If, ast.While)):
            node.test = self._marked(node, node.test, _TRUTH)
        elif isinstance(node, ast.With):
            for item in node.items:
                item.context_expr = self._marked(node, item.context_expr, _VALUE)
        elif isinstance(node, ast.Match):
            node.subject = self._marked(node, node.subject, _VALUE)
        elif isinstance(node, ast.For) and not _suspends(node.iter):
            mark = self._mark(node, node.iter.end_lineno or node.lineno)
            inner = node.iter
            if not _is_idle(inner):
                inner = _call(_VALUE, _call(_BEGUN, mark), inner)
            node.iter = ast.copy_location(_call(_EACH, mark, inner), node.iter)

    def _marked(self, node: ast.stmt, found: ast.expr, helper: str) -> ast.expr:
        # The test of a name may read a tensor's value; naming it does nothing.
        tells = helper == _TRUTH and not isinstance(found, ast.Constant)
        if (_is_idle(found) and not tells) or _suspends(found):
            return found
        mark = self._mark(node, found.end_lineno or node.lineno, found.lineno)
        return ast.copy_location(_call(helper, _call(_BEGUN, mark), found), found)

    def _class(self, body: Iterable[ast.AST]) -> None:
        """Mark the functions that a class defines, and nothing of what it does itself."""
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._definition(node)
            elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                self._class(ast.iter_child_nodes(node))

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        at = int(ast.get_docstring(node, clean=False) is not None)
        original = copy.deepcopy(node.body[at:])
        outer, self.function = self.function, node.name
        before = len(self.rows)
        marked = self._body(node.body[at:])
        self.function = outer
        if len(self.rows) == before:
            return
        scopes = [each for stmt in original for each in _scopes(stmt)]
        chosen = ast.If(test=_call(_COMPILING), body=_unscoped(original), orelse=_unscoped(marked))
        first = node.body[at]
        place = {"lineno": first.lineno, "col_offset": first.col_offset}
        for each in ast.walk(chosen.test):
            for key, value in place.items():
                setattr(each, key, value)
        for key, value in place.items():
            setattr(chosen, key, value)
        node.body = [*node.body[:at], *copy.deepcopy(scopes), chosen]

    def _mark(self, node: ast.stmt, last: int, first: int = 0) -> ast.expr:
        self.rows.append((self.file, first or node.lineno, last, self.function))
        return ast.Constant(f"{PREFIX}{len(self.rows) - 1}")


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _is_idle(node: ast.AST) -> bool:
    """Say whether a statement or expression only moves names and constants."""
    if isinstance(node, ast.Assign):
        return all(map(_is_idle, (*node.targets, node.value)))
    if isinstance(node, ast.AnnAssign):
        return node.value is None or (_is_idle(node.target) and _is_idle(node.value))
    if isinstance(node, (ast.Expr, ast.Return)):
        return node.value is None or _is_idle(node.value)
    if isinstance(node, ast.Raise):
        return node.exc is None
    if isinstance(node, ast.Delete):
        return all(map(_is_idle, node.targets))
    if isinstance(node, (ast.stmt, ast.expr)) and not isinstance(node, _IDLE):
        return False
    return all(isinstance(each, _IDLE) for each in ast.walk(node))


def _suspends(node: ast.AST) -> bool:
    return any(isinstance(each, _SUSPENDS) for each in ast.walk(node))


def _scopes(node: ast.AST) -> list[ast.stmt]:
    """Return the ``global`` and ``nonlocal`` lines of a function's own."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return [node]
    if isinstance(node, _DEFINES):
        return []
    return [each for child in ast.iter_child_nodes(node) for each in _scopes(child)]


class _Unscoped(ast.NodeTransformer):
    """Takes out ``global`` and ``nonlocal`` lines, which may not stand behind a use."""

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, _DEFINES) else super().visit(node)


def _unscoped(body: list[ast.stmt]) -> list[ast.stmt]:
    return [_Unscoped().visit(each) for each in body]
