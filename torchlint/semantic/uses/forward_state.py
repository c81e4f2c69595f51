"""What a forward pass keeps on its object, by the text of a file: whether its next run may go on
with it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import TypeGuard

from torchlint.base.remembered import TEXTS
from torchlint.source.python import parsed, walk


def keeps_state(word: str, text: str) -> bool:
    """Say whether a forward pass in a text that holds `word` keeps something on its object that it
    does not assign anew in each run, before anything else may look at it."""
    return word in text and _keeps(text)


@functools.lru_cache(TEXTS)
def _keeps(text: str) -> bool:
    tree = parsed(text)
    if tree is None or "def forward" not in text:
        return tree is None
    classes = (each for each in walk(tree) if isinstance(each, ast.ClassDef))
    return any(_carries(cls, each) for cls in classes for each in walk(cls))


def _carries(cls: ast.ClassDef, forward: ast.AST) -> bool:
    if not isinstance(forward, ast.FunctionDef) or forward.name != "forward":
        return False
    # Of a static one, as in a `torch.autograd.Function`, each run has an object of its own.
    static = any(getattr(each, "id", "") == "staticmethod" for each in forward.decorator_list)
    if static or not forward.args.args:
        return False
    me = forward.args.args[0].arg

    def own(part: ast.AST) -> Iterator[ast.Attribute]:
        for each in walk(part):
            if isinstance(each, ast.Attribute) and getattr(each.value, "id", None) == me:
                yield each

    # What only a training pass changes stays as it is in an evaluation.
    blocks = (each.body for each in walk(forward) if _trains(each, me))
    trained = {part for block in blocks for line in block for part in walk(line)}
    rest = [each for each in walk(forward) if each not in trained]
    stored = {each for each in own(forward) if isinstance(each.ctx, ast.Store)}
    kept = {each.attr for each in stored - trained}
    kept |= {_changed(each) for each in rest} & {each.attr for each in own(forward)}
    layers = {each.attr for each in own(cls) if isinstance(each.ctx, ast.Store)} | {"training"}
    if kept & {each.name for each in walk(cls) if isinstance(each, ast.FunctionDef)}:
        return True
    for line in _straight(forward.body):
        targets = line.targets if isinstance(line, ast.Assign) else []
        code = line.value if isinstance(line, ast.Assign) else line
        # A method of its own, or of a base, may look at all that is kept.
        looks = any(each.attr in kept or each.attr not in layers for each in own(code))
        if kept and (looks or any(isinstance(each, ast.Return) for each in walk(code))):
            return True
        parts = [part for each in targets for part in getattr(each, "elts", [each])]
        kept -= {each.attr for part in parts for each in own(part) if each is part}
    return bool(kept)


def _trains(node: ast.AST, me: str) -> TypeGuard[ast.If]:
    """Say whether a node is an ``if self.training:``, or asks for more beside it."""
    match node:
        case ast.If(ast.BoolOp(ast.And(), tests)):
            pass
        case ast.If(test):
            tests = [test]
        case _:
            return False
    return any(
        isinstance(each, ast.Attribute)
        and each.attr == "training"
        and getattr(each.value, "id", None) == me
        for each in tests
    )


def _straight(lines: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that each run of a block takes, one by one; a block that may be left out
    as one."""
    for line in lines:
        if isinstance(line, ast.With):
            yield from (ast.Expr(each.context_expr) for each in line.items)
            yield from _straight(line.body)
        else:
            yield line


def _changed(node: ast.AST) -> str:
    """Return the attribute of an object of which a node changes a part, or to which it appends."""
    match node:
        case ast.Subscript(ast.Attribute(attr=name), ctx=ast.Store()) | ast.Call(
            ast.Attribute(ast.Attribute(attr=name), "append")
        ):
            return name
    return ""
