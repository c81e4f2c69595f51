"""Where tensors go that a factory makes on the CPU, step by step, until they meet the device: what
could be made there at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from torchlint.base.records import frozen
from torchlint.rule import (
    Module,
    Transfer,
    conditions_around,
    inferred,
    keyword_argument,
    on_device,
)
from torchlint.semantic.code.bindings import names_of_outer_scopes
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import (
    DISPLAYS,
    attr_of,
    is_name,
    method_called,
    parameters_of,
    root_of,
)
from torchlint.semantic.device.factories import makes_of_sizes, takes_device
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch import ops
from torchlint.semantic.values.value import CPU

_SHAPES = ops.having("view") | ops.having("repeats")
_CASTS = ops.having("cast") - ops.having("move")
EXACT = (
    ops.having("same")
    | _SHAPES
    | _CASTS
    | ops.having("compare")
    | ops.having("join")
    | ops.having("triangle")
    | ops.having("pick", "own", "mask")
)
"""What gives the same on every device."""
_COMPUTES = ops.having("pointwise") | ops.having("reduce") | ops.having("along")
SETS = ops.having("in-place", "sets")
_RANDOM = ops.having("random")
_FILLS = frozenset(("torch.nn.init.zeros_", "torch.nn.init.ones_"))
_STEPS = (EXACT | _COMPUTES | SETS) - ops.having("several") - ops.having("values-decide")
_FUNCTIONS = ops.dotted("view") | ops.dotted("repeats") | ops.dotted("compare")
_FUNCTIONS |= ops.dotted("join") | ops.dotted("pointwise") | ops.dotted("reduce")
_FUNCTIONS |= ops.dotted("same") | ops.dotted("along") | ops.dotted("triangle") | _FILLS
_FUNCTIONS |= ops.dotted("pick", "own", "mask")
_FUNCTIONS -= ops.dotted("several") | ops.dotted("values-decide")
_SIZED = ops.dotted("factory", "sizes") | {"torch.arange", "builtins.range"}
_PARTS = ops.having("part") | ops.having("spreads")
_ALIASES = ops.dotted("same") | ops.dotted("view") | _FILLS
_FACTS = ops.HOST_ATTRIBUTES | ops.HOST_METHODS
_LIKE = ops.dotted("factory", "like")
_NUMBERS = ("number", "bool", "str", "shape")
_WHOLE = (cst.Add, cst.Subtract, cst.Multiply)
_SMALL = 1024
_UNLIKE = frozenset(("copy", "memory_format"))
_HOPS = 6

RANDOM, ROUNDS, SEVERAL, VIEW = "random", "rounds", "several", "view"
ITEMS = "items"
_FEW = 2
"""Elements that are written as kernels of their own at no more than what a copy costs."""


@frozen
class Placement:
    """What it takes to make tensors on the device where they are used.

    Args:
        factories: the calls that are to be given `device`.
        device: an expression that names the device at each of the factories.
        moves: the moves to the device that are no longer needed.
        changes: what the device computes instead of the CPU: `RANDOM` numbers, what `ROUNDS`;
            whether `SEVERAL` tensors, which could lie on several devices, meet the result; whether
            a `VIEW` takes the place of a copy; and whether it is computed with the `ITEMS` of a
            sequence that are taken for numbers.
    """

    factories: tuple[cst.Call, ...]
    device: cst.BaseExpression
    moves: tuple[Transfer, ...]
    changes: frozenset[str]


@question(
    yes="all that is made of `{0}` meets the device",
    no="something else than the device uses what `{0}` makes, or may do so",
)
def placement_of(module: Module, factory: cst.Call) -> Placement | None:
    """Return how a factory's tensor could be made on the device, all uses of it considered; None
    where one of them is not known to go on as before."""
    region = _Region(module)
    try:
        region.take(factory)
        region.alone()
        device = region.device()
    except _UnknownError:
        return None
    moves = tuple(move for move in region.moves if not (move.like or move.dtype))
    return Placement(tuple(region.factories), device, moves, frozenset(region.changes))


@question(remember=False)
def spare_move(module: Module, move: Transfer) -> cst.CSTNode | None:
    """Return the statement ``x = x.to(device)`` that is spare where x lies there already, with the
    ``if`` that holds nothing else; None where the move is part of more."""
    statement = module.small_statement(move.call)
    match statement:
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value) if (
            value is move.call and isinstance(move.source, cst.Name) and (move.source.value == name)
        ):
            pass
        case _:
            return None
    line = module.parent(statement)
    block = module.parent(line)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return None
    branch = module.parent(block) if isinstance(block, cst.IndentedBlock) else None
    if not isinstance(block, (cst.IndentedBlock, cst.Module)) or len(block.body) > 1:
        return line
    if not isinstance(branch, cst.If) or branch.orelse is not None:
        return None
    return None if isinstance(module.parent(branch), cst.If) else branch


class _UnknownError(Exception):
    """A use that is not known to go on as before."""


class _Region:
    """The expressions whose tensors would be made on the device, from the factories to where they
    meet it."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.factories: dict[cst.Call, None] = {}
        self.moves: dict[Transfer, None] = {}
        self.met: dict[cst.BaseExpression, None] = {}
        self.changes: set[str] = set()
        self._seen: set[cst.CSTNode] = set()
        self._writes = 0

    # -- down: what an expression is made of -------------------------------------------------------

    def take(self, node: cst.BaseExpression) -> None:
        """Take an expression into the region, with all it is made of and all that is made of it."""
        if node in self._seen:
            return
        self._seen.add(node)
        if self._take_in_maker(node):
            self._used(node)

    def _take_in_maker(self, node: cst.BaseExpression) -> bool:
        """Take in what an expression is made of; False where it lies on the device already."""
        match node:
            case cst.Call() if makes_of_sizes(self.module, node):
                self._factory(node)
                return True
            case cst.Call() if (move := transfer_of(self.module, node)) is not None:
                self._move(move)
                self.take(move.source)
                return False
            case cst.Name():
                self._bound(node)
                return True
            case cst.Attribute(value) if node.attr.value in ops.ALIASING_ATTRIBUTES:
                return self._take_in_operands([value])
            case cst.Subscript(value):
                if not all(self._is_plain_part(part.slice) for part in node.slice):
                    raise _UnknownError
                return self._take_in_operands([value])
        return self._take_in_operands(self._operands(node))

    def _take_in_operands(self, operands: Iterable[cst.BaseExpression]) -> bool:
        """Take in the operands that are tensors of the CPU; False where one is on the device."""
        there = False
        for each in operands:
            if self._is_host_value(each):
                continue
            if on_device(self.module, each) is True and each not in self._seen:
                self._meet(each)
                there = True
            else:
                self.take(each)
        return not there

    def _factory(self, call: cst.Call) -> None:
        name = self.module.called(call)
        tied = ("device", "requires_grad", "layout", "names")
        if (
            not takes_device(self.module, call)
            or inferred(self.module, call).device != CPU
            or name in _LIKE
            or any(keyword_argument(self.module, call, each) is not None for each in tied)
            or any(arg.star or inferred(self.module, arg.value).tensor for arg in call.args)
        ):
            raise _UnknownError
        if name in ops.dotted("factory", "random"):
            self.changes.add(RANDOM)
        self.factories[call] = None

    def _bound(self, name: cst.Name) -> None:
        found = definitions_of(self.module, name)
        if not found:
            raise _UnknownError
        for each in found:
            match each:
                case cst.Assign([cst.AssignTarget(cst.Name())], value):
                    self.take(value)
                case _:
                    raise _UnknownError

    def _operands(self, node: cst.BaseExpression) -> Iterable[cst.BaseExpression]:
        """Return what an operation computes with, and note whether it may round."""
        match node:
            case cst.BinaryOperation(left, right=right):
                if not self._is_whole(node):
                    self.changes.add(ROUNDS)
                return [left, right]
            case cst.Comparison(left, [cst.ComparisonTarget() as target]):
                if isinstance(target.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
                    raise _UnknownError
                return [left, target.comparator]
            case cst.UnaryOperation(cst.Minus() | cst.BitInvert(), operand):
                return [operand]
            case cst.Call(func) if name := self.module.name(func) or "":
                return self._tensors_given(node, name)
            case cst.Call(cst.Attribute(receiver, cst.Name(method))) if method in _STEPS:
                self._note(method)
                arguments = [] if method in _SHAPES or method in _CASTS else _values(node)
                return [receiver, *arguments]
        raise _UnknownError

    def _tensors_given(self, call: cst.Call, name: str) -> list[cst.BaseExpression]:
        """Return what a function of torch is given, also in a list that is written out."""
        if name not in _FUNCTIONS:
            raise _UnknownError
        if keyword_argument(self.module, call, "out") is not None:
            raise _UnknownError
        self._note(name.rpartition(".")[2])
        out: list[cst.BaseExpression] = []
        for value in _values(call):
            match value:
                case cst.List(elements) | cst.Tuple(elements):
                    out.extend(each.value for each in elements)
                case cst.ListComp(each):
                    out.append(each)
                case _:
                    out.append(value)
        return out

    def _note(self, operation: str) -> None:
        if operation in _RANDOM:
            self.changes.add(RANDOM)
        elif operation not in EXACT | SETS and f"torch.nn.init.{operation}" not in _FILLS:
            self.changes.add(ROUNDS)

    def _is_whole(self, node: cst.BinaryOperation) -> bool:
        """Say whether arithmetic gives the same bits everywhere: of integers, or by a small whole
        number."""
        if not isinstance(node.operator, _WHOLE):
            return False
        if inferred(self.module, node).dtype == "int":
            return True
        numbers = [each for each in (node.left, node.right) if isinstance(each, cst.BaseNumber)]
        return any(_small(each) for each in numbers)

    def _is_host_value(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, (cst.BaseNumber, cst.BaseString)):
            return True
        if isinstance(node, DISPLAYS):
            return all(self._is_host_value(each.value) for each in node.elements)
        if self._is_counted(node, _HOPS):
            return True
        if isinstance(node, cst.Name) and self._goes_backwards(node):
            self.changes.add(ITEMS)
            return True
        value = inferred(self.module, node)
        plain = is_name(node, "None", "True", "False")
        dtype = (self.module.name(node) or "").startswith("torch.") and not isinstance(
            node, cst.Call
        )
        return plain or dtype or (value.kind in _NUMBERS and not value.tensor)

    def _is_counted(self, node: cst.BaseExpression, depth: int) -> bool:
        """Say whether an expression is computed of numbers; one that is given as a size is a
        number."""
        match node:
            case cst.BaseNumber():
                return True
            case cst.UnaryOperation(expression=operand):
                return self._is_counted(operand, depth)
            case cst.BinaryOperation(left, right=right):
                return self._is_counted(left, depth) and self._is_counted(right, depth)
            case cst.Name() if depth and (found := definitions_of(self.module, node)):
                return self._is_size(node) or all(
                    isinstance(each, cst.Assign)
                    and isinstance(each.targets[0].target, cst.Name)
                    and self._is_counted(each.value, depth - 1)
                    for each in found
                )
        return inferred(self.module, node).kind == "number"

    def _goes_backwards(self, name: cst.Name) -> bool:
        """Say whether a name is bound by loops over ``reversed(steps)`` alone, of which nothing is
        known: the steps of a schedule, numbers or a tensor's elements, both of which the device
        computes with."""
        loops = definitions_of(self.module, name)
        if not loops or inferred(self.module, name).kind != "?":
            return False
        return all(
            isinstance(loop, cst.For) and self._reversed_by(loop, name.value) for loop in loops
        )

    def _reversed_by(self, loop: cst.For, name: str) -> bool:
        for goes in loop_sources(self.module, loop):
            if is_name(goes.target, name):
                call = self.module.taker(goes.iterated)
                func = call.func if isinstance(call, cst.Call) else None
                return func is not None and self.module.name(func) == "builtins.reversed"
        return False

    def _is_size(self, name: cst.Name) -> bool:
        """Say whether a parameter is given to a factory as a size, or is halved for one."""
        function = self.module.function(name)
        if function is None or definitions_of(self.module, name) != [function]:
            return False
        for read in reads_of(self.module, function, name.value):
            at: cst.CSTNode | None = self.module.parent(read)
            while isinstance(at, (cst.BinaryOperation, cst.UnaryOperation)):
                at = self.module.parent(at)
            call = self.module.parent(at) if isinstance(at, cst.Arg) else None
            if self.module.called(call) in _SIZED:
                return True
            if isinstance(at, cst.Assign) and isinstance(at.targets[0].target, cst.Name):
                halved = at.targets[0].target.value
                for each in reads_of(self.module, function, halved):
                    user = self.module.taker(each)
                    if self.module.called(user) in _SIZED:
                        return True
        return False

    def _is_plain_part(self, part: cst.BaseSlice) -> bool:
        if isinstance(part, cst.Index):
            return isinstance(part.value, cst.Ellipsis) or self._is_host_value(part.value)
        bounds = (part.lower, part.upper, part.step) if isinstance(part, cst.Slice) else ()
        return all(not inferred(self.module, each).tensor for each in bounds if each is not None)

    # -- up: what is made of an expression ---------------------------------------------------------

    def _used(self, node: cst.BaseExpression) -> None:
        """Take in what is made of an expression."""
        above = self.module.parent(node)
        match above:
            case cst.Attribute(value, cst.Name(name)) if value is node:
                self._member(above, name)
            case cst.Arg() | cst.Element() | cst.ListComp():
                self._passed(node, above)
            case cst.BinaryOperation() | cst.Comparison() | cst.UnaryOperation():
                self.take(above)
            case cst.ComparisonTarget():
                self.take(_expression(self.module.parent(above)))
            case cst.Subscript(value) if value is node:
                self.take(above)
            case cst.Index():
                self._index(above)
            case cst.AssignTarget(cst.Subscript()):
                self._follow_item_write(self.module.parent(above))
            case cst.Assign([cst.AssignTarget(target)], value) if value is node:
                self._assigned(above, target)
            case cst.Expr():
                pass
            case _:
                raise _UnknownError

    def _member(self, attribute: cst.Attribute, name: str) -> None:
        call = self.module.parent(attribute)
        called = isinstance(call, cst.Call) and call.func is attribute
        if name in _FACTS and name != "device" and name not in ops.having("method", "cast"):
            return
        if called and isinstance(call, cst.Call):
            move = transfer_of(self.module, call)
            if move is None:
                self.take(call)
            else:
                self._move(move)
                if move.like or move.dtype or move.given & _UNLIKE:
                    self._seen.add(call)
        elif name in ops.ALIASING_ATTRIBUTES:
            self.take(attribute)
        else:
            raise _UnknownError

    def _passed(self, node: cst.CSTNode, above: cst.CSTNode) -> None:
        """Follow an argument, or an element of a list that is one."""
        if isinstance(above, cst.ListComp) and above.elt is not node:
            raise _UnknownError
        while isinstance(above, (cst.Element, cst.List, cst.Tuple, cst.ListComp)):
            above = self.module.parent(above) or self.module.root
        call = self.module.parent(above)
        if not isinstance(above, cst.Arg) or not isinstance(call, cst.Call):
            raise _UnknownError
        if self.module.name(call.func) != "builtins.len":
            self.take(call)

    def _index(self, index: cst.Index) -> None:
        """Follow an index of a tensor on the device."""
        if inferred(self.module, index.value).rank == 0:
            raise _UnknownError  # Of a tensor on the device, the host reads it to find the place.
        indexed = self.module.parent(self.module.parent(index))
        if not isinstance(indexed, cst.Subscript) or (
            on_device(self.module, indexed.value) is not True
        ):
            raise _UnknownError
        self._meet(indexed.value)

    def _assigned(self, assign: cst.Assign, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Subscript) and on_device(self.module, target.value) is True:
            self._meet(target.value)
            return
        if not isinstance(target, cst.Name):
            raise _UnknownError
        if any(target.value in names for names in names_of_outer_scopes(self.module)):
            raise _UnknownError
        for read in self._reads(assign, target.value):
            if self.module.function(read) is not self.module.function(assign):
                raise _UnknownError
            if not self._is_moved(read, assign):
                self.take(read)

    def _is_moved(self, read: cst.Name, assign: cst.Assign) -> bool:
        """Say whether a read comes behind ``if x.is_cuda: y = y.cuda()``, which takes `assign`'s
        tensor."""
        for each in definitions_of(self.module, read):
            value = each.value if isinstance(each, cst.Assign) and each is not assign else None
            move = transfer_of(self.module, value) if isinstance(value, cst.Call) else None
            if move is not None and isinstance(move.source, cst.Name):
                moved = move.source.value == read.value
                return moved and assign in definitions_of(self.module, move.source)
        return False

    def _follow_item_write(self, line: cst.CSTNode | None) -> None:
        """Follow ``start[1] = 1``, in the same iteration as the tensor is made: on the device that
        is a kernel."""
        self._writes += 1
        if (
            not isinstance(line, cst.Assign)
            or self._writes > _FEW
            or not self._is_host_value(line.value)
            or inferred(self.module, line.value).tensor
            or any(
                self.module.loops(line) != self.module.loops(factory) for factory in self.factories
            )
        ):
            raise _UnknownError

    def _reads(self, assign: cst.Assign, name: str) -> list[cst.Name]:
        scope = self.module.scope(assign)
        found = reads_of(self.module, scope, name)
        grown = [
            each
            for each in writes_of(self.module, scope, name)
            if isinstance(self.module.parent(each), cst.AugAssign)
        ]
        if any(assign in definitions_of(self.module, each) for each in grown):
            raise _UnknownError
        return [each for each in found if assign in definitions_of(self.module, each)]

    def _move(self, move: Transfer) -> None:
        if move.given & _UNLIKE:
            raise _UnknownError
        self.moves[move] = None

    def _meet(self, tensor: cst.BaseExpression) -> None:
        self.met[tensor] = None

    # -- together ----------------------------------------------------------------------------------

    def alone(self) -> None:
        """Refuse where a move gave a copy, of which the original is used besides: it would be one
        tensor."""
        for move in self.moves:
            if any(
                self.module.loops(move.call) != self.module.loops(factory)
                for factory in self.factories
            ):
                raise _UnknownError
            seen = VIEW in self.changes
            at = self._shared(move.source)
            if isinstance(at, cst.Name):
                self._sole(move, at)
            if not seen and self._only_compared(move):
                self.changes.discard(VIEW)

    def _only_compared(self, move: Transfer) -> bool:
        """Say whether nothing is done with a copy but comparing it, which is the same whatever its
        strides are."""
        uses: Sequence[cst.BaseExpression] = [move.call]
        match self.module.small_statement(move.call):
            case cst.Assign([cst.AssignTarget(cst.Name(name))], value) as assign if (
                value is move.call
            ):
                uses = self._reads(assign, name)
        above = [self.module.parent(each) for each in uses]
        return all(isinstance(each, (cst.Comparison, cst.ComparisonTarget)) for each in above)

    def _shared(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the expression whose memory another one may share, and note where it is but a
        part of that."""
        while node not in self.factories:
            match node:
                case cst.Call(cst.Attribute(value, cst.Name(method))) if (
                    self.module.name(node.func) is None and method in _SHAPES | _CASTS | SETS
                ):
                    if method in _PARTS:
                        self.changes.add(VIEW)
                    node = value
                case cst.Call(func, [first, *_]) if self.module.name(func) in _ALIASES:
                    node = first.value
                case cst.Attribute(value):
                    node = value
                case cst.Subscript(value):
                    if not all(_takes_all(part.slice) for part in node.slice):
                        self.changes.add(VIEW)
                    node = value
                case _:
                    break
        return node

    def _sole(self, move: Transfer, name: cst.Name, depth: int = _HOPS) -> None:
        for assign in definitions_of(self.module, name):
            if not isinstance(assign, cst.Assign):
                raise _UnknownError
            further = self._shared(assign.value)
            if isinstance(further, cst.Name) and further is not name and depth:
                self._sole(move, further, depth - 1)
            for read in self._reads(assign, name.value):
                above = self.module.parent(read)
                fact = attr_of(above) in _FACTS - {"type"}
                fresh = isinstance(above, (cst.BinaryOperation, cst.Comparison, cst.Index))
                gone = read is name or self._reads_the_copy(move, name, read)
                if not gone and not fact and not fresh and not self._written_before(move, read):
                    raise _UnknownError

    def _written_before(self, move: Transfer, read: cst.CSTNode) -> bool:
        """Say whether a read is a place that is written before the move."""
        place, above = read, self.module.parent(read)
        while isinstance(above, cst.Subscript) and above.value is place:
            place, above = above, self.module.parent(above)
        return isinstance(above, cst.AssignTarget) and self.module.before(read, move.call)

    def _reads_the_copy(self, move: Transfer, name: cst.Name, read: cst.Name) -> bool:
        """Say whether a read comes behind the move, which has put the copy in the tensor's
        place."""
        statement = self.module.small_statement(move.call)
        return (
            isinstance(statement, cst.Assign)
            and statement.value is move.call
            and is_name(statement.targets[0].target, name.value)
            and self.module.before(statement, read)
        )

    def device(self) -> cst.BaseExpression:
        """Return an expression that names the device wherever a factory stands."""
        if self.moves:
            if len({self._spelled(move) for move in self.moves}) > 1:
                raise _UnknownError
            move = next(iter(self.moves))
            found = self._target(move)
            at: cst.CSTNode = move.call
        else:
            named = ((each, self._of_tensor(each)) for each in self.met)
            first = next(((each, device) for each, device in named if device is not None), None)
            if first is None:
                raise _UnknownError
            if len({self.module.source_of(each) for each in self.met}) > 1:
                self.changes.add(SEVERAL)
            at, found = first
        if not all(self._gives_same_at(found, at, factory) for factory in self.factories):
            raise _UnknownError
        return found

    def _spelled(self, move: Transfer) -> str:
        if move.target is None:
            return "cuda"
        return self.module.source_of(move.target) + (".device" if move.like else "")

    def _target(self, move: Transfer) -> cst.BaseExpression:
        known = [
            {id(test) for test, _ in conditions_around(self.module, each)}
            for each in self.factories
        ]
        own = [
            (test, truth)
            for test, truth in conditions_around(self.module, move.call)
            if any(id(test) not in each for each in known)
        ]
        extra = [test for test, truth in own if truth]
        if (
            len(extra) < len(own)
            or method_called(move.call) == "type"
            or isinstance(self.module.parent(move.call), cst.IfExp)
        ):
            raise _UnknownError
        if extra:
            match extra, move.target:
                case [cst.Attribute(cst.Name() as tensor, cst.Name("is_cuda"))], None:
                    return cst.Attribute(tensor, cst.Name("device"))
            raise _UnknownError
        if move.target is None:
            return cst.SimpleString('"cuda"')
        return cst.Attribute(move.target, cst.Name("device")) if move.like else move.target

    def _of_tensor(self, tensor: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the device of a tensor, or of one that it is made of, by a name that the factories
        see; None where they see no such name."""
        for each in self._origins(tensor):
            found = cst.Attribute(each, cst.Name("device"))
            if all(
                self._gives_same_at(found, tensor, factory)
                and not self._asked_first(each, tensor, factory)
                for factory in self.factories
            ):
                return found
        return None

    def _origins(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Yield a tensor and the tensors on the device that it is a view of or computed from."""
        at: cst.BaseExpression | None = node
        for _ in range(_HOPS):
            if at is None or on_device(self.module, at) is not True:
                return
            if dotted_text(at) is not None:
                yield at
            at = self._origin(at)

    def _origin(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        match node:
            case cst.Name():
                found = definitions_of(self.module, node)
                match found:
                    case [cst.Assign([cst.AssignTarget(cst.Name())], value)]:
                        return value
            case cst.Subscript(value):
                return value
            case cst.BinaryOperation(left, right=right):
                return left if on_device(self.module, left) is True else right
            case cst.Call(cst.Attribute(receiver)) if self.module.name(node.func) is None:
                return receiver
            case cst.Call(args=[first, *_]) if self.module.called(node).startswith("torch."):
                return first.value
        return None

    def _gives_same_at(
        self, device: cst.BaseExpression, at: cst.CSTNode, factory: cst.Call
    ) -> bool:
        """Say whether an expression that `at` could evaluate gives the same where a factory
        stands."""
        here = self.module.function(factory)
        if here is not self.module.function(at):
            return False
        if isinstance(device, (cst.SimpleString, cst.Integer)):
            return True
        if dotted_text(device) is None or self._sets(device, here):
            return False
        root = root_of(device, cst.Attribute)
        return isinstance(root, cst.Name) and self._same_name(root.value, at, factory)

    def _asked_first(self, holder: cst.BaseExpression, at: cst.CSTNode, factory: cst.Call) -> bool:
        """Say whether a test around `at`, and not around a factory, asks for a tensor, which may be
        None where the factory stands: ``if label is not None: label[indices]``."""
        known = {id(test) for test, _ in conditions_around(self.module, factory)}
        tests = [t for t, _ in conditions_around(self.module, at) if id(t) not in known]
        text = dotted_text(holder)
        reads = (each for t in tests for each in self.module.within(t, cst.Name, cst.Attribute))
        return any(dotted_text(each) == text for each in reads)

    def _sets(self, device: cst.BaseExpression, here: cst.CSTNode | None) -> bool:
        """Say whether the function assigns an attribute on the way to the device."""
        text = dotted_text(device) or ""
        targets = self.module.within(here or self.module.root, cst.AssignTarget)
        return any(
            isinstance(each.target, cst.Attribute)
            and f"{text}.".startswith(f"{dotted_text(each.target)}.")
            for each in targets
        )

    def _same_name(self, name: str, at: cst.CSTNode, factory: cst.Call) -> bool:
        """Say whether a name is bound where the factory stands, and to what it is bound to
        later."""
        here = self.module.function(factory)
        statement = self.module.statement(factory)
        writes = writes_of(self.module, here or self.module.root, name)
        if here is not None:
            own = {each.name.value for each in parameters_of(here)}
            nested = [each for each in writes if self.module.function(each) is not here]
            if nested:
                return False
        else:
            own = set()
        if not writes:  # An import binds it, or an outer scope.
            return name in own or bool(self.module.names.bindings(name, factory)[1])
        certain = any(self._is_certain(write, statement) for write in writes)
        if not certain and name not in own and not self._branches_bind(writes, statement):
            return False
        loops = [each for each in self.module.loops(at) if each not in self.module.loops(factory)]
        for write in writes:
            if not self.module.before(statement, write):
                # ``x = f(x, torch.zeros(…))`` binds behind the factory.
                if self.module.is_within(write, statement) and isinstance(
                    statement, cst.SimpleStatementLine
                ):
                    return False
                continue
            if self.module.before(write, at) or any(
                self.module.is_within(write, loop) for loop in loops
            ):
                own_line = self.module.small_statement(write)
                if own_line is None or own_line is not self.module.small_statement(at):
                    return False
        return True

    def _is_certain(self, write: cst.Name, statement: cst.CSTNode) -> bool:
        """Say whether a binding comes before a statement on each way to it."""
        if not self.module.before(write, statement):
            return False
        if isinstance(self.module.parent(write), cst.Param):
            return True
        line = self.module.statement(write)
        block = self.module.parent(line)
        if isinstance(line, (cst.For, cst.With)) and self.module.is_within(statement, line.body):
            return True
        return block is not None and self.module.is_within(statement, block)

    def _branches_bind(self, writes: list[cst.Name], statement: cst.CSTNode) -> bool:
        """Say whether all branches of an ``if`` that comes before a statement bind a name."""
        homes = {self.module.parent(self.module.statement(write)) for write in writes}
        for write in writes:
            above = self.module.parent(self.module.parent(self.module.statement(write)) or write)
            block = self.module.parent(above) if isinstance(above, cst.If) else None
            if block is None or not self.module.before(above or write, statement):
                continue
            at: cst.CSTNode | None = above
            while isinstance(at, cst.If) and at.body in homes:
                at = at.orelse
            if isinstance(at, cst.Else) and at.body in homes:
                return self.module.is_within(statement, block)
        return False


def _takes_all(part: cst.BaseSlice) -> bool:
    """Say whether an index leaves all elements as they are: ``:``, ``None`` and ``...``."""
    match part:
        case cst.Slice(lower=None, upper=None, step=None):
            return True
        case cst.Index(cst.Ellipsis() | cst.Name("None")):
            return True
    return False


def _values(call: cst.Call) -> list[cst.BaseExpression]:
    """Return what a call is given; what is said by a dimension's keyword is none of it."""
    return [
        arg.value
        for arg in call.args
        if arg.keyword is None or arg.keyword.value not in ("dim", "dtype", "keepdim", "diagonal")
    ]


def _expression(node: cst.CSTNode | None) -> cst.BaseExpression:
    if not isinstance(node, cst.BaseExpression):
        raise _UnknownError
    return node


def _small(node: cst.BaseExpression) -> bool:
    value = float(node.value) if isinstance(node, (cst.Integer, cst.Float)) else 0.5
    return value.is_integer() and abs(value) <= _SMALL
