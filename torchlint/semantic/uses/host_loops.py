"""Loops that read on the host what they compute of each element or class: the tensors could be
brought there once, before the loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_READS = ops.having("method", "reads") | ops.HOST_METHODS
_EXACT = ops.having("compare") | ops.having("cast") | ops.having("same")
_COUNTS = ops.having("truth") | ops.having("counts", "reduce") | ops.having("gives-bool", "reduce")
_ON_THE_HOST = frozenset(f"builtins.{name}" for name in ("int", "float", "bool"))
_UNIQUE = ("torch.unique", "numpy.unique")
_FACTS = ops.HOST_METHODS | ops.HOST_ATTRIBUTES
_TESTS = (cst.If, cst.While, cst.Assert, cst.IfExp, cst.BooleanOperation)
_EFFECTS = (cst.AssignTarget, cst.AugAssign, cst.Call)
_DEPTH = 4


@frozen
class HostLoop:
    """What a loop reads on the host in each iteration.

    Args:
        loop: the loop.
        tensors: the tensors on the device, by their names.
        uses: all reads of them in the loop.
        copies: the calls of ``.cpu()`` in the loop that copy what is made of them.
        counted: ``x[mask].size(0)`` and the like of other tensors, each with its mask.
        passed: all expressions on the way to where something is read.
        alone: whether the body reads no other tensor on the device.
        writes: whether the body may change a tensor in place.
    """

    loop: cst.For
    tensors: tuple[str, ...]
    uses: tuple[cst.Name, ...]
    copies: tuple[cst.Call, ...]
    counted: tuple[tuple[cst.BaseExpression, cst.BaseExpression], ...]
    passed: frozenset[cst.CSTNode]
    alone: bool
    writes: bool


class _UnknownError(Exception):
    """A use that is not known to end on the host."""


@question(
    yes="all that the loop makes of its tensors is read on the host",
    no="the loop makes something of a tensor that stays on the device",
)
def host_loop(module: Module, loop: cst.For) -> HostLoop | None:
    """Return what a loop makes of tensors on the device, where it does nothing with them but
    compare, select and count elements, and read the results on the host."""
    tensors = {
        name.value: definitions_of(module, name)
        for name in _read(module, loop)
        if on_device(module, name) is True and _is_tensor(module, name)
    }
    moved = {
        name
        for name, made in tensors.items()
        if made and not any(module.is_within(each, loop) for each in made)
    }
    while moved:
        way = _LoopSearch(module, loop, frozenset(moved))
        left = {name for name in moved if way.ends(name)}
        if left == moved:
            return way.found()
        moved = left
    return None


def _read(module: Module, loop: cst.For) -> Iterator[cst.Name]:
    """Yield the names that a loop reads, in its head and its body."""
    for part in (loop.iter, loop.body):
        for name in module.within(part, cst.Name):
            above = module.parent(name)
            label = isinstance(above, cst.Attribute) and above.attr is name
            if not label and not (isinstance(above, cst.Arg) and above.keyword is name):
                yield name


def _is_tensor(module: Module, name: cst.Name) -> bool:
    """Say whether a name is a tensor, and no list that somebody may pass instead of one."""
    made = definitions_of(module, name)
    given = any(isinstance(each, (cst.FunctionDef, cst.Lambda)) for each in made)
    return not (inferred(module, name).loose and given)


def _writes(module: Module, node: cst.CSTNode) -> bool:
    """Say whether something is written into a tensor, or a tensor given to a function that may do
    so."""
    match node:
        case cst.AssignTarget(cst.Subscript(into)) | cst.AugAssign(cst.Subscript(into)):
            value = inferred(module, into)
            return value.tensor and not value.host
        case cst.AugAssign(cst.Name() as into):
            return on_device(module, into) is True
        case cst.Call(cst.Attribute(attr=cst.Name(method))) if method.endswith("_"):
            return True
        case cst.Call() if module.name(node.func) is None and not isinstance(
            node.func, cst.Attribute
        ):
            return any(on_device(module, arg.value) is True for arg in node.args)
    return False


@question(
    yes="a branch in `{0}` decides whether `{1}` is read",
    no="no branch in `{0}` decides whether `{1}` is read",
)
def on_condition(module: Module, loop: cst.CSTNode, use: cst.CSTNode) -> bool:
    """Say whether a branch in the loop decides whether something is read: what few iterations need
    is no reason to copy all of it."""
    child = use
    for above in module.ancestors(use):
        if above is loop:
            return False
        if isinstance(above, (cst.If, cst.IfExp, cst.While)) and child is not above.test:
            return True
        if isinstance(above, (cst.Try, cst.Lambda, cst.FunctionDef)):
            return True
        child = above
    return False


class _LoopSearch:
    """The way of some tensors through a loop, to where they are read."""

    def __init__(self, module: Module, loop: cst.For, moved: frozenset[str]) -> None:
        self.module = module
        self.loop = loop
        self.moved = moved
        self.copies: dict[cst.Call, None] = {}
        self.counted: dict[cst.BaseExpression, cst.BaseExpression] = {}
        self.uses: dict[cst.Name, None] = {}
        self.passed: set[cst.CSTNode] = set()
        self.elements = {
            goes.target.value
            for goes in loop_sources(module, loop)
            if isinstance(goes.target, cst.Name)
            and all(
                each.value in self.moved or self._is_of_host(each)
                for each in self.module.within(goes.iterated, cst.Name)
            )
        }

    def _is_of_host(self, name: cst.Name) -> bool:
        """Say whether a name, with the attributes behind it, is known to lie on the host."""
        node: cst.BaseExpression = name
        above = self.module.parent(name)
        if isinstance(above, cst.Attribute) and above.attr is name:
            return True  # It is asked of what it belongs to.
        while isinstance(above, cst.Attribute) and above.value is node:
            node, above = above, self.module.parent(above)
        if isinstance(above, cst.Call) and above.func is node and self.module.name(node):
            return True
        value = inferred(self.module, node)
        return value.host or self.module.name(node) is not None

    def found(self) -> HostLoop | None:
        """Return what was found; None where nothing is read in an iteration."""
        if not self.uses:
            return None
        order = self.module.tree.order
        uses = sorted(self.uses, key=lambda use: order[use])
        asked = {name for each in self.counted for name in self.module.within(each, cst.Name)}
        others = [
            name
            for name in _read(self.module, self.loop)
            if on_device(self.module, name) is True
            and name.value not in self.moved | self.elements
            and name not in asked
            and name not in self.passed
        ]
        return HostLoop(
            self.loop,
            tuple(dict.fromkeys(use.value for use in uses)),
            tuple(uses),
            tuple(self.copies),
            tuple(self.counted.items()),
            frozenset(self.passed),
            not others,
            any(
                _writes(self.module, each) for each in self.module.within(self.loop.body, *_EFFECTS)
            ),
        )

    def ends(self, name: str) -> bool:
        """Say whether all that is made of a tensor in the loop ends on the host, and its values are
        read in each iteration."""
        uses = [use for use in _read(self.module, self.loop) if use.value == name]
        each_iteration = False
        try:
            for use in uses:
                if isinstance(self.module.parent(use), (cst.AssignTarget, cst.AugAssign, cst.Del)):
                    return False
                values = self._follow(use, _DEPTH)
                body = self.module.is_within(use, self.loop.body)
                each_iteration |= values and body and not on_condition(self.module, self.loop, use)
                self.uses[use] = None
            for goes in loop_sources(self.module, self.loop):
                if goes.iterated in uses:
                    each_iteration |= self._element(goes.target)
        except _UnknownError:
            return False
        return each_iteration

    def _element(self, target: cst.CSTNode) -> bool:
        """Follow the elements of a tensor; say whether their values are read."""
        if not isinstance(target, cst.Name):
            raise _UnknownError
        reads = readers_of(self.module, self.loop, target.value)
        if not all(self.module.is_within(read, self.loop) for read in reads):
            raise _UnknownError
        return any([self._follow(read, _DEPTH) for read in reads])

    def _follow(self, node: cst.CSTNode, depth: int) -> bool:
        """Follow an expression up to where it is read on the host; say whether its values are read
        there, and not its shape alone."""
        above = self.module.parent(node)
        while above is not None:
            self.passed |= {node, above}
            further = self._step(node, above, depth)
            if isinstance(further, bool):
                return further
            node, above = further, self.module.parent(further)
        raise _UnknownError

    def _step(self, node: cst.CSTNode, above: cst.CSTNode, depth: int) -> cst.CSTNode | bool:
        """Return what an expression is part of, or, where it is read there, whether its values
        are."""
        match above:
            case cst.Comparison() | cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr()):
                self._refuse_mixed(above)
                return True if isinstance(self.module.parent(above), _TESTS) else above
            case cst.ComparisonTarget() | cst.UnaryOperation(cst.BitInvert()):
                return above
            case cst.Subscript(value) if value is node:
                self._refuse_mixed(above)
                return above
            case cst.Index():
                return self._index(above)
            case cst.Attribute(value) if value is node:
                return self._member(above)
            case cst.Arg():
                return self._argument(above)
            case cst.Assign([cst.AssignTarget(cst.Name(name))]) if depth:
                reads = readers_of(self.module, above, name)
                if not all(self.module.is_within(read, self.loop) for read in reads):
                    raise _UnknownError
                return any([self._follow(read, depth - 1) for read in reads])
        if self._looked_at(node, above):
            return not isinstance(above, cst.For)
        raise _UnknownError

    def _looked_at(self, node: cst.CSTNode, above: cst.CSTNode) -> bool:
        """Say whether the host asks a tensor for its truth, shows it, or goes over it here."""
        match above:
            case cst.For(iter=iterated):
                return above is self.loop and iterated is node
            case cst.UnaryOperation(cst.Not()):
                return True
            case cst.FormattedStringExpression(conversion=None):
                # The text of a tensor with dimensions names its device.
                return inferred(self.module, node).rank == 0
        return isinstance(above, _TESTS)

    def _index(self, index: cst.Index) -> cst.CSTNode | bool:
        """Follow a mask into what it indexes: a tensor that comes along, or one of which only the
        number of elements is asked."""
        part = self.module.parent(index)
        taken = self.module.parent(part)
        if not isinstance(taken, cst.Subscript) or len(taken.slice) > 1:
            raise _UnknownError
        if isinstance(taken.value, cst.Name) and taken.value.value in self.moved:
            return taken
        if on_device(self.module, taken.value) is not True:
            host = inferred(self.module, taken.value).kind in ("list", "dict", "ndarray", "tuple")
            if host:
                return True
            raise _UnknownError
        asked = _number_of(self.module, taken)
        if asked is None or not self._sums_exactly(index.value):
            raise _UnknownError
        self.counted[asked] = index.value
        self.passed.add(taken)
        return True

    def _member(self, attribute: cst.Attribute) -> cst.CSTNode | bool:
        method = attribute.attr.value
        call = self.module.parent(attribute)
        if method == "data":
            return attribute
        if not isinstance(call, cst.Call) or call.func is not attribute:
            if method in ops.HOST_ATTRIBUTES:
                return False
            raise _UnknownError
        if method == "cpu":
            # What is kept of a copy of all would keep all of it.
            head = self.module.is_within(call, self.loop.iter)
            if not head and not isinstance(self.module.parent(call), cst.Attribute):
                raise _UnknownError
            self.copies[call] = None
            return False if head else call
        if method in _READS:
            return method not in _FACTS
        counts = method in _COUNTS and not call.args and self._sums_exactly(attribute.value)
        if method not in _EXACT and not counts:
            raise _UnknownError
        self._refuse_mixed(call)
        return call

    def _sums_exactly(self, node: cst.BaseExpression) -> bool:
        """Say whether a tensor holds truth values or integers, whose sum is the same everywhere."""
        return inferred(self.module, node).dtype in ("bool", "int")

    def _argument(self, arg: cst.Arg) -> cst.CSTNode | bool:
        call = self.module.parent(arg)
        if not isinstance(call, cst.Call):
            raise _UnknownError
        name = self.module.name(call.func)
        if name in _ON_THE_HOST:
            return True
        if self.module.is_within(call, self.loop.iter) and (
            name in _UNIQUE or name in ("builtins.zip", "builtins.enumerate")
        ):
            return False
        match call.func:
            case cst.Attribute(attr=cst.Name(method)) if name is None and (
                method in ops.having("compare")
            ):
                self._refuse_mixed(call)
                return call
        raise _UnknownError

    def _refuse_mixed(self, node: cst.CSTNode) -> None:
        """Refuse where something that may stay on the device meets a tensor that comes to the
        host."""
        for name in self.module.within(node, cst.Name):
            if name.value in self.moved | self.elements or self._is_of_host(name):
                continue
            made = definitions_of(self.module, name)
            inside = [each for each in made if self.module.is_within(each, self.loop.body)]
            if not inside or len(inside) != len(made):
                raise _UnknownError
            for each in inside:
                if not isinstance(each, cst.Assign):
                    raise _UnknownError
                self._refuse_mixed(each.value)


def _number_of(module: Module, taken: cst.Subscript) -> cst.BaseExpression | None:
    """Return the expression that asks how many elements were taken: ``x[m].size(0)``,
    ``x[m].shape[0]``, ``x[m].size()[0]`` or ``len(x[m])``."""
    above = module.parent(taken)
    call = module.parent(above)
    match above, call:
        case cst.Attribute(attr=cst.Name("size")), cst.Call(args=[cst.Arg(cst.Integer("0"))]):
            return call
        case cst.Attribute(attr=cst.Name("size")), cst.Call(args=[]):
            return _first(module, call)
        case cst.Attribute(attr=cst.Name("shape")), _:
            return _first(module, above)
        case cst.Arg(), cst.Call(func) if module.name(func) == "builtins.len":
            return call
    return None


def _first(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    above = module.parent(node)
    match above:
        case cst.Subscript(value, [cst.SubscriptElement(cst.Index(cst.Integer("0")))]) if (
            value is node
        ):
            return above
    return None
