"""One walk over a parsed file: parents, owners and nodes by type.

libcst's own metadata providers cost more than its parser; this walk visits only fields that hold
expressions or statements and skips white space, commas and parentheses.
"""

from __future__ import annotations

import bisect
import dataclasses
import enum
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar

import libcst as cst

from torchlint.semantic.code.quick_nodes import patch_libcst_nodes
from torchlint.semantic.code.spelling import SKIPPED

patch_libcst_nodes()

N = TypeVar("N", bound=cst.CSTNode)
T = TypeVar("T")
E = TypeVar("E", bound=cst.CSTNode | None)
Function: TypeAlias = cst.FunctionDef | cst.Lambda
Owner: TypeAlias = cst.FunctionDef | cst.Lambda | cst.Module
Statement: TypeAlias = cst.BaseStatement | cst.BaseSmallStatement
Loop: TypeAlias = cst.For | cst.While
Link: TypeAlias = cst.Attribute | cst.Subscript | cst.Call

LOOPS = (cst.For, cst.While)
DISPLAYS = (cst.Tuple, cst.List)
COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)
FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_LINKS = (cst.Attribute, cst.Subscript, cst.Call)
SUITES = (cst.IndentedBlock, cst.SimpleStatementSuite)


class Open(enum.Enum):
    """What `Tree.climbed` is told where a node leaves open what is asked."""

    OPEN = "open"


OPEN: Final = Open.OPEN
_SCOPES = frozenset((*COMPREHENSIONS, *FUNCTIONS, cst.ClassDef))


_CHILDREN: dict[type, Callable[[Any], list[cst.CSTNode]]] = {}


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the child nodes that carry meaning, in field order."""
    kind = type(node)
    if kind not in _CHILDREN:
        # A function that lists the children of one type of node: by its fields' types, read
        # once.
        parts = []
        for each in dataclasses.fields(kind):
            if (
                each.name in SKIPPED
                or each.name.startswith("whitespace")
                or each.type in (str, bool, str | None)
            ):
                continue
            text = str(each.type)
            if text.startswith("typing.Sequence["):
                parts.append(f"*node.{each.name}")
            elif isinstance(each.type, type):
                parts.append(f"node.{each.name}")
            elif "Sequence" in text or "Sentinel" in text:
                parts.append(f"*nodes(node.{each.name})")
            else:
                parts.append(f"*((at,) if (at := node.{each.name}) is not None else ())")
        names: dict[str, Any] = {"nodes": _nodes}
        exec(f"def read(node): return [{', '.join(parts)}]", names)  # noqa: S102 - libcst's fields
        found: Callable[[Any], list[cst.CSTNode]] = names["read"]
        _CHILDREN[kind] = found
    return _CHILDREN[kind](node)


def _nodes(value: object) -> list[cst.CSTNode]:
    """Return the nodes in a field that may hold one, several, or something else."""
    several = value if isinstance(value, (list, tuple)) else (value,)
    return [each for each in several if isinstance(each, cst.CSTNode)]


class Tree:
    """Parents, owning functions and nodes by type of one parsed file."""

    def __init__(self, root: cst.Module) -> None:
        self.root = root
        self.parents: dict[cst.CSTNode | None, cst.CSTNode] = {}
        self._classes: dict[cst.CSTNode, cst.ClassDef | None] = {}
        self._defs: dict[cst.CSTNode, cst.FunctionDef | None] = {}
        self.owners: dict[cst.CSTNode, Owner] = {}
        self.scopes: dict[cst.CSTNode, cst.CSTNode] = {}
        """The class body or comprehension around a node, where that is nearer than its owner."""
        self.by_type: dict[type, list[Any]] = {}
        self.order: dict[cst.CSTNode, int] = {}
        self._ends: list[int]
        self._named: defaultdict[str, list[cst.Name]] | None = None
        self._named_orders: dict[str, list[int]] = {}
        self._small: dict[cst.CSTNode, cst.CSTNode | None] = {}
        self._loops: dict[cst.CSTNode, tuple[Loop, ...]] = {}
        self._orders: dict[type, list[int]] = {}
        self._walk(root)

    def _walk(self, root: cst.Module) -> None:
        stack: list[cst.CSTNode] = [root]
        parents, owners, by_type, order, scopes = (
            self.parents,
            self.owners,
            self.by_type,
            self.order,
            self.scopes,
        )
        owners[root] = root
        readers, pop = _CHILDREN, stack.pop
        count = 0
        while stack:
            node = pop()
            kind = type(node)
            order[node] = count
            count += 1
            if kind in by_type:
                by_type[kind].append(node)
            else:
                by_type[kind] = [node]
            below = readers[kind](node) if kind in readers else children(node)
            if not below:
                continue
            owner, scope = owners[node], scopes.get(node)
            for child in below:
                parents[child] = node
                owners[child] = owner
                if scope is not None:
                    scopes[child] = scope
            if kind in _SCOPES:
                self._enter(node, below)
            elif type(node) is cst.Param:
                # Its default and its annotation see the names around the function, not those
                # inside.
                for child in below:
                    if child is not node.name:
                        scopes[child] = self.scope(owner)
            stack += below[::-1]
        # Note for each node the place of the last one inside it.
        nodes = list(order)
        self._ends = ends = list(order.values())
        for place in range(len(nodes) - 1, 0, -1):
            above = order[parents[nodes[place]]]
            if ends[above] < ends[place]:
                ends[above] = ends[place]

    def _enter(self, node: cst.CSTNode, below: list[cst.CSTNode]) -> None:
        """Note which children of a function, class or comprehension lie in its scope."""
        for child in below:
            # Decorators, annotations and a function's own name are evaluated where it is defined.
            if isinstance(node, FUNCTIONS) and not (
                isinstance(node, cst.FunctionDef)
                and type(child) in (cst.Decorator, cst.Annotation, cst.Name)
            ):
                self.owners[child] = node
                self.scopes.pop(child, None)
            elif type(node) in COMPREHENSIONS or (
                isinstance(node, cst.ClassDef) and child is node.body
            ):
                self.scopes[child] = node

    def scope(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the innermost function, class body, comprehension or module in which `node`
        stands."""
        return self.scopes.get(node) or self.owners[node]

    def end(self, node: cst.CSTNode) -> int:
        """Return the place in `order` of the last node inside `node`."""
        return self._ends[self.order[node]]

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the innermost ``def`` that holds `node` (lambdas passed through), or None at
        module level."""
        owners = self.owners
        owner: cst.CSTNode = owners.get(node, self.root)
        while type(owner) is cst.Lambda:
            owner = owners[owner]
        return owner if type(owner) is cst.FunctionDef else None

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the class whose method holds `node` (also from nested functions), or None."""
        known = self._classes
        return known[node] if node in known else self._nearest(node, cst.ClassDef, known)

    def def_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the innermost ``def`` that holds `node`, its decorators, parameters and name
        counted to it."""
        return self._nearest(node, cst.FunctionDef, self._defs)

    def _nearest(
        self, node: cst.CSTNode, kind: type[N], known: dict[cst.CSTNode, N | None]
    ) -> N | None:
        def nearest(_: cst.CSTNode, above: cst.CSTNode | None) -> N | Open | None:
            return above if above is None or type(above) is kind else OPEN

        return self.climbed(node, known, nearest)

    def climbed(
        self,
        node: cst.CSTNode,
        known: dict[cst.CSTNode, T],
        decide: Callable[[cst.CSTNode, cst.CSTNode | None], T | Open],
    ) -> T:
        """Return what decides about `node` on the way up from it.

        Args:
            node: where to start.
            known: what was found before; it gets what is found for all nodes that are passed, so
                that a chain of 3,000 calls is climbed once.
            decide: what a node and its parent, None for the module's, say; `OPEN` to climb on.
        """
        if node in known:
            return known[node]
        passed: list[cst.CSTNode] = []
        at, parents = node, self.parents
        while at not in known:
            passed.append(at)
            above = parents.get(at)
            found = decide(at, above)
            if found is not OPEN:
                break
            assert above is not None, "the module's parent decides"
            at = above
        else:
            found = known[at]
        known.update(dict.fromkeys(passed, found))
        return found

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the parent, its parent, and so on up to the module."""
        parents = self.parents
        while node in parents:
            node = parents[node]
            yield node

    def links_around(self, node: cst.CSTNode, *kinds: type[Link]) -> Iterator[cst.CSTNode]:
        """Yield a node and the attributes, subscripts and calls around it, or these kinds alone:
        ``x``, ``x.a`` and ``x.a[0]`` for ``x``."""
        yield node
        yield from takewhile(lambda at: isinstance(at, kinds or _LINKS), self.ancestors(node))

    def chain_around(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the longest chain of methods and attributes that starts with `node`."""
        *_, whole = self.links_around(node, cst.Attribute, cst.Call)
        return whole

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the innermost statement that holds `node`: a simple statement line or a compound
        statement."""
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return node
        for above in self.ancestors(node):
            if isinstance(above, (cst.SimpleStatementLine, cst.BaseCompoundStatement, cst.Module)):
                return above
        return self.root

    def beside(self, node: cst.CSTNode) -> tuple[list[cst.CSTNode], list[cst.CSTNode]]:
        """Return the statements before that of a node in its block, and those behind it."""
        line = self.statement(node)
        block = self.parents.get(line)
        lines: list[cst.CSTNode] = [line]
        if isinstance(block, (cst.IndentedBlock, cst.Module)):
            lines = [*block.body]
        at = lines.index(line)
        return lines[:at], lines[at + 1 :]

    def small_statement(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the small statement (``x = 1`` of ``x = 1; y = 2``) that holds `node`, if any."""
        if node in self._small:
            return self._small[node]
        if isinstance(node, cst.BaseSmallStatement):
            return node

        def small(_: cst.CSTNode, above: cst.CSTNode | None) -> cst.CSTNode | Open | None:
            if isinstance(above, cst.BaseSmallStatement):
                return above
            ends = above is None or isinstance(above, (cst.BaseCompoundStatement, cst.Module))
            return None if ends else OPEN

        return self.climbed(node, self._small, small)

    def loops(self, node: cst.CSTNode) -> tuple[Loop, ...]:
        """Return the loops of the same function whose body repeats `node`, innermost first."""
        if node in self._loops:
            return self._loops[node]

        def around(at: cst.CSTNode, above: cst.CSTNode | None) -> tuple[Loop, ...] | Open:
            kind = type(above)
            if above is None or kind is cst.FunctionDef or kind is cst.ClassDef:
                return ()
            if isinstance(above, LOOPS) and (
                at is above.body or (isinstance(above, cst.While) and at is above.test)
            ):
                return (above, *self.loops(above))
            return OPEN

        return self.climbed(node, self._loops, around)

    def nodes(self, *types: type[N]) -> list[N]:
        """Return all nodes of exactly these types in source order."""
        if len(types) == 1:
            return self.by_type.get(types[0], [])
        out: list[N] = [n for t in types for n in self.by_type.get(t, [])]
        out.sort(key=self.order.__getitem__)
        return out

    def call_of(self, name: cst.BaseExpression) -> cst.Call | None:
        """Return the call of what a name, or an attribute of that name, means."""
        above = self.parents[name]
        func = above if isinstance(above, cst.Attribute) and above.attr is name else name
        call = self.parents[func]
        return call if isinstance(call, cst.Call) and call.func is func else None

    def named(self, name: str, inside: cst.CSTNode | None = None) -> list[cst.Name]:
        """Return the Name nodes spelled `name` in the file, or inside a node, in source order."""
        if self._named is None:
            self._named = defaultdict(list)
            for node in self.by_type.get(cst.Name, ()):
                self._named[node.value].append(node)
        if name not in self._named:
            return []
        every = self._named[name]
        return every if inside is None else self.inside(every, self._places(name, every), inside)

    def _places(self, name: str, nodes: list[cst.Name]) -> list[int]:
        found = self._named_orders.get(name)
        if found is None:
            found = self._named_orders[name] = [self.order[node] for node in nodes]
        return found

    def inside(self, nodes: list[N], orders: list[int], outer: cst.CSTNode) -> list[N]:
        """Return those of some nodes, given in source order with their places in it, that are or
        lie inside `outer`."""
        low = bisect.bisect_left(orders, self.order[outer])
        return nodes[low : bisect.bisect_right(orders, self.end(outer), low)]

    def within(self, node: cst.CSTNode, *types: type[N], nested: bool = False) -> Iterator[N]:
        """Return `node` and its descendants of exactly these types, in source order.

        Bodies of functions defined inside are left out unless `nested`.
        """
        low, owners = self.order[node], self.owners
        high = self._ends[low]
        found: list[N] = []
        for node_type in types:
            every = self.by_type.get(node_type)
            if every is None:
                continue
            orders = self._orders.get(node_type)
            if orders is None:
                orders = self._orders[node_type] = [self.order[each] for each in every]
            first = bisect.bisect_left(orders, low)
            if first < len(orders) and orders[first] <= high:
                found += every[first : bisect.bisect_right(orders, high, first)]
        if len(types) > 1:
            found.sort(key=self.order.__getitem__)
        if found and not nested:
            owner = node if type(node) in FUNCTIONS else owners[node]
            found = [each for each in found if owners[each] is owner or each is node]
        return iter(found)

    def contains(self, node: cst.CSTNode, *types: type[cst.CSTNode], nested: bool = False) -> bool:
        """Say whether `node` is or holds one of exactly these types; see `within`."""
        return any(True for _ in self.within(node, *types, nested=nested))

    def names_in(self, *nodes: cst.CSTNode) -> frozenset[str]:
        """Return the plain names inside expressions or targets."""
        return frozenset({n.value for node in nodes for n in self.within(node, cst.Name)})

    def is_method(self, function: cst.FunctionDef) -> bool:
        """Say whether a function is defined in a class body."""
        return isinstance(self.scope(function), cst.ClassDef)

    def parameters_by_place(self, function: cst.FunctionDef, call: cst.Call) -> list[str]:
        """Return the names of the parameters of a function of this file that a call's positional
        arguments go to, without ``self``."""
        names = [p.name.value for p in positional_parameters(function)]
        static = any(is_name(d.decorator, "staticmethod") for d in function.decorators)
        through = not is_name(call.func, function.name.value)  # ``sample = self.sample``, too
        return names[1:] if through and not static and self.is_method(function) else names

    def bind(self, function: cst.FunctionDef, call: cst.Call) -> dict[str, cst.BaseExpression]:
        """Return which argument of a call each parameter of a function of this file gets; stops at
        ``*args``."""
        names = self.parameters_by_place(function, call)
        out: dict[str, cst.BaseExpression] = {}
        position = 0
        for arg in call.args:
            if arg.star:
                position = len(names)
            elif arg.keyword is not None:
                out[arg.keyword.value] = arg.value
            elif position < len(names):
                out[names[position]] = arg.value
                position += 1
        return out

    def spelled(self, node: cst.CSTNode, place: cst.CSTNode) -> bool:
        """Say whether a part of a node is written as a name, attribute or other place is."""
        return any(each.deep_equals(place) for each in self.within(node, type(place)))

    def is_within(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Say whether `node` is `outer` or lies inside it."""
        return self.order[outer] <= self.order[node] <= self.end(outer)


def callee(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a call calls, and any other expression as it is: a decorator with or without
    arguments, say."""
    return node.func if isinstance(node, cst.Call) else node


def last_small(suite: E) -> E | cst.CSTNode:
    """Return the last statement of a block, of several on its line the last one; any other node as
    it is."""
    last: E | cst.CSTNode = suite
    while isinstance(last, (cst.BaseSuite, cst.SimpleStatementLine)) and last.body:
        last = last.body[-1]
    return last


def links(node: E, *kinds: type[Link]) -> Iterator[E | cst.BaseExpression]:
    """Yield an expression and what its attributes, subscripts and calls are of, or these kinds
    alone: ``x.a[0]``, ``x.a`` and ``x`` of ``x.a[0]``."""
    at: E | cst.BaseExpression = node
    yield at
    while isinstance(at, kinds or _LINKS):
        at = at.func if isinstance(at, cst.Call) else at.value
        yield at


def root_of(node: E, *kinds: type[Link]) -> E | cst.BaseExpression:
    """Return what a chain of attributes, subscripts and calls starts with, or one of these kinds
    alone: ``x`` of ``x.a[0].b()``."""
    *_, root = links(node, *kinds)
    return root


def receiver(node: E) -> E | cst.BaseExpression:
    """Return what a chain of methods is called on: ``net`` of ``net.to(device).eval()``."""
    at: E | cst.BaseExpression = node
    while isinstance(at, cst.Call) and isinstance(at.func, cst.Attribute):
        at = at.func.value
    return at


def operands(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what ``and``, ``or`` and ``not`` join in a test."""
    return components(test, cst.BooleanOperation, cst.UnaryOperation)


def last_name(node: cst.CSTNode) -> str:
    """Return what stands behind the last dot of an attribute, or a plain name; else nothing."""
    return node.value if isinstance(node, cst.Name) else attr_of(node)


def method_called(node: cst.CSTNode | None) -> str:
    """Return the attribute that a call calls, ``item`` of ``loss.item()``; empty for any other
    node."""
    return attr_of(node.func) if isinstance(node, cst.Call) else ""


def attr_of(node: cst.CSTNode | None) -> str:
    """Return what stands behind the last dot of an attribute; empty for any other node."""
    return node.attr.value if isinstance(node, cst.Attribute) else ""


def components(node: cst.BaseExpression, *kinds: type[cst.CSTNode]) -> Iterator[cst.BaseExpression]:
    """Yield what an expression is made of, seen through tuples, lists and the like, choices and
    operations of the kinds that are given (of operations also the kinds of their operators), in
    order, of a comparison its left side; itself where it is of none."""
    todo = [node]
    while todo:
        at = todo.pop()
        if type(at) not in kinds and type(getattr(at, "operator", None)) not in kinds:
            yield at
            continue
        match at:
            case cst.BinaryOperation(left, right=right) | cst.BooleanOperation(left, right=right):
                todo += [right, left]
            case cst.UnaryOperation(expression=inner) | cst.Comparison(inner):
                todo.append(inner)
            case cst.IfExp(body=body, orelse=orelse):
                todo += [orelse, body]
            case _:
                todo += [each.value for each in reversed(getattr(at, "elements", ()))]


def is_name(node: cst.CSTNode | None, *names: str | None) -> TypeGuard[cst.Name]:
    """Say whether a node is a plain name, one of these."""
    return isinstance(node, cst.Name) and node.value in names


def is_zero(node: cst.CSTNode | None) -> bool:
    """Say whether a node is the number 0, written out."""
    return isinstance(node, (cst.Integer, cst.Float)) and not node.evaluated_value


def literal(node: cst.CSTNode | None) -> int | str | None:
    """Return the whole number, or the text, that is written out; None for any other node."""
    found = node.evaluated_value if isinstance(node, (cst.Integer, cst.SimpleString)) else None
    return found if isinstance(found, (int, str)) else None


def has_star(call: cst.Call) -> bool:
    """Say whether a call is handed the parts of a list or dictionary."""
    return any(arg.star for arg in call.args)


def keyword_of(arg: cst.Arg) -> str:
    """Return the keyword of an argument; empty where it has none."""
    return arg.keyword.value if arg.keyword is not None else ""


def parameters_of(function: cst.FunctionDef | cst.Lambda) -> tuple[cst.Param, ...]:
    """Return the parameters of a function, without ``*args`` and ``**kwargs``."""
    return (*positional_parameters(function), *function.params.kwonly_params)


def positional_parameters(function: cst.FunctionDef | cst.Lambda) -> tuple[cst.Param, ...]:
    """Return the parameters of a function that a call may give by their places."""
    return (*function.params.posonly_params, *function.params.params)


def positional(call: cst.Call) -> list[cst.BaseExpression]:
    """Return what a call is given without a keyword."""
    return [arg.value for arg in call.args if arg.keyword is None]


def targets_of(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return what a statement, or a part of one, binds a value to; of ``with tqdm(loader) as bar``,
    bar."""
    if isinstance(node, cst.Assign):
        return [each.target for each in node.targets]
    if isinstance(node, cst.WithItem):
        return [node.asname.name] if node.asname is not None else []
    return [getattr(node, "target")]  # noqa: B009


def argument_for(call: cst.Call, position: int | None, name: str) -> cst.BaseExpression | None:
    """Return what a call gives for a parameter, by its name or at its position; None where it gives
    nothing, or by stars."""
    named = next((arg.value for arg in call.args if keyword_of(arg) == name), None)
    if named is not None or position is None or not 0 <= position < len(call.args):
        return named
    plain = all(arg.keyword is None and not arg.star for arg in call.args[: position + 1])
    return call.args[position].value if plain else None
