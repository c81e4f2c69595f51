"""What the calls that make objects of a class give for a parameter of its constructor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint.semantic.code.left_out import around, last_name
from torchlint.source.python import DEFS, parents, parsed, walk

_SAYING = frozenset((ast.Name, ast.Attribute, ast.Constant))
_ASKING = frozenset(("isinstance", "issubclass", "super"))


class Handed(NamedTuple):
    """A parameter of a constructor that is handed on as it came."""

    cls: str
    name: str


Value = str | Handed | None
"""What a call gives: as it is written, another constructor's parameter, None for not known."""


class Parameter(NamedTuple):
    """A parameter of a constructor.

    Args:
        cls: the class.
        place: its place among the arguments of a call.
        name: its name.
        default: its default as it is written; empty for none.
    """

    cls: str
    place: int
    name: str
    default: str

    def values(self, text: str) -> set[Value]:
        """Return what the code of a file gives for it; None is among them where the class goes
        elsewhere, to an heir or under another name."""
        if self.cls not in text:
            return set()
        tree = parsed(text)
        if tree is None:
            return {None}
        above, names, found = parents(tree), [self.cls], set[Value]()
        for name in names:  # which grows
            for node in above:
                if type(node) is ast.alias:
                    if node.asname and node.name.rpartition(".")[2] == name:
                        found.add(None)
                elif (
                    type(node) in _SAYING
                    and _reads_name(node, name)
                    and not _only_names(node, above[node])
                ):
                    alias = _alias(node, above)
                    if not alias:
                        found.add(self._argument_given(node, above))
                    elif alias not in names:
                        names.append(alias)
        return found

    def _argument_given(self, node: ast.AST, above: dict[ast.AST, ast.AST]) -> Value:
        call = above[node]
        if not isinstance(call, ast.Call) or call.func is not node:
            return None
        function = next((each for each in around(call, above) if isinstance(each, DEFS)), None)
        given: list[ast.expr | None] = [*call.args[self.place : self.place + 1]]
        if any(isinstance(each, ast.Starred) for each in call.args):
            return None
        for each in call.keywords:
            if each.arg is None:
                given += _entries(each.value, self.name, function, above)
            elif each.arg == self.name:
                given.append(each.value)
        if not given:
            return self.default or None
        value = given[0] if len(given) == 1 else None
        if isinstance(value, ast.Name):
            # The constructor's parameter that a name is, which nothing binds anew.
            name = value.id
            match function:
                case ast.FunctionDef(
                    name="__init__", args=ast.arguments(args=args, kwonlyargs=more)
                ):
                    home = above[function]
                    uses = [each for each in walk(function) if _names(each, name)]
                    kept = all(isinstance(each.ctx, ast.Load) for each in uses)  # type: ignore[attr-defined]
                    if kept and name in {each.arg for each in (*args, *more)}:
                        return Handed(home.name, name) if isinstance(home, ast.ClassDef) else None
            return None
        return ast.unparse(value) if value is not None else None


def _reads_name(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Constant):
        return bool(node.value == name)
    return last_name(node) == name and not isinstance(getattr(node, "ctx", None), ast.Store)


def _only_names(node: ast.AST, up: ast.AST) -> bool:
    """Say whether what stands around a class's name only asks for it, or annotates by it."""
    if isinstance(up, ast.Call):
        return up.func is not node and last_name(up.func) in _ASKING
    return isinstance(up, (ast.arg, *DEFS)) or (isinstance(up, ast.AnnAssign) and up.value is None)


def _alias(node: ast.AST, above: dict[ast.AST, ast.AST]) -> str:
    """Return the name to which a class is bound, maybe one of two; empty for anything else."""
    up = above[node]
    if isinstance(up, ast.IfExp) and node is not up.test:
        up = above[up]
    match up:
        case ast.Assign([ast.Name(name)]):
            return name
    return ""


def _entries(
    mapping: ast.expr, key: str, function: ast.AST | None, above: dict[ast.AST, ast.AST]
) -> Iterator[ast.expr | None]:
    """Yield what a mapping holds under a key that a function makes by ``dict(key=value)`` and hands
    on by stars alone; None where it may hold anything."""
    name = mapping.id if isinstance(mapping, ast.Name) else ""
    uses = [each for each in walk(function) if _names(each, name)] if function is not None else []
    if not uses:
        yield None
    for use in uses:
        match above[use]:
            case ast.keyword(None):
                pass
            case ast.Assign([_], ast.Call(ast.Name("dict"), [], entries)):
                yield from (each.value for each in entries if each.arg == key)
                same = [each for each in entries if each.arg is None and _names(each.value, name)]
                if len(same) < sum(each.arg is None for each in entries):
                    yield None
            case _:
                yield None


def _names(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
