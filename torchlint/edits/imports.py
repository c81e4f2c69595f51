"""Where a fix's import goes, if it needs one at all."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.span import Span
from torchlint.edits.splice import EditContext, Splice, WithheldError
from torchlint.fixes.fix import NeedImport
from torchlint.source.python import children, parsed

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Binder = tuple[ast.AST, ast.AST | None, bool]
"""A node that binds names, the function around it, and whether it stands at the file's top
level."""
_BINDING = frozenset(
    "Import ImportFrom Global arg FunctionDef AsyncFunctionDef ClassDef ExceptHandler MatchAs "
    "MatchStar MatchMapping TypeVar TypeVarTuple".split()
)
"""The nodes that bind a name, but for names themselves, or declare one global."""
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@frozen
class _Binding:
    """One place that binds the name: `same` if to the wanted module, `full` if that also imports
    it."""

    row: int
    function: ast.AST | None
    top: bool = False
    same: bool = False
    full: bool = False
    star: bool = False


def import_splices(
    need: NeedImport, context: EditContext, places: Collection[int]
) -> Iterator[Splice]:
    """Yield the splice that brings the import into effect for code at the offsets `places`.

    Nothing is yielded where the module already binds it.

    Raises:
        WithheldError: the name means something else where it is needed, or might.
    """
    name = need.alias or need.module.partition(".")[0]
    if not places:
        raise WithheldError(f"the import of {need.module} has no use")
    rows = [context.index.position(place).row for place in places]
    if need not in context.imports:
        if not context.binders:
            context.binders.extend(_binders(_tree(context)))
        context.imports[need] = [
            found for each in context.binders for found in _bindings(each, need, name)
        ]
    bound: list[_Binding] = context.imports[need]
    given = max(
        (found.row for found in bound if found.full and found.top and found.row < min(rows)),
        default=0,
    )
    globally = any(found.row < 0 for found in bound)
    for found in bound:
        if found.row < 0 or (found.same and found.top):
            continue
        if found.star and (found.row < given or _still_read(need, found, bound, context)):
            continue
        if globally or _matters(found, rows):
            raise WithheldError(
                f"{name!r} is or may be bound to something else in line {found.row}"
            )
    if not given:
        yield _insertion(need, context, min(places))


def _still_read(
    need: NeedImport, star: _Binding, bound: list[_Binding], context: EditContext
) -> bool:
    """Say whether a star import leaves a package's own name as it was: the file imports the package
    above it, and goes on to read its attributes below."""
    if need.alias not in (None, need.module) or "." in need.module:
        return False
    if not any(each.full and each.top and each.row < star.row for each in bound):
        return False
    if not context.reads:
        context.reads.update(_reads(_tree(context)))
    return context.reads.get(need.module, 0) > star.row


def _tree(context: EditContext) -> ast.Module:
    """Return CPython's tree of a file.

    Raises:
        WithheldError: this Python does not read it.
    """
    python = context.python or parsed(context.text)
    if python is None:
        raise WithheldError("this Python cannot tell which names the file binds")
    return python


def _matters(found: _Binding, rows: list[int]) -> bool:
    """Say whether a binding is seen from one of `rows`: it is global, or local to the function
    there."""
    function = found.function
    if function is None:
        return True
    first, last = getattr(function, "lineno", 0), getattr(function, "end_lineno", 0)
    return any(first <= row <= last for row in rows)


def _binders(module: ast.Module) -> Iterator[_Binder]:
    """Yield all nodes of the module that bind a name or declare one global."""
    pending: list[tuple[ast.AST, ast.AST | None, ast.AST]] = [
        (statement, None, module) for statement in module.body if not _is_type_checking(statement)
    ]
    while pending:
        node, function, above = pending.pop()
        if type(node) is ast.Constant:  # with names half of all nodes, and nothing below
            continue
        if type(node) is ast.Name:
            if type(node.ctx) is not ast.Load:
                yield node, function, above is module
            continue
        if type(node).__name__ in _BINDING:
            yield node, function, above is module
        inner = node if type(node) in _FUNCTIONS else function
        pending += [(each, inner, node) for each in children(node)]


def _reads(module: ast.Module) -> dict[str, int]:
    """Return the last row in which an attribute of each name is read; functions run last."""
    rows: dict[str, int] = {}
    pending: list[tuple[ast.AST, bool]] = [(module, False)]
    while pending:
        node, late = pending.pop()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            row = sys.maxsize if late else node.lineno
            rows[node.value.id] = max(row, rows.get(node.value.id, 0))
        late = late or isinstance(node, _FUNCTIONS)
        pending.extend((child, late) for child in ast.iter_child_nodes(node))
    return rows


def _bindings(binder: _Binder, need: NeedImport, name: str) -> Iterator[_Binding]:
    """Yield how a node binds `name`, if it does; a ``global`` statement for it gives row -1."""
    node, function, top = binder
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _imported(node, need, name, function, top)
    elif isinstance(node, ast.Global):
        if name in node.names:
            yield _Binding(-1, None)
    elif name in _bound_names(node):
        yield _Binding(getattr(node, "lineno", 0), function)


def _bound_names(node: ast.AST) -> set[object]:
    """Return the names that a node other than an import binds."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.arg):
        return {node.arg}
    if (
        isinstance(node, (*_NAMED, ast.ExceptHandler, ast.MatchAs, ast.MatchStar))
        or "TypeVar" in type(node).__name__
    ):
        return {getattr(node, "name", None)}
    return {node.rest} if isinstance(node, ast.MatchMapping) else set()


def _imported(
    node: ast.Import | ast.ImportFrom,
    need: NeedImport,
    name: str,
    function: ast.AST | None,
    top: bool,
) -> Iterator[_Binding]:
    for alias in node.names:
        if alias.name == "*":
            yield _Binding(node.lineno, function, star=True)
        elif isinstance(node, ast.ImportFrom):
            if (alias.asname or alias.name) == name:
                same = (
                    node.level == 0
                    and f"{node.module}.{alias.name}" == need.module
                    and bool(need.alias)
                )
                yield _Binding(node.lineno, function, top, same, same)
        elif alias.asname == name:
            same = alias.name == need.module and name == (need.alias or need.module)
            yield _Binding(node.lineno, function, top, same, same)
        elif alias.asname is None and alias.name.partition(".")[0] == name:
            same = need.alias is None or need.module == name
            full = same and f"{alias.name}.".startswith(f"{need.module}.")
            yield _Binding(node.lineno, function, top, same, full)


def _is_type_checking(node: ast.AST) -> bool:
    """Say whether this is ``if TYPE_CHECKING:`` without an else, which binds nothing when the file
    runs."""
    if not isinstance(node, ast.If) or node.orelse:
        return False
    test = node.test
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def _insertion(need: NeedImport, context: EditContext, first: int) -> Splice:
    """Return the splice that writes the import behind the file's import block, which ends before
    `first`."""
    code = f"import {need.module}" + (
        f" as {need.alias}" if need.alias not in (None, need.module) else ""
    )
    anchor = _last_import(context, first)
    if anchor is not None:
        end = context.after_line(anchor)
        return Splice(Span(end, end), context.newline(end) + code)
    top = context.tree.body[0]
    if (
        isinstance(top, cst.SimpleStatementLine)
        and context.tree.get_docstring(clean=False) is not None
    ):
        end = context.after_line(top)
        return Splice(Span(end, end), 2 * context.newline(end) + code)
    start = context.line_start(context.span(top).start)
    return Splice(Span(start, start), code + context.newline(start))


def _last_import(context: EditContext, first: int) -> cst.SimpleStatementLine | None:
    """Return the last import line of the module before `first` and before any definition or
    loop."""
    anchor = None
    for statement in context.tree.body:
        if context.span(statement).end > first:
            break
        if isinstance(statement, cst.SimpleStatementLine):
            if all(isinstance(small, cst.Import | cst.ImportFrom) for small in statement.body):
                anchor = statement
        elif not isinstance(statement, cst.If | cst.Try):
            break
    return anchor
