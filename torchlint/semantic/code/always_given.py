"""Optional parameters of a network's forward pass that each call in the project gives: what is done
where one is None is done in no step.

The calls are those of what holds an object of the class, or a list of them, in the file that makes
it. Where other code gets the object, nothing is known.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from torchlint.semantic.code.left_out import TESTED, Say, concerns, last_name
from torchlint.semantic.torch import ops
from torchlint.source.python import DEFS, parents, parsed, walk

_LISTS = frozenset(("ModuleList", "list"))
_OVER = frozenset(("reversed", "enumerate", "zip", "list", "iter"))
_THROUGH = 3
"""Names through which an object comes to its call."""
_SPEAKS = (ast.arg, ast.AnnAssign, ast.ImportFrom)
_COMPUTED = (ast.BinOp, ast.Compare, ast.UnaryOp)

_KEPT = 64
"""Answers that are remembered: each is wanted twice, once whether a call leaves the parameter out,
and once whether any gives it."""

Above = dict[ast.AST, ast.AST]


def always_given(others: Say, text: str, cls: str, name: str, position: int) -> bool:
    """Say whether objects of a class are made somewhere in the project, and each call of one gives
    a parameter of its ``forward`` what is not None.

    Args:
        others: says it of the other files.
        text: the file of the class.
        cls: the class.
        name: the parameter.
        position: its place among the arguments of a call.
    """
    leaves_out, gives = (
        functools.partial(each, cls, name, str(position))
        for each in (_leaves_out, _some_call_gives)
    )
    if leaves_out(text) or others(leaves_out, near=False) is not False:
        return False
    return gives(text) or others(gives, near=False) is True


def _leaves_out(cls: str, name: str, position: str, text: str) -> bool:
    """Say whether a file that is no test may call an object of a class without a parameter."""
    told = _calls_that_give(cls, name, position, text)
    return told is None or not all(told)


def _some_call_gives(cls: str, name: str, position: str, text: str) -> bool:
    return bool(_calls_that_give(cls, name, position, text))


@functools.lru_cache(maxsize=_KEPT)
def _calls_that_give(cls: str, name: str, position: str, text: str) -> list[bool] | None:
    """Return of each call of an object of a class whether it gives a parameter; None where not all
    calls are in view."""
    if not concerns(cls, text) or TESTED.search(text) is not None:
        return []
    tree = parsed(text)
    if tree is None:
        return None
    above = parents(tree)
    held = _holders(cls, tree, above)
    if not held:
        return None if held is None else []
    return [
        _is_value(_argument(node, name, int(position)), _home(node, above))
        for node in above
        if isinstance(node, ast.Call) and _is_held(node.func, held)
    ]


def _holders(cls: str, tree: ast.Module, above: Above) -> set[str] | None:
    """Return what holds objects of a class, as its code reads; None where other code may."""
    held: set[str] = set()
    for node in above:
        if not isinstance(node, (ast.Name, ast.Attribute)) or last_name(node) != cls:
            continue
        up = above[node]
        if isinstance(up, _SPEAKS) or (
            isinstance(up, ast.Call) and last_name(up.func) == "isinstance"
        ):
            continue
        holder = _holder(up, above) if isinstance(up, ast.Call) and up.func is node else None
        if holder is None:
            return None
        held.add(_key(holder))
    bound = list(_bound(tree)) if held else []
    for _ in range(_THROUGH):
        for target, source in bound:
            if any(_is_held(each, held) for each in _sources(source)):
                held |= {_key(each) for each in walk(target) if isinstance(each, ast.Name)}
    return held


def _bound(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what is bound, each with what to: by assignment, or by a loop to its elements."""
    for node in walk(tree):
        match node:
            case ast.Assign([target], source) | ast.For(target, source):
                yield target, source


def _holder(made: ast.AST, above: Above) -> ast.expr | None:
    """Return what an object is bound to, alone or in a list."""
    up = above[made]
    while isinstance(up, (ast.List, ast.ListComp)) or (
        isinstance(up, ast.Call) and last_name(up.func) in _LISTS
    ):
        up = above[up]
    match up:
        case ast.Assign([ast.Name() | ast.Attribute() as target]):
            return target
        case ast.Call(ast.Attribute(target, "append")):
            return target
    return None


def _sources(node: ast.expr) -> Iterator[ast.expr]:
    """Yield what a loop goes over, or a name stands for."""
    if isinstance(node, ast.Call) and last_name(node.func) in _OVER | _LISTS:
        for arg in node.args:
            yield from _sources(arg)
    elif isinstance(node, ast.IfExp):
        yield from _sources(node.body)
        yield from _sources(node.orelse)
    else:
        yield node


def _key(node: ast.expr) -> str:
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node)


def _is_held(node: ast.expr, held: set[str]) -> bool:
    last = last_name(node.value if isinstance(node, ast.Subscript) else node)
    return any(each.endswith(last) for each in held) and _key(node) in held


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    before = call.args[: position + 1]
    starred = any(isinstance(each, ast.Starred) for each in before)
    return before[position] if len(before) > position and not starred else None


def _home(node: ast.AST, above: Above) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    while node in above:
        node = above[node]
        if isinstance(node, DEFS):
            return node
    return None


def _is_value(node: ast.expr | None, home: ast.FunctionDef | ast.AsyncFunctionDef | None) -> bool:
    """Say whether an argument is never None: what is computed, or a parameter of the function
    around the call that has no default and is not asked for None there."""
    match node:
        case ast.Call(ast.Attribute(inner, name)):
            return ast.unparse(inner).startswith("torch") or name in ops.COMPUTING_METHODS
        case ast.Name(name) if home is not None:
            args = home.args
            plain = [*args.posonlyargs, *args.args]
            needed = {each.arg for each in plain[: len(plain) - len(args.defaults)]}
            asked = any(
                isinstance(each, ast.Compare)
                and isinstance(each.left, ast.Name)
                and each.left.id == name
                and isinstance(each.ops[0], (ast.Is, ast.IsNot))
                for each in walk(home)
            )
            return not asked and (name in needed or _is_bound_to_values(name, home))
    return isinstance(node, _COMPUTED)


def _is_bound_to_values(name: str, home: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    bound = [
        above.value if isinstance(above, ast.Assign) else None
        for above in walk(home)
        for each in ast.iter_child_nodes(above)
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
    ]
    return bool(bound) and all(each is not None and _is_value(each, None) for each in bound)
