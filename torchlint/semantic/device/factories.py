"""Calls of tensor factories: where values come from, and what ``device=`` would change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.semantic.code.calls import arguments_of, keyword_argument
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.destinations import destinations
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import DISPLAYS, attr_of, is_name, keyword_of, positional
from torchlint.semantic.device.host_reads import widened_copy
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import BATCH_SIZE, called
from torchlint.semantic.values.definitions_behind import functions, returned
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.tensor_types import (
    device_flag,
    holds_on_gpu,
    only_sizes,
    tensor_type,
)
from torchlint.semantic.values.value import CPU

_TIED = frozenset(("generator", "out", "pin_memory"))
_EXACT = ops.having("factory", "exact")
_LIKE = ops.dotted("factory", "like")
_RANDOM = ops.having("factory", "random")
_SIZED = ops.having("factory", "only-sizes")
_ANY_DTYPE = ops.having("factory", "zero-one")
_JOINS = ops.dotted("join")
_SIZES = ("builtins.len", "builtins.isinstance", "builtins.type")
_PRODUCTS, _NO_INTEGERS = ops.having("no-integers"), ops.dotted("no-integers")
_VIEWS = ops.having("view")
_ELEMENT_WRITERS = ops.having("host-memory")
_READS = ops.having("reads")
_NUMBERS = frozenset("builtins." + name for name in ("bool", "complex", "float", "int"))
_FILLERS = ops.having("in-place", "mixes") - ops.having("sets")
# Each one is a launch where the tensor is made on the device, and no copy.
_FEW_WRITES = 2


@question(
    yes="the values come from `{answer}`", no="`{0}` is not made by a factory whose result moves"
)
def factories_of(module: Module, node: cst.BaseExpression, filled: bool = False) -> list[cst.Call]:
    """Return the factory calls of this function from which a tensor expression got its values,
    nearest first.

    Unless `filled` ones are wanted, a tensor whose elements the host reads or writes on the way
    counts as made of data, not by its factory.
    """
    found = _factories(module, node, None, filled, set())
    return [each for where, each in found if where is module and not _as_given(module, each, node)]


def _as_given(module: Module, factory: cst.Call, node: cst.BaseExpression) -> bool:
    """Say whether a helper's factory makes its tensor where it is told to, or where an argument
    lies."""
    placed = keyword_argument(module, factory, "device") is not None
    given = placed or module.called(factory) in _LIKE
    return given and module.function(factory) is not module.function(node)


@question(
    yes="a function of another file makes it with {answer}",
    no="no function of another file is known to make it of sizes",
)
def factory_elsewhere(module: Module, node: cst.BaseExpression) -> str | None:
    """Return the factory in another file of the project that makes a tensor expression, as it is
    written there, or None."""
    for where, factory in _factories(module, node, None, False, set()):
        made = (
            where is not module
            and not _as_given(where, factory, node)
            and inferred(where, factory).device == CPU
        )
        if made and takes_device(where, factory):
            return where.shown(factory.func)
    return None


def _factories(
    module: Module,
    node: cst.BaseExpression,
    part: int | None,
    filled: bool,
    seen: set[cst.CSTNode],
) -> Iterator[tuple[Module, cst.Call]]:
    """Yield the factories behind an expression, or behind one part of the tuple that it is."""
    if node in seen:
        return
    seen.add(node)
    if isinstance(node, cst.Call) and makes_of_sizes(module, node):
        yield module, node
    else:
        for where, inner, its in _inner(module, node, part, filled):
            yield from _factories(where, inner, its, filled, seen)


_Inner = Iterator[tuple[Module, cst.BaseExpression, int | None]]


def _inner(module: Module, node: cst.BaseExpression, part: int | None, filled: bool) -> _Inner:
    """Yield the expressions that an expression got its values from, each with its file, and with
    the part of it that is meant where it is a tuple."""
    operands: Iterable[cst.BaseExpression] = ()
    if _only_on_host(module, node):
        return
    match node:
        case cst.Tuple(elements) if part is not None and part < len(elements):
            operands = [elements[part].value]
        case cst.Call(cst.Attribute(receiver)) if inferred(module, receiver).tensor:
            # What is brought back from the device was not made where it is now.
            operands = [] if on_device(module, receiver) is True else [receiver]
        case cst.Call(func) if (module.name(func) or "").startswith("torch."):
            operands = _tensors(module, node)
        case cst.Call():
            yield from _returned(module, node, part)
        case cst.BinaryOperation(left, right=right):
            operands = [left, right]
        case cst.Comparison(left, [cst.ComparisonTarget(comparator=right)]):
            operands = [left, right]
        case cst.UnaryOperation(expression=operand) | cst.Subscript(operand):
            operands = [operand]
        case cst.Name() if filled or not _by_elements(module, node):
            yield from _bound(module, node)
        case cst.Attribute(cst.Name("self")) if filled or not _by_elements(module, node):
            operands = _assigned_above(module, node)
    for each in _movable(module, node, list(operands)):
        yield module, each, None


def _movable(
    module: Module, node: cst.BaseExpression, operands: list[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """Return the operands of an expression, none where only the host has one of several, so that
    what it meets is made there: data that are joined, or a copy from the device as float64."""
    several = len(operands) > 1
    joins = module.called(node) in _JOINS
    return (
        [] if several and any(_only_there(module, each, joins) for each in operands) else operands
    )


def _only_there(module: Module, operand: cst.BaseExpression, joins: bool) -> bool:
    made: list[cst.BaseExpression | None] = [operand]
    if isinstance(operand, cst.Name):
        found = definitions_of(module, operand)
        made = [each.value for each in found if isinstance(each, (cst.Assign, cst.AnnAssign))]
    return any(
        (joins and _is_data(module, each))
        or (inferred(module, each).device == CPU and _is_wide(module, each))
        for each in made
        if each is not None
    )


def _is_data(module: Module, node: cst.BaseExpression) -> bool:
    made = module.called(node) in ops.DATA_FACTORIES
    return made and isinstance(node, cst.Call) and not is_sized_type(module, node)


def _is_wide(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression holds a copy to the host that is cast to float64 there."""
    return any(widened_copy(module, each) for each in module.within(node, cst.Call))


def _only_on_host(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether CUDA has no kernel for an expression: a matrix product of integers."""
    operands: list[cst.BaseExpression] = []
    match node:
        case cst.BinaryOperation(left, cst.MatrixMultiply(), right):
            operands = [left, right]
        case cst.Call(func, args) if module.name(func) in _NO_INTEGERS:
            operands = [arg.value for arg in args]
        case cst.Call(cst.Attribute(receiver, cst.Name(m))) if m in _PRODUCTS:
            operands = [receiver]
    known = (inferred(module, each) for each in operands)
    return any(each.tensor and each.dtype == "int" for each in known)


def _tensors(module: Module, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield the tensors that a function of torch is given, also in a list that is written out."""
    for arg in call.args:
        match arg.value:
            case cst.List(elements) | cst.Tuple(elements):
                yield from (e.value for e in elements if inferred(module, e.value).tensor)
            case cst.ListComp(each) if inferred(module, each).tensor:
                yield each
            case value if not arg.star and inferred(module, value).tensor:
                yield value


def _bound(module: Module, name: cst.Name) -> _Inner:
    """Yield what plain assignments may have given to a name, and which part of it where they unpack
    it."""
    for definition in reversed(definitions_of(module, name)):
        if not isinstance(definition, cst.Assign) or len(definition.targets) != 1:
            continue
        target = definition.targets[0].target
        if isinstance(target, cst.Name):
            yield module, definition.value, None
        elif isinstance(target, DISPLAYS):
            for index, element in enumerate(target.elements):
                if is_name(element.value, name.value):
                    yield module, definition.value, index


def _assigned_above(module: Module, node: cst.Attribute) -> list[cst.BaseExpression]:
    """Return what the last statement that stands above and binds an attribute gives it, where it
    runs whenever the attribute is read here: ``self.h = torch.zeros(n)``, ``self.h.to(device)``."""
    line: cst.CSTNode = module.statement(node)
    while isinstance(block := module.parent(line), cst.IndentedBlock):
        for above in reversed(block.body[: block.body.index(line)]):
            for small in above.body if isinstance(above, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.Assign) and small.targets[0].target.deep_equals(node):
                    return [small.value]
        line = module.parent(block) or block
        if isinstance(line, (cst.FunctionDef, cst.For, cst.While)):
            break
    return []


def _returned(module: Module, call: cst.Call, part: int | None) -> _Inner:
    """Yield what the one function that a call reaches may return."""
    found = functions(module, call)
    if len(found) == 1:
        where, function = found[0]
        for each in returned(where, function):
            yield where, each, part


@question(
    yes="`{0}` makes a tensor of a size", no="`{0}` is no factory, or it is handed the elements"
)
def makes_of_sizes(module: Module, call: cst.Call) -> bool:
    """Say whether a call makes a tensor of sizes alone: a factory, or an old tensor type that is
    given sizes."""
    name = module.name(call.func)
    return name in ops.FACTORIES or is_sized_type(module, call)


@question(yes="`{0}` is empty memory of a size", no="`{0}` is not empty memory of a size")
def is_sized_type(module: Module, call: cst.Call) -> bool:
    """Say whether a call gives sizes to an old tensor type of the CPU: ``torch.LongTensor(n,
    m)``."""
    name = module.called(call)
    meant = tensor_type(name)
    if meant is None or meant.device != CPU:
        return False
    given = [inferred(module, arg.value) for arg in call.args]
    return only_sizes(given) or size_by_name(module, call)


@question(
    yes="that `{0}` is given a size is said by its name alone",
    no="`{0}` is given no size, or more than its name says so",
)
def size_by_name(module: Module, call: cst.Call) -> bool:
    """Say whether the one argument of an old tensor type is called the size of a batch, and is not
    known otherwise."""
    size = call.args[0].value if len(call.args) == 1 else None
    name = size.value if isinstance(size, cst.Name) else attr_of(size)
    known = inferred(module, size).kind if size is not None else ""
    return called(name, BATCH_SIZE) and known in ("?", "plain")


def _by_elements(module: Module, name: cst.Name | cst.Attribute) -> bool:
    """Say whether the function reads or writes single elements of a named tensor, or of one that
    `self` holds, or uses the host's copy elsewhere. One or two numbers that are written once may
    as well be written on the device."""
    few = 0
    scope: cst.CSTNode = module.scope(name)
    alike = [*module.within(scope, cst.Attribute)] if isinstance(name, cst.Attribute) else []
    reads = _reads_alike(module, name) if isinstance(name, cst.Name) else alike
    for read in reads:
        above = module.parent(read)
        if read is name or not read.deep_equals(name) or isinstance(above, cst.AssignTarget):
            continue
        # Only a program without a GPU reads it here: behind ``if x.is_cuda: return x.cuda()``.
        if any(
            device_flag(test) and holds_on_gpu(test) is not needed
            for test, needed in conditions_around(module, read)
        ):
            continue
        if _used_elsewhere(module, read, above) or _decided_on_host(module, read):
            return True
        written = isinstance(above, cst.Subscript) and _writes(module, above)
        if written and few < _FEW_WRITES and _writes_number(module, read, name):
            few += 1
            continue
        if attr_of(above) in _VIEWS and isinstance(call := module.parent(above), cst.Call):
            part = module.parent(call)  # ``x.view(-1)[i] = value``
            written = isinstance(part, cst.Subscript) and _writes(module, part)
        elif isinstance(above, cst.Attribute):
            written = above.attr.value in _ELEMENT_WRITERS or _copies_data(module, read, above)
        # What is written once it has been moved is written there.
        if written and inferred(module, read).device in (CPU, None):
            return True
    return False


def _reads_alike(module: Module, name: cst.Name) -> list[cst.Name]:
    """Return the places that read a name as it is bound here: behind ``mask = mask.float()`` it is
    another tensor."""
    own = set(definitions_of(module, name))
    reads = reads_of(module, module.scope(name), name.value)
    found = ((read, definitions_of(module, read)) for read in reads)
    return [read for read, bound in found if not bound or not own.isdisjoint(bound)]


def _writes(module: Module, part: cst.Subscript) -> bool:
    """Say whether a statement writes into a part of a tensor, and does not fill all of it with one
    number: ``x[:] = 1``."""
    statement = module.small_statement(part)
    match module.parent(part), part.slice:
        case cst.AssignTarget(), [cst.SubscriptElement(cst.Slice(None, None, None))]:
            filled = isinstance(statement, cst.Assign) and inferred(module, statement.value)
            return not (filled and filled.kind in ("number", "bool") and not filled.tensor)
        case ((cst.AssignTarget() | cst.AugAssign()), _):
            return True
    return False


def _writes_number(module: Module, read: cst.CSTNode, moved: cst.CSTNode) -> bool:
    """Say whether a number is written to one place or slice of a tensor, no more often than it is
    moved: ``x[0] = 1``."""
    part, statement = module.parent(read), module.small_statement(read)
    if not isinstance(part, cst.Subscript) or not isinstance(statement, cst.Assign):
        return False
    parts = [each.slice for each in part.slice]
    places = [each.value for each in parts if isinstance(each, cst.Index)]
    numbers = [inferred(module, each) for each in (statement.value, *places)]
    once = module.function(read) is module.function(moved)
    return (
        once
        and set(module.loops(moved)).issuperset(module.loops(part))
        and all(each.kind in ("number", "bool") and not each.tensor for each in numbers)
    )


def _decided_on_host(module: Module, read: cst.Name | cst.Attribute) -> bool:
    """Say whether Python reads, or tests, a number that is computed of a tensor on the host."""
    for place in destinations(module, read):
        match place:
            case cst.Call(cst.Attribute(number, cst.Name(m))) if m in _READS:
                pass
            case cst.Call(func, [cst.Arg(number)]) if module.name(func) in _NUMBERS:
                pass
            case cst.If(number) | cst.While(number) | cst.IfExp(test=number):
                pass
            case _:
                continue
        value = inferred(module, number)
        if value.tensor and value.device == CPU:
            return True
    return False


def _copies_data(module: Module, read: cst.Name | cst.Attribute, method: cst.Attribute) -> bool:
    """Say whether ``x.copy_(data)`` fills a tensor, while it is on the host, with what may be the
    host's own data."""
    call = module.parent(method)
    if method.attr.value not in _FILLERS or not isinstance(call, cst.Call) or not call.args:
        return False
    there = any(on_device(module, arg.value) is True for arg in call.args)
    return inferred(module, read).device == CPU and not there


def _used_elsewhere(
    module: Module, read: cst.Name | cst.Attribute, above: cst.CSTNode | None
) -> bool:
    """Say whether a tensor goes, while it is on the host, to code of others, to the caller, or to
    an object."""
    if inferred(module, read).device != CPU:
        return False
    match above:
        case cst.Arg():
            call = module.parent(above)
            name = module.name(call.func) if isinstance(call, cst.Call) else None
            receiver = (
                call.func.value
                if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
                else None
            )
            computes = (name or "").startswith("torch.") or name in _SIZES
            return not computes and (receiver is None or not inferred(module, receiver).tensor)
        case cst.Element():
            return isinstance(module.parent(module.parent(above)), cst.Return)
        case cst.Assign([cst.AssignTarget(cst.Attribute())]):
            return True
    return isinstance(above, cst.Return)


@question(yes="`{0}` takes device=", no="`{0}` cannot take device=: an argument ties it to the CPU")
def takes_device(module: Module, factory: cst.Call) -> bool:
    """Say whether ``device=`` of a factory call spares a copy: nothing ties it to the CPU, and it
    has elements."""
    if _without_elements(module, factory):
        return False
    if any(arg.star == "**" or keyword_of(arg) in _TIED for arg in factory.args):
        return False
    # ``normal(mean, std)`` of two tensors takes none; with a size it does.
    sized = keyword_argument(module, factory, "size") is not None or len(factory.args) > 2
    return sized or module.name(factory.func) != "torch.normal"


def _without_elements(module: Module, factory: cst.Call) -> bool:
    """Say whether a size of a new tensor is written as 0: there is nothing to copy."""
    sized = module.called(factory).rpartition(".")[2] in _SIZED
    if not sized and not is_sized_type(module, factory):
        return False
    sizes = positional(factory)
    if sizes and isinstance(sizes[0], DISPLAYS):
        sizes = [element.value for element in sizes[0].elements]
    return any(isinstance(size, cst.Integer) and size.value == "0" for size in sizes)


@question(yes="device= would also change: {answer}", no="device= changes nothing but the place")
def device_effect(module: Module, factory: cst.Call) -> str:
    """Return what ``device=`` changes beside the place: ``random``, ``grad``, ``fill``, ``range``,
    joined by a comma.

    Random numbers come from another generator, ``.grad`` lands on another leaf, a fill value may be
    a tensor, and a range that is not of whole numbers may differ in the last place.
    """
    grad = keyword_argument(module, factory, "requires_grad")
    asked = grad is not None and not is_name(grad, "False")
    return ", ".join(
        each for each in (_effect_on_values(module, factory), "grad" if asked else "") if each
    )


def _effect_on_values(module: Module, factory: cst.Call) -> str:
    name = module.called(factory).rpartition(".")[2]
    if name in _RANDOM:
        return "random"
    if name in _EXACT:
        return ""
    if name == "full":
        fill = arguments_of(module, factory, "torch.full").value("fill_value")
        return (
            "" if fill is not None and inferred(module, fill).kind in ("number", "bool") else "fill"
        )
    return "" if name == "arange" and _counts_whole_numbers(module, factory) else "range"


def _counts_whole_numbers(module: Module, factory: cst.Call) -> bool:
    """Say whether a range counts whole numbers, by a whole step: they are exact in every dtype."""
    plain = positional(factory)
    numbers = [*plain[: len(plain) > 1], *plain[2:]]
    numbers += [arg.value for arg in factory.args if keyword_of(arg) in ("start", "step")]
    return all(
        inferred(module, n).kind == "number" and inferred(module, n).dtype == "int" for n in numbers
    )


@question(yes="`{0}` is exact in every dtype", no="`{0}` is not exact in every dtype")
def any_dtype(module: Module, factory: cst.Call) -> bool:
    """Say whether a factory takes every dtype, and its values are exact in each: zeros, ones, an
    identity.

    Not of what is left empty: in torch's deterministic mode it is filled with NaN, or with the
    largest integer.
    """
    return module.called(factory).rpartition(".")[2] in _ANY_DTYPE
