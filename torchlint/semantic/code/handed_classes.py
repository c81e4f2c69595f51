"""Classes that a text hands on, so that code may make objects of them by another name."""

from __future__ import annotations

import ast
import functools

from torchlint.base.remembered import TEXTS
from torchlint.semantic.code.left_out import last_name, says
from torchlint.source.python import parents, parsed

_ASKS = frozenset(("isinstance", "issubclass", "super", "cast"))
_HARMLESS = frozenset(("dataclass", "final", "total_ordering"))
_PARTS = (ast.Tuple, ast.List, ast.Set, ast.Starred, ast.IfExp, ast.BoolOp)
_HOLDERS = (
    *(ast.arguments, ast.keyword, ast.Assign, ast.NamedExpr, ast.Dict, ast.Lambda),
    *(ast.Return, ast.Yield, ast.For, ast.comprehension, ast.ListComp, ast.DictComp),
)

_HANDING = frozenset((*_PARTS, *_HOLDERS, ast.Call, ast.ClassDef, ast.AnnAssign))
"""What may hand on what stands right in it."""
_TOLD = frozenset((ast.Name, ast.Attribute, ast.ClassDef, ast.Call, ast.alias))
"""What says something of that."""


def hands_on(cls: str, text: str) -> bool:
    """Say whether a text may have objects of a class made in another way than by a call of its
    name: a class derives from it, other code is given it, something else holds it, a decorator
    may note it, or a method of its own makes one."""
    names = _handed_on(text) if says(cls, text) else ()
    return names is None or cls in names


def objects_leave(cls: str, text: str) -> bool:
    """Say whether a text may have other code call objects of a class: it hands the class on, or an
    object that it makes of it."""
    names = _handed_on(text) if says(cls, text) else ()
    return names is None or cls in names or f"{cls}()" in names


@functools.lru_cache(maxsize=TEXTS)
def _handed_on(text: str) -> frozenset[str] | None:
    """Return the last names of all, classes or not, that a text hands on, ``C()`` for an object of
    a class; None for no Python."""
    tree = parsed(text)
    if tree is None:
        return None
    above, found = parents(tree), set[str]()
    made: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for node, up in above.items():
        if type(node) not in _TOLD:
            continue
        match node:
            case ast.Name() | ast.Attribute():
                if type(up) in _HANDING and type(node.ctx) is ast.Load and _is_handed(node, above):
                    found.add(last_name(node))
            case ast.ClassDef(name=name, decorator_list=decorators):
                bare = (each.func if isinstance(each, ast.Call) else each for each in decorators)
                if not _HARMLESS.issuperset(map(last_name, bare)):
                    found.add(name)
            case ast.Call(ast.Name("getattr"), [_, ast.Constant(str(name)), *_]):
                found.add(name)
            case ast.Call(func) if _is_own_class(func):
                found.update(_class_around(node, above))
            case ast.Call(func):
                made += [(f"{last_name(func)}()", each) for each in _holders(node, above)]
            case ast.alias(name=name, asname=str(other)):
                others.append((name.rpartition(".")[2], other))
    found.update(name for name, other in (*others, *made) if not other or other in found)
    return frozenset(found)


def _is_handed(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    up = above[node]
    while isinstance(up, _PARTS):
        node, up = up, above[up]
    match up:
        case ast.Call(func):
            return node is not func and last_name(func) not in _ASKS
        case ast.ClassDef(bases=bases):
            return node in bases
        case ast.AnnAssign(value=value):
            return node is value
    return isinstance(up, _HOLDERS)


def _holders(call: ast.Call, above: dict[ast.AST, ast.AST]) -> list[str]:
    """Return the names to which what a call gives is bound; an empty one where it is handed on."""
    match above[call]:
        case ast.Assign(targets):
            return [last_name(each) for each in targets]
        case ast.AnnAssign(target):
            return [last_name(target)]
    return [""] if type(above[call]) in _HANDING and _is_handed(call, above) else []


def _is_own_class(func: ast.expr) -> bool:
    """Say whether what is called is the class of an object: ``cls()``, ``type(self)()``."""
    match func:
        case ast.Name("cls") | ast.Attribute(attr="__class__"):
            return True
        case ast.Call(ast.Name("type"), [_]):
            return True
    return False


def _class_around(node: ast.AST, above: dict[ast.AST, ast.AST]) -> list[str]:
    while node in above:
        node = above[node]
        if isinstance(node, ast.ClassDef):
            return [node.name]
    return []
