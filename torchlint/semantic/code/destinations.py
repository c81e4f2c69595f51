"""Where a value comes to in its function: the calls that take it, the tests that ask it, the
loops over it, what returns or stores it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops

_PARTS = (
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.SubscriptElement,
    cst.Index,
    cst.Arg,
    cst.Tuple,
    cst.List,
    cst.Dict,
    cst.Element,
    cst.DictElement,
    cst.StarredDictElement,
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.ComparisonTarget,
    cst.IfExp,
    cst.NamedExpr,
    cst.ListComp,
    cst.GeneratorExp,
    cst.DictComp,
    cst.FormattedString,
    cst.FormattedStringExpression,
    cst.ConcatenatedString,
)
_TESTS = (cst.If, cst.While, cst.IfExp)
_SEVERAL = ops.having("several") | ops.having("several-with-more")
_TRAITS = frozenset("shape size dim ndim dtype device".split())
"""What is known of a tensor without its values."""
_NAMES = 4
"""Further names that a value may be given."""

_TAKING = (cst.Call, cst.Return, cst.Yield, cst.Assign, cst.AugAssign, cst.Slice)
Place = (
    cst.Call
    | cst.If
    | cst.While
    | cst.IfExp
    | cst.For
    | cst.Return
    | cst.Yield
    | cst.Assign
    | cst.AugAssign
)


@question(yes="the value comes to `{answer}`", no="the value comes to nothing that is known")
def destinations(module: Module, node: cst.CSTNode) -> tuple[Place, ...]:
    """Return the calls, tests, loops, returns, yields and assignments that a value comes to in its
    function, also as a part of what is computed from it, and under a few further names."""
    places = (place for _, place in arrivals(module, node))
    return tuple(dict.fromkeys(each for each in places if not isinstance(each, cst.Slice)))


@question(yes="the value comes to `{answer}`", no="the value comes to nothing that is known")
def arrivals(
    module: Module, node: cst.CSTNode
) -> tuple[tuple[cst.CSTNode, Place | cst.Slice], ...]:
    """Return the destinations of a value, and the slices of which it is a bound, each with the part
    of it by which the value comes in: an argument, a function's object, an element of the tuple
    that is returned."""
    return tuple(_destinations(module, node, _NAMES, set()))


def _destinations(
    module: Module, node: cst.CSTNode, names: int, seen: set[cst.CSTNode]
) -> Iterator[tuple[cst.CSTNode, Place | cst.Slice]]:
    child = inner = node
    key: cst.BaseExpression | None = None
    for above in module.ancestors(node):
        if isinstance(above, _TESTS) and above.test is child:
            yield child, above
        if isinstance(above, cst.For) and above.iter is child:
            yield child, above
        if isinstance(above, _TAKING):
            listed = isinstance(above, cst.Return) and isinstance(child, cst.Tuple)
            yield inner if listed else child, above
        ends = not isinstance(above, _PARTS) or _asks_no_value(above)
        if ends or isinstance(above, cst.NamedExpr):
            for read in _reads(module, above, child, inner) if names else ():
                if read not in seen and not _asks_another_key(module, read, key):
                    seen.add(read)
                    yield from _destinations(module, read, names - 1, seen)
        if ends:
            return
        if isinstance(above, cst.DictElement):
            key = above.key
        elif isinstance(above, cst.Call) and method_called(above) != "update":
            key = None
        child, inner = above, child


def _asks_another_key(module: Module, read: cst.CSTNode, key: cst.BaseExpression | None) -> bool:
    """Say whether a read of a mapping that holds a value under a text asks for another one:
    ``metrics["loss"]``, ``metrics.get("loss")``."""
    above = module.parent(read)
    match above, module.parent(above) if above is not None else None:
        case (
            cst.Subscript(
                holder,
                [cst.SubscriptElement(cst.Index(cst.SimpleString() as asked))],
            ),
            _,
        ) if holder is read:
            pass
        case (
            cst.Attribute(attr=cst.Name("get" | "pop")),
            cst.Call(args=[cst.Arg(cst.SimpleString() as asked), *_]),
        ):
            pass
        case _:
            return False
    return isinstance(key, cst.SimpleString) and asked.evaluated_value != key.evaluated_value


def _asks_no_value(node: cst.CSTNode) -> bool:
    """Say whether a node asks which object there is, or for a size, not what it holds:
    ``x is None``, ``len(x)``, ``x.shape``."""
    match node:
        case cst.Call(cst.Name("len")):
            return True
        case cst.Attribute(attr=cst.Name(asked)) if asked in _TRAITS:
            return True
    operators = (each.operator for each in getattr(node, "comparisons", ()))
    return any(isinstance(operator, (cst.Is, cst.IsNot)) for operator in operators)


def _reads(
    module: Module, above: cst.CSTNode, child: cst.CSTNode, inner: cst.CSTNode
) -> list[cst.Name]:
    """Return the reads of the name that a statement, or a loop over the value, binds it to; `inner`
    is the element where a tuple is taken apart."""
    match above:
        case cst.Assign(
            [cst.AssignTarget(cst.Tuple(targets))],
            cst.Tuple(elements),
        ) if isinstance(inner, cst.Element) and len(targets) == len(elements):
            target = targets[elements.index(inner)].value
            if isinstance(target, cst.Name):
                return list(readers_of(module, above, target.value))
        case cst.Assign([cst.AssignTarget(cst.Tuple() as target)], cst.Call() as value) if (
            value is child and method_called(value) in _SEVERAL
        ):
            names = [each.value for each in module.within(target, cst.Name)]
            return [read for name in names for read in readers_of(module, above, name)]
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            return list(readers_of(module, above, name)) if value is child else []
        case cst.Assign([cst.AssignTarget(cst.Subscript() as stored)], value):
            return _reads_of_holder(module, stored) if value is child else []
        case cst.AnnAssign(cst.Name(name), value=value) | cst.NamedExpr(cst.Name(name), value):
            return list(readers_of(module, above, name)) if value is child else []
        case cst.Expr(
            cst.Call(
                cst.Attribute(cst.Name(name), cst.Name("update")),
                [cst.Arg()],
            )
        ):
            later = reads_of(module, module.scope(above), name)
            return [
                read
                for read in later
                if module.before(above, read) and not module.is_within(read, above)
            ]
        case cst.Expr(cst.Call(cst.Attribute(cst.Name(name), cst.Name("append")), [cst.Arg()])):
            later = reads_of(module, module.scope(above), name)
            tests = [each.test for each in module.loops(above) if isinstance(each, cst.While)]
            return [
                read
                for read in later
                if _is_last(module, read)
                and (
                    module.before(above, read)
                    or any(module.is_within(read, test) for test in tests)
                )
            ]
        case cst.For(target, iterated) if iterated is child:
            names = _carriers(module, target, iterated)
            return [read for name in names for read in _named(module, above.body, name)]
        case cst.CompFor(target, iterated) if iterated is child:
            holder = module.parent(above)
            names = _carriers(module, target, iterated)
            reads = [_named(module, holder, name) for name in names] if holder is not None else []
            return [read for each in reads for read in each if not module.is_within(read, target)]
    return []


def _is_last(module: Module, read: cst.CSTNode) -> bool:
    """Say whether a read of a list takes its last element: ``losses[-1]``."""
    match module.parent(read):
        case cst.Subscript(
            holder,
            [cst.SubscriptElement(cst.Index(cst.UnaryOperation(cst.Minus(), cst.Integer("1"))))],
        ):
            return holder is read
    return False


def _carriers(module: Module, target: cst.BaseExpression, iterated: cst.CSTNode) -> list[str]:
    """Return the names of a loop that get what it iterates over: neither the keys of a mapping nor
    the position."""
    match target, iterated:
        case (
            cst.Tuple([_, last]),
            cst.Call(cst.Attribute(attr=cst.Name("items")) | cst.Name("enumerate")),
        ):
            target = last.value
        case _, cst.Call(cst.Attribute(attr=cst.Name("keys"))):
            return []
    return [each.value for each in module.within(target, cst.Name)]


def _reads_of_holder(module: Module, stored: cst.Subscript) -> list[cst.Name]:
    """Return the reads, behind a store under a key, of the mapping as a whole and of that key."""
    holder, key = stored.value, stored.slice[0].slice
    if not isinstance(holder, cst.Name) or not (
        isinstance(key, cst.Index) and isinstance(key.value, cst.SimpleString)
    ):
        return []
    reads = reads_of(module, module.scope(stored), holder.value)
    return [
        read
        for read in reads
        if module.before(stored, read)
        and not _asks_another_key(module, read, key.value)
        and (
            not isinstance(part := module.parent(read), cst.Subscript)
            or part.value is not read
            or part.slice[0].slice.deep_equals(key)
        )
    ]


def _named(module: Module, scope: cst.CSTNode, name: str) -> list[cst.Name]:
    return [
        each
        for each in module.within(scope, cst.Name)
        if each.value == name and not isinstance(module.parent(each), (cst.For, cst.CompFor))
    ]
