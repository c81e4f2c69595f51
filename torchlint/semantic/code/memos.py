"""Tables that keep what is made once for each key: ``if key not in table: table[key] = …``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.names import Names
from torchlint.semantic.code.tree import Tree, method_called

_OF_PARTS = frozenset(
    "items keys named_parameters named_buffers named_modules named_children parameters".split()
)
"""Methods that give the same keys in each step."""

Places = Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]


def lacking(names: Names, test: cst.BaseExpression, needed: bool) -> Places:
    """Yield the tables in which a test that is as needed has found nothing, each with the key."""
    match test:
        case cst.UnaryOperation(cst.Not(), inner):
            yield from lacking(names, inner, not needed)
        case cst.BooleanOperation(left, operator, right):
            if isinstance(operator, cst.And) is needed:
                yield from lacking(names, left, needed)
                yield from lacking(names, right, needed)
        case cst.Comparison(left, [cst.ComparisonTarget(operator, right)]):
            if isinstance(operator, cst.NotIn if needed else cst.In):
                yield right, left
            elif isinstance(operator, cst.Is if needed else cst.IsNot):
                yield from _looked_up(names, left)
        case cst.Name() if not needed:
            yield from _looked_up(names, test)


def _looked_up(names: Names, found: cst.BaseExpression) -> Places:
    """Yield the table and the key by which something was looked up: ``table.get(key)``."""
    match found:
        case cst.NamedExpr(value=value):
            yield from _looked_up(names, value)
        case cst.Name(name):
            for each in names.bindings(name, found)[1]:
                if isinstance(each.value, cst.Call):
                    yield from _looked_up(names, each.value)
        case cst.Call(
            cst.Attribute(table, cst.Name("get")),
            [cst.Arg(key)] | [cst.Arg(key), cst.Arg(cst.Name("None"))],
        ):
            yield table, key


def stores(tree: Tree, line: cst.CSTNode, table: cst.CSTNode, key: cst.CSTNode) -> bool:
    """Say whether a statement puts something into a table under a key."""
    for each in tree.within(line, cst.AssignTarget):
        match each.target:
            case cst.Subscript(held, [cst.SubscriptElement(cst.Index(under))]) if held.deep_equals(
                table
            ) and under.deep_equals(key):
                return True
    return False


def differs_by_iteration(tree: Tree, names: Names, key: cst.CSTNode) -> bool:
    """Say whether a loop gives a key, other than one over the parts of something that are the same
    in each step: what is told apart by it is told apart anew."""
    loops = (
        each.node
        for name in tree.within(key, cst.Name)
        for each in names.bindings(name.value, name)[1]
    )
    return any(
        isinstance(loop, (cst.For, cst.CompFor)) and method_called(loop.iter) not in _OF_PARTS
        for loop in loops
    )
