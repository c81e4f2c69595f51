"""Optional parameters of a network's forward pass that nothing in the project gives: their default
is None, and so they are in each call.

A network is called by the names of what holds it, ``self.decoder(x)``. All of that is looked for in
the texts of the project; what is not seen, a network in a list, one that a registry makes or that
other code gets to run, may be given anything.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from torchlint.base.regex import regex
from torchlint.base.remembered import TEXTS
from torchlint.source.python import DEFS, children, parents, parsed, walk

TESTED = regex(r"^[ \t]*(import|from)[ \t]+(pytest|unittest)\b", re.MULTILINE)
"""What a file of tests imports."""
_RUNS = regex(
    r"(^|_)(train|fit|eval|valid|test|predict|infer|run|step|epoch|generat|sampl|forward|call|apply"
    r"|loop|prepare|wrap|compile|script|trace|export|partial)|^[A-Z]"
)
"""Functions and classes that run a network they are given, or make another object of it."""
_MAKERS = frozenset(("from_pretrained", "from_config"))
_ASKS = frozenset(("isinstance", "issubclass", "super", "hasattr", "setattr", "len", "print"))
_FORWARD = "forward"

Say = Callable[..., bool | None]
"""Says whether a test of a text holds for any other file of the project; None for not known."""


class Passed(NamedTuple):
    """A parameter of a function by its place in a call; `cls` is empty for no method."""

    cls: str
    function: str
    position: int


def never_given(others: Say, text: str, cls: str, name: str, position: int) -> bool:
    """Say whether objects of a class are held somewhere in the project, and no call of one, in any
    file, gives a parameter of its ``forward`` anything but None.

    Args:
        others: says it of the other files.
        text: the file of the class.
        cls: the class.
        name: the parameter.
        position: its place among the arguments of a call.
    """
    tree = parsed(text)
    handed = _handed(text).get(name, frozenset())
    if tree is None or handed is None:
        return False
    todo = [Passed(cls, _FORWARD, position), *handed]
    if any(_said_here(tree, each) is None for each in todo):
        return False
    return others(functools.partial(_gives_parameter, name), near=False) is False and all(
        _no_call_says(others, tree, each) for each in todo
    )


def _said_here(tree: ast.Module, at: Passed) -> bool | None:
    """Say whether a file holds what a call is of; None where one may say something at a place."""
    if at.function == _FORWARD:
        return _objects(at.cls, at.position, tree)
    return None if _calls_in(at.function, at.position, tree) else True


def _no_call_says(others: Say, tree: ast.Module, at: Passed) -> bool:
    """Say whether no call of a function, or of an object of a class, says anything at a place."""
    place = str(at.position)
    if at.function != _FORWARD:
        calls = functools.partial(_calls, at.function, place)
        return others(calls, near=False) is False
    may = functools.partial(_may_give, at.cls, place)
    if others(may, near=False) is not False:
        return False
    made = functools.partial(_makes_objects, at.cls)
    return _said_here(tree, at) is True or others(made, near=False) is True


def _gives_parameter(name: str, text: str) -> bool:
    """Say whether a file that is no test gives a parameter of a name, by keyword or key."""
    if name not in text or TESTED.search(text) is not None:
        return False
    if re.search(rf"\b{name}[\"']?\]?\s*=\s*(?!=|None\b|{name}\b)", text) is not None:
        return True  # Most names are of this kind: nothing has to be read for them.
    tree = parsed(text)
    handed = _handed(text).get(name, frozenset())
    return (
        tree is None
        or handed is None
        or any(
            each.function == _FORWARD or _calls_in(each.function, each.position, tree)
            for each in handed
        )
    )


def turned_on(name: str, text: str) -> bool:
    """Say whether a file that is no test gives a parameter of a name, by keyword or key, another
    value than None, False or one that has its own name."""
    given = rf"(?:\b{name}\s*=|[\"']{name}[\"']\]?\s*[=:])\s*(?!=|(?:None|False|[\w.]*\b{name})\b)"
    return name in text and re.search(given, text) is not None and TESTED.search(text) is None


@functools.lru_cache(maxsize=TEXTS)
def _handed(text: str) -> dict[str, frozenset[Passed] | None]:
    """Return the functions of a file that hand on a parameter, which is None by default, under its
    own name, by that name; None where something else is given under it."""
    found: dict[str, frozenset[Passed] | None] = {}
    todo: list[tuple[ast.AST, str, ast.FunctionDef | ast.AsyncFunctionDef | None]]
    todo = [(parsed(text) or ast.Module([], []), "", None)]
    while todo:
        node, cls, function = todo.pop()
        for name, value in _values(node):
            before = found.get(name, frozenset())
            if isinstance(value, ast.Constant) and value.value is None:
                continue
            own = isinstance(value, ast.Name) and value.id == name
            place = _place_of_none(name, function) if own and before is not None else None
            if before is None or place is None or function is None:
                found[name] = None
            else:
                found[name] = before | {Passed(cls, function.name, place)}
        if isinstance(node, DEFS):
            function = function or node
        elif isinstance(node, ast.ClassDef) and function is None:
            cls = node.name
        todo += [(each, cls, function) for each in children(node)]
    return found


def _values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a node gives under a name: as keyword, key, attribute or element."""
    match node:
        case ast.keyword(str(name), value):
            yield name, value
        case ast.Dict(keys, values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        case ast.Assign(
            [ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(str(name)))],
            value,
        ):
            yield name, value


def _place_of_none(
    name: str, function: ast.FunctionDef | ast.AsyncFunctionDef | None
) -> int | None:
    """Return the place of a parameter that is None by default and gets no other value; None for
    another name."""
    if function is None:
        return None
    args = function.args
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    every = {
        arg.arg: default
        for arg, default in (
            *zip(plain, defaults, strict=True),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        )
    }
    default = every.get(name, ast.Constant(value=0))
    off = default is None or (isinstance(default, ast.Constant) and default.value is None)
    bound = any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for each in walk(function)
    )
    if not off or bound:
        return None
    names = [arg.arg for arg in plain]
    first = names[:1] in (["self"], ["cls"])
    return names.index(name) - first if name in names else len(every)


def _calls(function: str, position: str, text: str) -> bool:
    """Say whether a file calls a function with something at a place."""
    tree = parsed(text) if _is_called(function, text) else None
    return tree is not None and _calls_in(function, int(position), tree)


def _is_called(function: str, text: str) -> bool:
    return function in text and re.search(rf"\b{function}\s*\(", text) is not None


def passes(function: str, name: str, position: str, text: str) -> bool:
    """Say whether a file calls anything of a function's name with a parameter of it, by keyword, at
    its place or by stars."""
    if not _is_called(function, text):
        return False
    tree = parsed(text)
    return tree is None or _calls_in(function, int(position), tree, name)


def _calls_in(function: str, position: int, tree: ast.Module, name: str | None = None) -> bool:
    return any(
        isinstance(node, ast.Call)
        and last_name(node.func) == function
        and (
            _says_position(node, position)
            or (name and any(each.arg == name for each in node.keywords))
        )
        for node in walk(tree)
    )


def _says_position(call: ast.Call, position: int) -> bool:
    starred = any(isinstance(arg, ast.Starred) for arg in call.args)
    return starred or len(call.args) > position or any(each.arg is None for each in call.keywords)


def last_name(func: ast.AST) -> str:
    """Return the last part of a name or attribute; empty for other expressions."""
    if type(func) is ast.Attribute:
        return func.attr
    return func.id if type(func) is ast.Name else ""


def says(word: str, text: str) -> bool:
    """Say whether a text holds a word, and not only as a part of others. The pattern begins with
    the word itself, which is found soon."""
    return word in text and re.search(rf"{word}(?<!\w{word})\b", text) is not None


def concerns(cls: str, text: str) -> bool:
    """Say whether a file may do something with a class: most that name one import it, and say that
    a parameter is one."""
    names = _spoken(text) if says(cls, text) else ()
    return names is None or cls in names


@functools.lru_cache(maxsize=TEXTS)
def _spoken(text: str) -> frozenset[str] | None:
    """Return the names that the code of a file says, but for what annotates a parameter; None where
    it is no Python."""
    tree = parsed(text)
    if tree is None:
        return None
    nodes = walk(tree)
    annotations = {node.annotation for node in nodes if isinstance(node, ast.arg)}
    return frozenset(
        node.name if isinstance(node, ast.ClassDef) else last_name(node)
        for node in nodes
        if isinstance(node, (ast.ClassDef, ast.Name, ast.Attribute)) and node not in annotations
    )


def _makes_objects(cls: str, text: str) -> bool:
    """Say whether a file holds objects of a class."""
    tree = parsed(text) if concerns(cls, text) else None
    return tree is not None and _objects(cls, 1 << 30, tree) is True


def _may_give(cls: str, position: str, text: str) -> bool:
    """Say whether a file may call objects of a class with something at a place."""
    if not concerns(cls, text) or TESTED.search(text) is not None:
        return False
    tree = parsed(text)
    return tree is None or _objects(cls, int(position), tree) is None


def _objects(cls: str, position: int, tree: ast.Module) -> bool | None:
    """Say whether a file holds objects of a class; None where a call of one may say something at a
    place, or where other code gets what it may call."""
    above = parents(tree)
    held: set[tuple[type[ast.AST], str]] = set()
    for node in above:
        # Whether no decorator of a class may note it for code that makes objects of it.
        if (
            type(node) is ast.ClassDef
            and node.name == cls
            and not all(
                "doc" in ast.unparse(each).partition("(")[0] for each in node.decorator_list
            )
        ):
            return None
        if not isinstance(node, (ast.Name, ast.Attribute)) or last_name(node) != cls:
            continue
        target = _target(node, above)
        if target is None:
            return None
        held |= {(type(target), last_name(target))} - {(ast.Constant, "")}
    for node in above if held else ():
        if (type(node), last_name(node)) in held and not _is_seen(node, position, above):
            return None
    return bool(held)


def _target(node: ast.expr, above: dict[ast.AST, ast.AST]) -> ast.expr | None:
    """Return what holds the object that a class is called for, a constant where it is not called;
    None for what is not known."""
    up = above[node]
    around = up
    while isinstance(around, (ast.Subscript, ast.BinOp, ast.Tuple)):
        around = above[around]
    if isinstance(around, (ast.arg, *DEFS)) or (isinstance(up, ast.AnnAssign) and up.value is None):
        return ast.Constant(value=None)
    if isinstance(around, ast.Call) and last_name(around.func) in _ASKS and node is not around.func:
        return ast.Constant(value=None)
    if isinstance(up, ast.Attribute) and up.attr in _MAKERS:
        up = above[up]
    match up, above.get(up):
        case ast.Call(func), ast.Assign([ast.Name() | ast.Attribute() as target]):
            return target if func is node or last_name(func) in _MAKERS else None
    return None


def around(node: ast.AST, above: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """Yield what holds a node, from the inside."""
    while node in above:
        node = above[node]
        yield node


def _is_seen(node: ast.AST, position: int, above: dict[ast.AST, ast.AST]) -> bool:
    """Say whether what is done with an object gives nothing at a place, nor to other code."""
    up = above[node]
    if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        return True
    match up:
        case ast.Call(func) if func is node:
            return not _says_position(up, position)
        case ast.Call(func):
            return _RUNS.search(last_name(func)) is None
        case ast.Return():  # ``def get_decoder(self): return self.decoder``
            function = next(each for each in around(up, above) if isinstance(each, DEFS))
            return function.name == f"get_{last_name(node)}"
        case ast.Attribute() | ast.Compare() | ast.If() | ast.BoolOp() | ast.UnaryOp():
            return True
    return False
