"""One walk over a parsed file: parents, owners and nodes by type.

libcst's own metadata providers cost more than its parser; this walk visits only fields that hold expressions or
statements and skips white space, commas and parentheses.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import TypeAlias

import libcst as cst

Function: TypeAlias = cst.FunctionDef | cst.Lambda
Owner: TypeAlias = cst.FunctionDef | cst.Lambda | cst.Module
Statement: TypeAlias = cst.BaseStatement | cst.BaseSmallStatement
Loop: TypeAlias = cst.For | cst.While
Comprehension: TypeAlias = cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp

_SKIPPED = frozenset(
    (
        "lpar rpar lbracket rbracket lbrace rbrace comma semicolon equal colon dot leading_lines header "
        "footer lines_after_decorators trailing_whitespace newline operator star asynchronous indent "
        "first_line empty_lines default_indent default_newline has_trailing_newline encoding relative walrus "
        "start end prefix posonly_ind star_arg_ind type_parameters"
    ).split()
)
_FIELDS: dict[type, tuple[str, ...]] = {}
LOOPS = (cst.For, cst.While)
COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)
FUNCTIONS = (cst.FunctionDef, cst.Lambda)


_IS_NODE: dict[type, bool] = {}


def _fields(node_type: type) -> tuple[str, ...]:
    found = _FIELDS.get(node_type)
    if found is None:
        names = getattr(node_type, "__dataclass_fields__", {})
        found = tuple(n for n in names if n not in _SKIPPED and not n.startswith("whitespace"))
        _FIELDS[node_type] = found
    return found


def _is_node(value: object) -> bool:
    # libcst's nodes are abstract base classes, for which isinstance is slow.
    kind = type(value)
    found = _IS_NODE.get(kind)
    if found is None:
        found = _IS_NODE[kind] = issubclass(kind, cst.CSTNode)
    return found


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the child nodes that carry meaning, in field order."""
    out: list[cst.CSTNode] = []
    for name in _fields(type(node)):
        value = getattr(node, name)
        if value is None or type(value) is str:
            continue
        if type(value) in (list, tuple):
            out.extend(v for v in value if _is_node(v))
        elif _is_node(value):
            out.append(value)
    return out


class Tree:
    """Parents, owning functions and nodes by type of one parsed file."""

    def __init__(self, root: cst.Module) -> None:
        self.root = root
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.owners: dict[cst.CSTNode, Owner] = {}
        self.scopes: dict[cst.CSTNode, cst.CSTNode] = {}
        self.by_type: dict[type, list[cst.CSTNode]] = {}
        self.order: dict[cst.CSTNode, int] = {}
        self.ends: dict[cst.CSTNode, int] = {}
        self._named: dict[str, list[cst.Name]] = {}
        self._orders: dict[type, list[int]] = {}
        self._walk(root)

    def _walk(self, root: cst.Module) -> None:
        stack: list[tuple[cst.CSTNode, Owner, cst.CSTNode]] = [(root, root, root)]
        parents, owners, by_type, order, scopes = self.parents, self.owners, self.by_type, self.order, self.scopes
        while stack:
            node, owner, scope = stack.pop()
            kind = type(node)
            owners[node] = owner
            scopes[node] = scope
            order[node] = len(order)
            by_type.setdefault(kind, []).append(node)
            is_function = kind in FUNCTIONS
            below = node if is_function else owner
            inside = node if is_function or kind in COMPREHENSIONS else scope
            for child in reversed(children(node)):
                parents[child] = node
                # Decorators, annotations and a function's own name are evaluated where it is defined.
                if kind is cst.FunctionDef and type(child) in (cst.Decorator, cst.Annotation, cst.Name):
                    stack.append((child, owner, scope))
                elif kind is cst.ClassDef and child is node.body:  # type: ignore[attr-defined]
                    stack.append((child, below, node))  # type: ignore[arg-type]
                else:
                    stack.append((child, below, inside))  # type: ignore[arg-type]
        ends = self.ends
        for node in reversed(order):
            ends.setdefault(node, order[node])
            above = parents.get(node)
            if above is not None:
                ends.setdefault(above, ends[node])

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the parent, its parent, and so on up to the module."""
        at = self.parents.get(node)
        while at is not None:
            yield at
            at = self.parents.get(at)

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the innermost statement that holds `node`: a simple statement line or a compound statement."""
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return node
        for above in self.ancestors(node):
            if isinstance(above, (cst.SimpleStatementLine, cst.BaseCompoundStatement, cst.Module)):
                return above
        return self.root

    def small_statement(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the small statement (``x = 1`` of ``x = 1; y = 2``) that holds `node`, if any."""
        if isinstance(node, cst.BaseSmallStatement):
            return node
        for above in self.ancestors(node):
            if isinstance(above, cst.BaseSmallStatement):
                return above
            if isinstance(above, (cst.BaseCompoundStatement, cst.Module)):
                return None
        return None

    def nodes(self, *types: type[cst.CSTNode]) -> list[cst.CSTNode]:
        """Return all nodes of exactly these types in source order."""
        if len(types) == 1:
            return self.by_type.get(types[0], [])
        out = [n for t in types for n in self.by_type.get(t, [])]
        out.sort(key=self.order.__getitem__)
        return out

    def named(self, name: str, inside: cst.CSTNode | None = None) -> list[cst.Name]:
        """Return the Name nodes spelled `name` in the file, or inside a node, in source order."""
        if not self._named:
            for node in self.by_type.get(cst.Name, ()):
                assert isinstance(node, cst.Name)
                self._named.setdefault(node.value, []).append(node)
        every = self._named.get(name, [])
        if inside is None or not every:
            return every
        low = bisect.bisect_left(every, self.order[inside], key=self.order.__getitem__)
        return every[low : bisect.bisect_right(every, self.ends[inside], key=self.order.__getitem__)]

    def within(self, node: cst.CSTNode, *types: type[cst.CSTNode], nested: bool = False) -> Iterator[cst.CSTNode]:
        """Yield `node` and its descendants of exactly these types, in source order.

        Bodies of functions defined inside are left out unless `nested`.
        """
        low, high = self.order[node], self.ends[node]
        found: list[cst.CSTNode] = []
        for node_type in types:
            found.extend(self._between(node_type, low, high))
        if len(types) > 1:
            found.sort(key=self.order.__getitem__)
        if nested:
            yield from found
            return
        owner = node if isinstance(node, FUNCTIONS) else self.owners[node]
        owners = self.owners
        for each in found:
            if owners[each] is owner or each is node:
                yield each

    def _between(self, node_type: type, low: int, high: int) -> list[cst.CSTNode]:
        every = self.by_type.get(node_type)
        if not every:
            return []
        orders = self._orders.get(node_type)
        if orders is None:
            orders = self._orders[node_type] = [self.order[n] for n in every]
        return every[bisect.bisect_left(orders, low) : bisect.bisect_right(orders, high)]

    def is_within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Say whether `node` is `outer` or lies inside it."""
        return self.order[outer] <= self.order[node] <= self.ends[outer]

    def branch(self, node: cst.CSTNode, outer: cst.CSTNode) -> cst.CSTNode:
        """Return the direct child of `outer` through which `node` hangs on it."""
        at = node
        for above in self.ancestors(node):
            if above is outer:
                return at
            at = above
        return at


def callee(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a call calls, and any other expression as it is: a decorator with or without arguments, say."""
    return node.func if isinstance(node, cst.Call) else node
