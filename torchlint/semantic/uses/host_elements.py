"""Elements of tensors that are older than a loop, which the loop reads on the host one by one: the
tensors could be brought there once, before it, whatever else the loop does with them."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.reaching import definitions_of, read_after
from torchlint.semantic.code.tree import attr_of, is_name, method_called
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.elements import (
    base_of_views,
    certainly_later,
    one_tensor,
)
from torchlint.semantic.uses.host_loops import on_condition
from torchlint.semantic.uses.object_uses import binding_uses
from torchlint.semantic.uses.unavoidable_syncs import condition_waits
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU

_EXACT = ops.having("compare") | ops.having("cast") | ops.having("same")
_READS = ops.having("reads")
_CASTS = frozenset(f"builtins.{name}" for name in ("int", "float", "bool", "range"))
_LOOKED_UP = ("list", "tuple", "dict", "str")
_TESTS = (cst.If, cst.While, cst.IfExp, cst.Assert, cst.CompIf)
_LATER = (cst.FunctionDef, cst.Lambda, cst.GeneratorExp)
_WHOLE = (cst.Add, cst.Subtract, cst.Multiply, cst.FloorDivide, cst.BitAnd, cst.BitOr)
_NUMBERS = ("number", "bool", "shape")
_FRESH = ops.having("fresh")
_FRESH_FUNCTIONS = ops.dotted("fresh") | ops.dotted("factory")
_WEIGHTED = ops.dotted("layer", "parameters")
_POSITIONS = 2
"""What takes more positions to get at one element is too large to be copied for some of them."""


@frozen
class HostElements:
    """Reads on the host of elements of tensors that are older than a loop.

    Args:
        loop: the loop.
        tensors: the names of the tensors that it takes elements from by their positions.
        uses: the uses of these names of which elements are read on the host.
        copies: the calls of ``.cpu()`` behind them that are no longer needed.
        iterated: what the loop goes over, where that is whose elements are read; else None.
        kept: whether nothing can change the values of the tensors while the loop runs.
    """

    loop: cst.CSTNode
    tensors: tuple[str, ...]
    uses: tuple[cst.Name, ...]
    copies: tuple[cst.Call, ...]
    iterated: cst.BaseExpression | None
    kept: bool


class _UnknownError(Exception):
    """An expression that does not come to the host with the tensors."""


@question(
    yes="`{0}` is an element, read on the host, of a tensor that is older than the loop",
    no="`{0}` is made in the loop, or of something that stays on the device",
)
def host_elements(module: Module, node: cst.BaseExpression) -> HostElements | None:
    """Return what a loop reads on the host, of the tensors of which the tensor `node`, which it
    reads there, is an element.

    The loop is the outermost one that neither binds the tensors nor changes them; where that is not
    known, the outermost that does neither by their names, below the loop over steps.
    """
    loops = [each for each in module.loops(node) if not on_condition(module, each, node)]
    if loops and condition_waits(module, loops[0]):
        return None
    element = _element(module, loops[0], node) if loops else None
    if element is not None:
        return element
    found: list[HostElements] = []
    for loop in loops:
        here = _Elements(module, loop).found(node)
        if here is None:
            break
        found.append(here)
    kept = [each for each in found if each.kept]
    if not kept:
        apart = (each for each in found[1:] if loop_kind(module, each.loop) is LoopKind.OTHER)
        kept = [*found[:1], *apart]
    return kept[-1] if kept else None


@question(
    yes="`{0}` is an element of a tensor that is older than the loop over its positions",
    no="`{0}` is no element of a tensor that is older than the loop",
)
def one_of_older(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor is taken by its position from one that is older than a loop, other than
    one over batches, whose iterations take one after the other; the loop does not write into it. So
    are the elements of a tensor that a loop or a comprehension goes over."""
    if isinstance(node, cst.Name) and _is_element(module, node):
        return True
    loop = module.loop(node)
    if not isinstance(loop, cst.For) or loop_kind(module, loop) is not LoopKind.OTHER:
        return False
    match node:
        case cst.Subscript(cst.Name() as whole, position):
            pass
        case _:
            return False
    bound = set(module.names_in(loop.target))
    varies = any(not bound.isdisjoint(module.names_in(each)) for each in position)
    stored = (
        module.names_in(each.target.value)
        for each in module.within(loop.body, cst.AssignTarget)
        if isinstance(each.target, cst.Subscript)
    )
    made = definitions_of(module, whole)
    older = bool(made) and not any(module.is_within(each, loop) for each in made)
    return varies and older and not any(whole.value in names for names in stored)


def _is_element(module: Module, name: cst.Name) -> bool:
    """Say whether a name is what a loop over a tensor, and not over batches, takes out of it."""
    made = definitions_of(module, name)
    match made:
        case [cst.Assign([cst.AssignTarget(cst.Name())], cst.Name() as other)]:
            return _is_element(module, other)
    return bool(made) and all(
        isinstance(each, (cst.For, cst.CompFor))
        and any(
            is_name(goes.target, name.value) and inferred(module, goes.iterated).tensor
            for goes in loop_sources(module, each)
        )
        and (isinstance(each, cst.CompFor) or loop_kind(module, each) is LoopKind.OTHER)
        for each in made
    )


def _element(
    module: Module, loop: cst.For | cst.While, node: cst.BaseExpression
) -> HostElements | None:
    """Return the reads of the elements that a loop over one tensor binds to a name, where it does
    nothing else with them."""
    if not isinstance(loop, cst.For):
        return None
    names = module.names_in(node)
    for goes in loop_sources(module, loop):
        target, iterated = goes.target, goes.iterated
        if not isinstance(target, cst.Name) or target.value not in names:
            continue
        tensor = on_device(module, iterated) is True and one_tensor(module, iterated)
        if not tensor or read_after(module, loop, target.value):
            return None
        way = _Elements(module, loop, target.value)
        tops = [way.end(use) for use in flow(module).names_in(loop.body, target.value)]
        ends = [top for top in tops if top is not None]
        if not ends or len(ends) < len(tops):
            return None
        kept = stays_as_it_is(module, iterated, loop)
        return HostElements(loop, (), (), _copies(module, ends), iterated, kept)
    return None


def _copies(module: Module, tops: Iterable[cst.BaseExpression]) -> tuple[cst.Call, ...]:
    found: dict[cst.Call, None] = {}
    for top in tops:
        for call in module.within(top, cst.Call):
            if method_called(call) == "cpu":
                found[call] = None
    return tuple(found)


class _Elements:
    """The reads of a loop that come to the host with the tensors of which they read elements."""

    def __init__(self, module: Module, loop: cst.For | cst.While, element: str = "") -> None:
        self.module = module
        self.loop = loop
        self.element = element

    def found(self, node: cst.BaseExpression) -> HostElements | None:
        """Return the reads of the tensors of which `node` is an element, and of all that are read
        together with them; None where one of them is no such tensor."""
        try:
            names = {use.value: use for use in self.taken(node)}
        except _UnknownError:
            return None
        uses: dict[cst.Name, None] = {}
        tops: list[cst.BaseExpression] = []
        done: set[str] = set()
        while left := [name for name in names if name not in done]:
            done.add(left[0])
            for use in flow(self.module).names_in(self.loop.body, left[0]):
                top = self.end(use)
                if top is not None:
                    tops.append(top)
                    uses.update(dict.fromkeys(self.taken(top)))
                    names = {each.value: each for each in uses} | names
        if not any(self.module.is_within(use, node) for use in uses):
            return None
        if any(self._is_changed_by_name(name) for name in names):
            return None
        order = self.module.tree.order
        ordered = sorted(uses, key=lambda use: order[use])
        tensors = tuple(dict.fromkeys(use.value for use in ordered))
        kept = all(stays_as_it_is(self.module, names[name], self.loop) for name in tensors)
        copies = _copies(self.module, tops)
        return HostElements(self.loop, tensors, tuple(ordered), copies, None, kept)

    def _is_changed_by_name(self, name: str) -> bool:
        """Say whether the loop changes a tensor by its own name."""
        for use in flow(self.module).names_in(self.loop.body, name):
            above = self.module.parent(use)
            while isinstance(above, (cst.Subscript, cst.Attribute)):
                use_of, above = above, self.module.parent(above)
                method = attr_of(use_of)
                if method.endswith("_") and not method.startswith("_"):
                    return True
            if isinstance(above, (cst.AssignTarget, cst.Del)):
                return True
            if isinstance(above, cst.AugAssign) and self.module.is_within(use, above.target):
                return True
        return False

    # -- down: what an expression takes ------------------------------------------------------------

    def taken(self, node: cst.BaseExpression) -> list[cst.Name]:
        """Return the names of the tensors that an expression takes elements of, and computes with
        in a way that gives the same on the host.

        Raises:
            _UnknownError: it uses something else that may lie on the device.
        """
        match node:
            case cst.Integer() | cst.Float():
                return []
            case cst.Name():
                return self._named(node)
            case cst.Attribute(value, cst.Name("data")):
                return self.taken(value)
            case cst.Subscript(value):
                if self._positions(node) > _POSITIONS:
                    raise _UnknownError
                return self.taken(value)
            case cst.UnaryOperation(cst.Minus() | cst.BitInvert(), inner):
                return self.taken(inner)
            case cst.BinaryOperation(left, operator, right) if isinstance(
                operator, _WHOLE
            ) and self._is_whole(node):
                return self.taken(left) + self.taken(right)
            case cst.Comparison(left, [cst.ComparisonTarget() as target]):
                if isinstance(target.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)):
                    raise _UnknownError
                return self.taken(left) + self.taken(target.comparator)
            case cst.Call(cst.Attribute(value, cst.Name(method))) if not node.args and (
                method in _EXACT or method == "cpu"
            ):
                return self.taken(value)
        if self._is_of_host(node):
            return []
        raise _UnknownError

    def _named(self, name: cst.Name) -> list[cst.Name]:
        if name.value == self.element:
            return [name]
        if self._is_of_host(name):
            return []
        made = definitions_of(self.module, name)
        older = bool(made) and not any(self.module.is_within(each, self.loop) for each in made)
        if not older or on_device(self.module, name) is not True:
            raise _UnknownError
        if not one_tensor(self.module, name):
            raise _UnknownError
        return [name]

    def _is_of_host(self, node: cst.BaseExpression) -> bool:
        value = inferred(self.module, node)
        return (value.kind in _NUMBERS and not value.tensor) or (value.tensor and value.host)

    def _is_whole(self, node: cst.BaseExpression) -> bool:
        """Say whether arithmetic is that of integers, as it is in the bounds of a slice."""
        if inferred(self.module, node).dtype in ("int", "bool"):
            return True
        at: cst.CSTNode | None = node
        while isinstance(at, cst.BinaryOperation):
            at = self.module.parent(at)
        return isinstance(at, cst.Slice)

    def _positions(self, node: cst.Subscript) -> int:
        """Return by how many positions an element is taken; each must be known on the host."""
        count = 0
        at: cst.BaseExpression = node
        while isinstance(at, cst.Subscript):
            for part in at.slice:
                if not isinstance(part.slice, cst.Index) or part.slice.star:
                    raise _UnknownError
                index = part.slice.value
                value = inferred(self.module, index)
                number = isinstance(index, cst.Integer) or value.kind == "number"
                on_host = value.tensor and value.device == CPU and value.rank == 0
                if not number and not on_host and not _is_negative(index):
                    raise _UnknownError
                count += 1
            at = at.value
        return count

    # -- up: what is done with it ------------------------------------------------------------------

    def end(self, use: cst.Name) -> cst.BaseExpression | None:
        """Return the whole expression that a use is part of and that is read on the host, or
        None."""
        for above in self.module.ancestors(use):
            if above is self.loop:
                break
            if isinstance(above, _LATER):
                return None
        top: cst.BaseExpression = use
        at: cst.CSTNode | None = self.module.parent(use)
        while at is not None and not isinstance(at, (cst.BaseStatement, cst.BaseSmallStatement)):
            if isinstance(at, cst.BaseExpression):
                try:
                    if use not in self.taken(at):
                        break
                except _UnknownError:
                    if not isinstance(at, cst.Attribute):
                        break  # A method's name alone is nothing; its call may be.
                else:
                    top = at
            at = self.module.parent(at)
        return top if self._is_read(top) else None

    def _is_read(self, node: cst.BaseExpression) -> bool:
        """Say whether an expression stands where the host reads its value, and where a tensor on
        the host gives the same."""
        above = self.module.parent(node)
        match above:
            case cst.Slice():
                return True
            case cst.Index():
                part = self.module.parent(above)
                held = self.module.parent(part)
                if not isinstance(held, cst.Subscript):
                    return False
                return inferred(self.module, held.value).kind in _LOOKED_UP
            case cst.Attribute(attr=cst.Name(method)):
                call = self.module.parent(above)
                return isinstance(call, cst.Call) and call.func is above and method in _READS
            case cst.Arg():
                return self.module.called(self.module.parent(above)) in _CASTS
            case cst.FormattedStringExpression(conversion=None):
                return inferred(self.module, node).rank == 0
            case cst.UnaryOperation(cst.Not()) | cst.BooleanOperation():
                return True
        return isinstance(above, _TESTS) and above.test is node


def _is_negative(index: cst.BaseExpression) -> bool:
    match index:
        case cst.UnaryOperation(cst.Minus(), cst.Integer()):
            return True
    return False


@question(
    yes="nothing changes `{0}` while the loop runs",
    no="`{0}`, or what it shares memory with, may be changed while the loop runs",
)
def stays_as_it_is(module: Module, node: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    """Say whether nothing can change the values of a tensor while a loop runs: torch made it in
    memory of its own, and all that is done with it, by whatever name, is known."""
    return _stays(module, node, loop)


@question()
def _stays(module: Module, node: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    made = base_of_views(module, node)
    if not isinstance(made, cst.Name):
        # Whether an expression gives a tensor in memory of its own.
        match made:
            case cst.BinaryOperation() | cst.Comparison():
                return True
            case cst.UnaryOperation(cst.Minus() | cst.BitInvert()):
                return True
            case cst.Call(func) if (name := module.name(func)) is not None:
                return name in _FRESH_FUNCTIONS
            case cst.Call(func) if inferred(module, func).kind == "module":
                return inferred(module, func).name in _WEIGHTED
            case cst.Call(cst.Attribute(value, cst.Name(method))):
                return method in _FRESH and inferred(module, value).tensor
        return False
    found = definitions_of(module, made)
    return bool(found) and all(_bound_for_good(module, each, made.value, loop) for each in found)


def _bound_for_good(module: Module, definition: cst.CSTNode, name: str, loop: cst.CSTNode) -> bool:
    if not isinstance(definition, (cst.Assign, cst.AnnAssign)) or definition.value is None:
        return False
    for use in binding_uses(module, definition, name, "device"):
        if not certainly_later(module, use, loop, definition):
            return False
    return _stays(module, definition.value, loop)
