"""Classes whose objects hand out, one by one and unchanged, what they are given: progress bars, log
lines around a loader."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.scopes import Scopes
from torchlint.semantic.code.tree import Tree, attr_of, is_name


def hands_out(tree: Tree, scopes: Scopes, cls: cst.ClassDef) -> str | None:
    """Return the constructor's parameter of which iterating over an object of a class gives the
    elements as they are; None where it gives anything else."""
    init, begin = scopes.method(cls, "__init__"), scopes.method(cls, "__iter__")
    if init is None or begin is None:
        return None
    step, held = scopes.method(cls, "__next__"), _parameters_held(tree, cls, init)
    given = [
        value
        for function in (begin, step)
        for value in (_handed_out(tree, function) if function is not None else ())
        if not is_name(value, "self")
    ]
    found = {_source(tree, value, held) for value in given}
    return found.pop() if len(found) == 1 else None


def _parameters_held(tree: Tree, cls: cst.ClassDef, init: cst.FunctionDef) -> dict[str, str]:
    """Return the attributes that hold a parameter of the constructor, or what iterates over it."""
    params = {param.name.value for param in init.params.params}
    held: dict[str, str] = {}
    for node in tree.within(cls.body, cst.Assign, nested=True):
        value = _unwrapped(node.value)
        for each in node.targets:
            attr = _own_attribute(each.target)
            if attr is not None and is_name(value, *params) and tree.function(node) is init:
                held[attr] = value.value
            elif attr is not None and (name := held.get(_own_attribute(value) or "")):
                held[attr] = name
            elif attr is not None:
                held.pop(attr, None)
    return held


def _handed_out(tree: Tree, function: cst.FunctionDef) -> Iterator[cst.BaseExpression | None]:
    """Yield what a function hands out, ``yield from`` as what is iterated there."""
    kind = cst.Yield if tree.contains(function, cst.Yield) else cst.Return
    for node in tree.within(function, kind):
        value = getattr(node, "value", None)
        if isinstance(value, cst.From):
            yield value.item
        else:
            yield value if _own_attribute(value) is None else None


def _source(tree: Tree, value: cst.BaseExpression | None, held: dict[str, str]) -> str | None:
    """Return the parameter that an expression iterates, or of which it is an element."""
    value = _unwrapped(value)
    if (attr := _own_attribute(value)) is not None:
        return held.get(attr)
    function = tree.function(value) if isinstance(value, cst.Name) else None
    if function is None or not isinstance(value, cst.Name):
        return None
    found = []
    for name in tree.named(value.value, function.body):
        match tree.parents[name]:
            case cst.AssignTarget() as target:
                line = tree.parents[target]
                found.append(
                    _own_attribute(_unwrapped(line.value)) if isinstance(line, cst.Assign) else None
                )
            case cst.For(target, iterated) if target is name:
                found.append(_own_attribute(_unwrapped(iterated)))
            case cst.Element() as part:
                found.append(_counted(tree, part))
            case cst.AugAssign() | cst.AsName():
                found.append(None)
    sources = {held.get(attr or "") for attr in found}
    return sources.pop() if len(sources) == 1 else None


def _counted(tree: Tree, part: cst.Element) -> str | None:
    """Return the attribute of which ``for i, x in enumerate(self.held)`` gives the elements."""
    pair = tree.parents[part]
    match tree.parents[pair]:
        case cst.For(
            cst.Tuple([_, last]),
            cst.Call(cst.Name("enumerate"), [cst.Arg(held), *_]),
        ) if last is part:
            return _own_attribute(held)
    return None


def _unwrapped(node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return what ``iter`` and ``next`` are given."""
    while isinstance(node, cst.Call) and is_name(node.func, "iter", "next") and node.args:
        node = node.args[0].value
    return node if isinstance(node, cst.BaseExpression) else None


def _own_attribute(node: cst.CSTNode | None) -> str | None:
    """Return the attribute of `self` that an expression is."""
    own = isinstance(node, cst.Attribute) and is_name(node.value, "self")
    return attr_of(node) if own else None
