"""Node edits at random places of a file, against what they must do to Python's own syntax tree.

The engine turns each into text; the tree of the new text has to be the old tree with that one node
changed. What the engine withholds is always right here.
"""

from __future__ import annotations

import ast
import random
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst

from torchlint.base.span import LineIndex
from torchlint.edits.positions import Layout
from torchlint.edits.splice import EditContext
from torchlint.edits.text_fix import text_fix
from torchlint.engine.job import Job
from torchlint.fixes.fix import Append, Fix, InsertAfter, InsertBefore, NodeEdit, Remove, Replace
from torchlint.rule import Module, Safety
from torchlint.semantic.project.outside import Outside

_PAIR = "(aa, bb)"
_EXPRESSIONS = (
    "aa",
    "aa.bb(cc)",
    "aa + bb",
    "aa if bb else cc",
    "lambda: aa",
    _PAIR,
    "not aa",
    "-aa",
    "aa and bb",
    "[aa for bb in cc]",
    "aa == bb",
    "aa ** bb",
    "7",
    "'s'",
    "aa(bb for bb in cc)",
    "aa(\n    bb,\n)",
    "aa[bb:cc, ...]",
)
_STATEMENTS = ("zzz = 1", "if zzz:\n    zzz = 2", "zzz.zzz()")
_PER_FILE = 8


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of libcst's tree that is known in Python's: `owner.field` holds it, at `at` of a list
    or alone."""

    node: cst.CSTNode
    owner: ast.AST
    field: str
    at: int | None


def wrong_edits(job: Job) -> list[str]:
    """Return a sentence for each random edit of the job's file that does something else than it
    should."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(_wrong_edits(job))


def _wrong_edits(job: Job) -> Iterator[str]:
    text = job.document.text
    chance = random.Random(zlib.crc32(job.document.data))
    if not text.isascii() or "\f" in text or "\0" in text:
        return  # Python's columns count bytes, and reset at form feeds
    try:
        ast.parse(text)
        tree = cst.parse_module(text)
    except (SyntaxError, cst.ParserSyntaxError, cst.CSTValidationError):
        return
    module = Module(tree, text, job.relative, Outside())
    index, layout = LineIndex(text), Layout(tree, text)
    context = EditContext(tree, text, index, layout, module.parent)
    nodes = [
        node for kind in (cst.BaseExpression, cst.BaseSmallStatement) for node in _nodes(tree, kind)
    ]
    for node in chance.sample(nodes, min(_PER_FILE, len(nodes))):
        fresh = ast.parse(text)
        place = _place(node, fresh, context)
        if place is None:
            continue
        edit = _edit(place, chance)
        made = text_fix(Fix((edit,), Safety.SAFE, "t"), context)
        if isinstance(made, str) or made.withheld:
            continue
        after = text
        for one in reversed(made.edits):
            after = after[: one.span.start] + one.text + after[one.span.end :]
        _apply(edit, place)
        words = f"{type(edit).__name__} of a {type(node).__name__}"
        try:
            got = ast.dump(ast.parse(after))
        except SyntaxError:
            yield f"{words} breaks the file"
            continue
        if got != ast.dump(fresh):
            yield f"{words} does something else"


def _nodes(tree: cst.Module, kind: type[Any]) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    todo: list[cst.CSTNode] = [tree]
    while todo:
        node = todo.pop()
        # Code in patterns and in f-strings is no place for edits.
        if isinstance(node, cst.MatchPattern | cst.FormattedString | cst.Annotation):
            continue
        if isinstance(node, kind) and not isinstance(node, cst.StarredElement):
            found.append(node)
        todo.extend(node.children)
    return found


def _place(node: cst.CSTNode, tree: ast.Module, context: EditContext) -> _Place | None:
    """Return where `node` is in Python's tree, None where that is not certain or nothing can be
    loaded from it."""
    span = context.layout.span(node)
    if span is None:
        return None
    start, end = context.index.position(span.start), context.index.position(span.end)
    wanted = (start.row, start.column - 1, end.row, end.column - 1)
    kind = ast.expr if isinstance(node, cst.BaseExpression) else ast.stmt
    found = [
        _Place(node, owner, field, at)
        for owner in ast.walk(tree)
        for field, value in ast.iter_fields(owner)
        for at, child in (enumerate(value) if isinstance(value, list) else ((None, value),))
        if isinstance(child, kind)
        and (child.lineno, child.col_offset, child.end_lineno, child.end_col_offset) == wanted
        and isinstance(getattr(child, "ctx", ast.Load()), ast.Load)
    ]
    if len(found) != 1 or isinstance(found[0].owner, ast.JoinedStr | ast.FormattedValue):
        return None
    return found[0]


def _edit(place: _Place, chance: random.Random) -> NodeEdit:
    node = place.node
    if isinstance(node, cst.BaseSmallStatement):
        kind = chance.randrange(3)
        if kind == 0:
            return Remove(node)
        return (InsertBefore if kind == 1 else InsertAfter)(node, chance.choice(_STATEMENTS))
    if chance.random() < 0.3:
        return Append(node, ".detach()")
    new = chance.choice(_EXPRESSIONS)
    if isinstance(place.owner, ast.withitem) and new == _PAIR:
        new = "aa"  # a tuple there would be two contexts, and is no context itself
    return Replace(node, cst.parse_expression(new))


def _apply(edit: NodeEdit, place: _Place) -> None:
    """Change Python's tree as `edit` should."""
    value = getattr(place.owner, place.field)
    if isinstance(edit, Remove):
        del value[place.at]
        if not value and not isinstance(place.owner, ast.Module):
            value.append(ast.Pass())
        return
    if isinstance(edit, InsertBefore | InsertAfter):
        assert place.at is not None
        value[
            place.at + isinstance(edit, InsertAfter) : place.at + isinstance(edit, InsertAfter)
        ] = ast.parse(edit.code).body
        return
    old = value if place.at is None else value[place.at]
    if isinstance(edit, Append):
        new: ast.expr = ast.Call(ast.Attribute(old, "detach", ast.Load()), [], [])
    else:
        assert isinstance(edit, Replace)
        new = ast.parse(f"({cst.Module([]).code_for_node(edit.new)})", mode="eval").body
    if place.at is None:
        setattr(place.owner, place.field, new)
    else:
        value[place.at] = new
