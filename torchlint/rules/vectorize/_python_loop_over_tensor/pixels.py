"""Loops that write an array of the host element by element, or label by label."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Module, inferred
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.tree import attr_of, is_name, root_of, targets_of
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import iteration_count

_ENDS = (cst.Break, cst.Return, cst.Raise, cst.Yield, cst.Try, cst.With, cst.While)
_HOST = ("builtins.", "numpy.", "math.", "random.")
_FEW = 8
_SOME = 3


@question(
    yes="nested loops write an array of the host element by element",
    no="the loops write no array of the host element by element, or an iteration needs another one",
)
def writes_pixels(module: Module, loop: cst.For) -> bool:
    """Say whether a loop and one in it count over the sizes of an array and write single elements
    of an array by both numbers, ``mask[y, x] = 1``, of nothing but numbers and what NumPy has."""
    if not _counts(module, loop):
        return False
    inner = [each for each in module.within(loop.body, cst.For) if _counts(module, each)]
    if (
        not any(
            inferred(module, size.value).kind == "shape" or attr_of(size.value) == "shape"
            for each in (loop, *inner)
            for size in module.within(each.iter, cst.Subscript)
        )
        or any(module.within(loop.body, *_ENDS))
        or not all(
            module.called(call).startswith(_HOST) for call in module.within(loop.body, cst.Call)
        )
    ):
        return False
    outer = _loop_variable(loop)
    stores = list(_stores(module, loop))
    return any(
        outer in module.names_in(store)
        and _loop_variable(each) in module.names_in(store)
        and module.is_within(store, each)
        for store in stores
        for each in inner
    ) and all(_stores_apart(module, loop, store, stores) for store in stores)


@question(
    yes="the loop works through the rows of an array with NumPy, one after the other",
    no="the loop goes over no rows of an array, or an iteration needs another one",
)
def works_through_rows(module: Module, loop: cst.For) -> bool:
    """Say whether a loop counts up to the length of an array of the host, and with Python's and
    NumPy's functions makes a row of an array of each row: ``out[t] = (x[t] - x[t].min()) / n``."""
    match loop:
        case cst.For(
            cst.Name(row),
            cst.Call(
                args=[
                    cst.Arg(
                        cst.Subscript(
                            cst.Attribute(array, cst.Name("shape")),
                            [cst.SubscriptElement(cst.Index(cst.Integer("0")))],
                        )
                        | cst.Call(cst.Name("len"), [cst.Arg(array)])
                    )
                ]
            ),
        ) if _counts(module, loop) and inferred(module, array).kind == "ndarray":
            stores = list(_stores(module, loop))
            filled = [each for each in stores if _is_row(each, row)]
            return (
                any(not each.value.deep_equals(array) for each in filled)
                and not any(module.within(loop.body, *_ENDS))
                and all(_by_numpy(module, call) for call in module.within(loop.body, cst.Call))
                and all(_uses_alone(module, loop, each.value, row) for each in filled)
                and not _carries(module, loop)
            )
    return False


def _is_row(part: cst.Subscript, row: str) -> bool:
    """Say whether a subscript takes the row of this number, or a part of it."""
    match part.slice[0].slice:
        case cst.Index(cst.Name(name)):
            return name == row
    return False


def _by_numpy(module: Module, call: cst.Call) -> bool:
    """Say whether a call is of a function of Python's or NumPy's, or of a method of an array."""
    match call.func:
        case cst.Attribute(owner) if inferred(module, owner).kind == "ndarray":
            return True
    return module.called(call).startswith(_HOST)


def _uses_alone(module: Module, loop: cst.For, holder: cst.BaseExpression, row: str) -> bool:
    """Say whether a loop takes nothing of what it fills but the row at hand."""
    uses = (u for u in module.within(loop.body, type(holder)) if u.deep_equals(holder))
    return inferred(module, holder).kind == "ndarray" and all(
        isinstance(above := module.parent(use), cst.Subscript) and _is_row(above, row)
        for use in uses
    )


def _carries(module: Module, loop: cst.For) -> bool:
    """Say whether a loop binds a name that has a value before it: an iteration may need the one
    before."""
    for name in module.names_in(loop.body):
        inside = {
            module.is_within(each, loop) for each in writes_of(module, module.scope(loop), name)
        }
        if len(inside) > 1:
            return True
    return False


@question(
    yes="the loop writes one label after another where another one stands",
    no="the loop maps no labels",
)
def maps_labels(module: Module, loop: cst.For) -> bool:
    """Say whether all that a loop over more than a few labels does is to write a number to each
    place of an array that holds its label: ``mask[mask == label] = number``."""
    count = iteration_count(module, loop)
    bound = module.names_in(loop.target)
    return (count is None or count > _SOME) and all(
        isinstance(line, cst.SimpleStatementLine)
        and all(_maps(module, each, bound) for each in line.body)
        for line in loop.body.body
    )


def _maps(module: Module, line: cst.CSTNode, bound: frozenset[str]) -> bool:
    match line:
        case cst.Assign(
            [
                cst.AssignTarget(
                    cst.Subscript(
                        written,
                        [
                            cst.SubscriptElement(
                                cst.Index(
                                    cst.Comparison(
                                        asked,
                                        [cst.ComparisonTarget(cst.Equal(), label)],
                                    )
                                )
                            )
                        ],
                    )
                )
            ],
            value,
        ):
            kinds = {inferred(module, each).kind for each in (written, asked)}
            plain = not module.contains(value, cst.Call)
            ours = is_name(label, *bound)
            return ours and plain and kinds <= {"ndarray", "tensor"}
    return False


def _counts(module: Module, loop: cst.For) -> bool:
    """Say whether a loop counts, and not up to a small number that is written out."""
    match loop:
        case cst.For(cst.Name(), cst.Call(func)):
            few = iteration_count(module, loop)
            return module.name(func) == "builtins.range" and (few is None or few > _FEW)
    return False


def _loop_variable(loop: cst.For) -> str:
    return loop.target.value if isinstance(loop.target, cst.Name) else ""


def _stores(module: Module, loop: cst.For) -> Iterator[cst.Subscript]:
    """Yield the subscripts that a loop writes to, from the outside: ``x[i][j]`` is one."""
    for target in module.within(loop.body, cst.AssignTarget, cst.AugAssign):
        yield from (each for each in targets_of(target) if isinstance(each, cst.Subscript))


def _stores_apart(
    module: Module, loop: cst.For, store: cst.Subscript, stores: list[cst.Subscript]
) -> bool:
    """Say whether a store is to a single element of an array of the host, of which the loop reads
    no other one."""
    if module.contains(store, cst.Slice):
        return False
    holder = root_of(store, cst.Subscript)
    if inferred(module, holder).kind != "ndarray":
        return False
    written = {written for each in stores for written in module.within(each, type(holder))}
    return all(
        use in written or any(above.deep_equals(store) for above in module.ancestors(use))
        for use in module.within(loop.body, type(holder))
        if use.deep_equals(holder)
    )
