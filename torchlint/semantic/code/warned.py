"""Branches that only say what went wrong: ``if d.min() < low: warnings.warn(f"{d.min()}")``."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.semantic.code.conditions import LEAVING
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.tree import last_name

_WARNS = ("warn", "warning", "error", "critical", "exception")
_NAMED = tuple(f".{word}" for word in _WARNS)


def only_warns(names: Names, branch: Sequence[cst.CSTNode]) -> bool:
    """Say whether a branch ends in a warning, perhaps behind what works out its text, choices of
    words included, and does nothing else."""
    parts = [
        each
        for line in branch
        for each in (line.body if isinstance(line, cst.SimpleStatementLine) else (line,))
    ]
    while parts and isinstance(parts[-1], LEAVING):
        parts.pop()
    match parts[-1:]:
        case [cst.Expr(cst.Call() as call)] if is_warning(names, call):
            return all(map(_works_out, parts))
    return False


def _works_out(part: cst.CSTNode) -> bool:
    match part:
        case cst.If(body=body, orelse=None):
            return all(map(_works_out, body.body))
        case cst.SimpleStatementLine(body=body):
            return all(map(_works_out, body))
    return isinstance(part, (cst.Assign, cst.Expr))


def is_warning(names: Names, call: cst.Call) -> bool:
    """Say whether a call warns: of Python's `warnings` or `logging`, or of a logger by its name."""
    name = names.name(call.func)
    if last_name(call.func) not in _WARNS or name is not None:
        return (name or "").endswith(_NAMED)
    return (
        isinstance(call.func, cst.Attribute)
        and "log" in (dotted_text(call.func.value) or "").lower()
    )
