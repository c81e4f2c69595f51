"""The calls of a method in a text that somebody makes without autograd, by CPython's tree: of a
file that is not analysed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.source.python import DEFS, parents, parsed, walk

_SWITCHES = frozenset(("no_grad", "inference_mode", "set_grad_enabled"))


def calls_method(method: str, text: str) -> bool:
    """Say whether a text calls a method of a name, or may: it is no Python."""
    if f".{method}(" not in text:
        return False
    tree = parsed(text)
    return tree is None or any(_calls(tree, method))


def calls_without_graph(method: str, text: str) -> bool:
    """Say whether a text calls a method of a name where autograd is off, or where something decides
    about that: around the call, or around one of those that lead to it. True where it is no
    Python."""
    if f".{method}(" not in text or not any(word in text for word in _SWITCHES):
        return False
    tree = parsed(text)
    if tree is None:
        return True
    above = parents(tree)
    reach = {_reach(switch, above) for switch in _switches(tree)}
    seen, todo = {method}, list(_calls(tree, method))
    while todo:
        node: ast.AST | None = todo.pop()
        while node is not None:
            if node in reach:
                return True
            if isinstance(node, DEFS) and node.name not in seen:
                seen.add(node.name)
                todo += _calls(tree, node.name, plain=True)
            node = above.get(node)
    return False


def _calls(tree: ast.AST, name: str, *, plain: bool = False) -> Iterator[ast.Call]:
    for node in walk(tree):
        match node:
            case ast.Call(ast.Attribute(attr=called)) if called == name:
                yield node
            case ast.Call(ast.Name(called)) if plain and called == name:
                yield node


def _switches(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the names of what switches autograd off, where they do not switch it on."""
    on = {
        node.func
        for node in walk(tree)
        if isinstance(node, ast.Call)
        and any(isinstance(arg, ast.Constant) and arg.value is True for arg in node.args)
    }
    for node in walk(tree):
        name = getattr(node, "attr", None) or getattr(node, "id", None)
        if isinstance(node, (ast.Attribute, ast.Name)) and name in _SWITCHES and node not in on:
            yield node


def _reach(switch: ast.AST, above: dict[ast.AST, ast.AST]) -> ast.AST:
    """Return the code for which a switch holds: a block, the function that it decorates, else the
    function around it or the file."""
    node = switch
    while (outer := above.get(node)) is not None:
        if isinstance(outer, DEFS) or (isinstance(node, ast.withitem)):
            return outer
        node = outer
    return node
