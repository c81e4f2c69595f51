"""The waits that a file's contract lists: by comments, and by entries of the configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.base.contract import Allowed, Contract
from torchlint.base.records import frozen
from torchlint.source.pragma import ALLOW_WAIT
from torchlint.source.python import parsed
from torchlint.source.suppress import Suppressions


@frozen
class Listed:
    """A statement of which a wait is listed: its rows, who answers for it, and why."""

    first: int
    last: int
    owner: str
    reason: str


def listed(text: str, path: str, contract: Contract) -> tuple[Listed, ...]:
    """Return all that a file lists."""
    entries = ((each, rows) for each in entries_for(path, contract) for rows in rows_of(text, each))
    return (
        *(_comments_of(text) if ALLOW_WAIT in text.lower() else ()),
        *(Listed(*rows, each.owner, each.reason) for each, rows in entries),
    )


def _comments_of(text: str) -> tuple[Listed, ...]:
    """Return what comments list."""
    return tuple(
        Listed(
            each.comment.first,
            each.comment.last,
            each.owner,
            each.reason,
        )
        for each in Suppressions.parse(text).pragmas
        if each.verb == ALLOW_WAIT and not each.problem
    )


def entries_for(path: str, contract: Contract) -> tuple[Allowed, ...]:
    """Return the entries of the configuration that are about a file, by its path under the
    project's root."""
    return tuple(each for each in contract.allow if each.at.rpartition(":")[0] == path)


def rows_of(text: str, entry: Allowed) -> Iterator[tuple[int, int]]:
    """Yield the first and the last row of each statement that an entry means; of a compound one,
    of its header."""
    tree = parsed(text)
    if tree is None:
        return
    wanted, part = entry.at.rpartition(":")[2], " ".join(entry.line.split())
    lines = text.split("\n")
    for name, statement in _statements(tree, ""):
        last = _last_row(statement)
        said = " ".join(" ".join(lines[statement.lineno - 1 : last]).split())
        if name == wanted and part in said:
            yield statement.lineno, last


def _statements(node: ast.AST, name: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield all statements below a node, each with the qualified name of its function."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}".lstrip(".")
        elif isinstance(child, ast.stmt):
            yield name, child
        yield from _statements(child, inner)


def _last_row(statement: ast.stmt) -> int:
    body: list[ast.stmt] | None = getattr(statement, "body", None)
    if body:
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno
