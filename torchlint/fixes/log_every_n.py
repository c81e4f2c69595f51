"""Lines that log in each step, and do so every N steps then."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from torchlint.fixes.expressions import number_of, swapped
from torchlint.fixes.fix import Append, NodeEdit, Prepend, Remove, Replace
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.data.per_step_use import LogLines, log_lines
from torchlint.semantic.module import Module


def logged_every(
    count: int,
    found: LogLines,
    replaced: Mapping[cst.CSTNode, cst.CSTNode] | None = None,
    before: str = "",
) -> tuple[NodeEdit, ...]:
    """Return the edits by which lines that only log do so every `count` steps and in the last one,
    with the code `before` ahead of them; the loop is made to count its steps where it does not.
    `replaced` says what is replaced inside the lines."""
    lines = [swapped(line, replaced or {}) for line in found.lines]
    # What stands behind the first line stays there, which then is the block's end.
    first = lines[0].with_changes(leading_lines=[], trailing_whitespace=cst.TrailingWhitespace())
    last = f" or {found.last}" if found.last is not None else ""
    test = cst.parse_expression(f"{found.counter} % {count} == 0{last}")
    block = found.loop.body
    indent = block.indent if isinstance(block, cst.IndentedBlock) else None
    body = cst.IndentedBlock([*cst.parse_module(before).body, first, *lines[1:]], indent=indent)
    guarded = cst.If(test, body, leading_lines=found.lines[0].leading_lines)
    return (
        *(() if found.counted else _step_counted(found.loop, found.counter)),
        *([Replace(found.unnamed, cst.Name(found.counter))] if found.unnamed is not None else []),
        Replace(found.lines[0], guarded),
        *(Remove(line) for line in found.lines[1:]),
    )


def log_every_n(
    module: Module, count: int, shown: Mapping[cst.BaseExpression, str]
) -> tuple[NodeEdit, ...] | None:
    """Return the edits by which the lines that log tensors in each step do so every `count` steps,
    and read them there, each by a builtin (``float``, ``int``); None where one of the tensors
    stands in no such line."""
    found: dict[cst.CSTNode, tuple[LogLines, dict[cst.CSTNode, cst.CSTNode]]] = {}
    for node, kind in shown.items():
        lines = next(
            (each for each, _ in found.values() if module.statement(node) in each.lines), None
        )
        if lines is None:
            line = module.small_statement(node)
            match line:
                case cst.Assign([cst.AssignTarget(cst.Name(name))]):
                    line = next(map(module.small_statement, readers_of(module, line, name)), line)
            match line:
                case cst.Expr(cst.Call() as call):
                    lines = log_lines(module, call)
            if (
                lines is None
                or module.statement(node) not in lines.lines
                or any(set(lines.lines) & set(each.lines) for each, _ in found.values())
            ):
                return None
        _, reads = found.setdefault(lines.lines[0], (lines, {}))
        reads[node] = number_of(module, node, kind) if kind else node
    edits = [edit for each in found.values() for edit in logged_every(count, *each)]
    return tuple(dict.fromkeys(edits))


def _step_counted(loop: cst.For, counter: str) -> tuple[NodeEdit, ...]:
    target = loop.target
    bare = isinstance(target, cst.Tuple) and not target.lpar
    opened, closed = ("(", ")") if bare else ("", "")
    edits: list[NodeEdit] = [Prepend(target, f"{counter}, {opened}")]
    edits += [Append(target, closed)] if closed else []
    return (*edits, Prepend(loop.iter, "enumerate("), Append(loop.iter, ")"))
