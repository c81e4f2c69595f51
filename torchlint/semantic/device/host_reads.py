"""Where the host waits for a value on the device: reads of one scalar, and copies of whole
tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import Link, argument_for, attr_of, keyword_of, method_called
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import argument_reads
from torchlint.semantic.question import question
from torchlint.semantic.time.grades import Why
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.torch import ops
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.host_proofs import proven_on_host
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import (
    given_from_host,
    lives,
    named_device,
    on_device,
    perhaps_on_device,
)
from torchlint.semantic.values.sites import seen_from
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

_MAX_SITES = 12
_CASTS = frozenset(["builtins.float", "builtins.int", "builtins.bool", "builtins.complex"])
_SIZE_METHODS = ops.having("method", "sizes")
_LITERALS = (cst.SimpleString, cst.ConcatenatedString)
_PLAIN = (cst.BaseNumber, cst.BaseString, cst.Ellipsis)
_SIZE_FACTORIES = ops.dotted("factory", "sizes")
_FILLS = ("full", "new_full")
# What may stand between a copy and the scalar read that it serves:
# ``loss.cpu().detach().numpy().item()``.
_PLAIN_STEPS = ops.SAME_VALUES | ops.having("cast") | ops.having("move") | {"data", "numpy"}


_COPIES = ops.having("to-host")
_SCALARS = frozenset(("item", "float", "int"))
_HOST_LIBRARIES = frozenset(("numpy", "scipy", "sklearn", "math", "builtins", "pandas", "cv2"))


_KEEPING = ops.SAME_VALUES | ops.having("method", "keeps-whole") | ops.having("move")
"""What leaves fractions fractions."""
_FRACTIONS, _FRACTION_FUNCTIONS = ops.having("method", "gives-float"), ops.dotted("gives-float")
_KIND_OF_DTYPE = {"float": "float", "double": "float", "half": "float", "int": "int", "bool": "int"}


@frozen
class HostRead:
    """One place where Python waits for the device.

    Args:
        node: the expression that waits.
        tensor: the expression on the device.
        how: ``item``, ``float``, ``int``, ``bool``, ``complex``, ``math``, ``range``, ``slice``,
            ``index``, ``size``, ``format`` or ``print`` for scalar reads; ``helper`` for one that a
            function of another file makes; ``cpu``, ``to`` or ``tolist`` for copies.
        inside: where the other file reads.
    """

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    how: str
    inside: tuple[Why, ...] = ()


# -- scalars ---------------------------------------------------------------------------------------


@question(
    yes="`{0}` waits for a value on the device", no="`{0}` reads no single value of a device tensor"
)
def scalar_reads(module: Module, node: cst.CSTNode) -> tuple[HostRead, ...]:
    """Return the reads of a device scalar that a call, slice, index, f-string or ``%`` format makes
    itself."""
    return tuple(_of(module, node, _CERTAIN))


@question()
def possible_reads(module: Module, node: cst.CSTNode) -> tuple[HostRead, ...]:
    """Return the reads of one number that a call, slice, index, f-string or ``%`` format makes of
    what is not known to lie on the host: where a text, an index or a size is made, of a tensor."""
    return tuple(_of(module, node, _POSSIBLE))


@question()
def number_kind(module: Module, read: HostRead) -> str | None:
    """Return the kind of number that a read gives, ``int`` or ``float``; None for unknown."""
    if read.how in ("float", "int"):
        return read.how
    value = inferred(module, read.tensor)
    kind = _KIND_OF_DTYPE.get(value.dtype or "")
    # Nearly always: a complex value has a graph too, so that it proves nothing.
    graph = value.grad or value.origin == "loss"
    return kind or ("float" if graph or _is_fraction(module, read.tensor) else None)


@question()
def _is_fraction(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether what a tensor holds is the result of a division, a mean or a function that gives
    fractions whatever it is handed."""
    match tensor:
        case cst.Name():
            found = definitions_of(module, tensor)
            bound = [_bound(module, each, tensor.value) for each in found]
            known = [each for each in bound if each is not None]
            whole = len(known) == len(found) > 0
            return whole and all(_is_fraction(module, each) for each in known)
        case cst.BinaryOperation(operator=cst.Divide()):
            return True
        case cst.BinaryOperation(left, operator, right):
            linear = isinstance(operator, (cst.Add, cst.Subtract, cst.Multiply))
            return linear and any(_is_fraction(module, each) for each in (left, right))
        case cst.UnaryOperation(cst.Minus(), inner):
            return _is_fraction(module, inner)
        case cst.Call(cst.Attribute(inner, cst.Name(method)) as func):
            own = method in _FRACTIONS or (method in _KEEPING and _is_fraction(module, inner))
            return own if module.name(func) is None else module.name(func) in _FRACTION_FUNCTIONS
        case cst.Attribute(inner, cst.Name("data")):
            return _is_fraction(module, inner)
    return False


def _bound(module: Module, definition: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """Return what a plain assignment binds to a name: the element of the tuple that a function of
    the file returns, where it is taken apart."""
    match definition:
        case cst.Assign([cst.AssignTarget(cst.Name(target))], value):
            return value if target == name else None
        case cst.Assign(
            [cst.AssignTarget(cst.Tuple(targets))],
            cst.Call() as call,
        ):
            names = [module.source_of(each.value) for each in targets]
            callees = callees_of(module, call)
            body = callees[0].body if len(callees) == 1 else None
            returns = list(module.within(body, cst.Return)) if body is not None else []
            given = returns[0].value if len(returns) == 1 else None
            if isinstance(given, cst.Tuple) and len(given.elements) == len(names):
                return given.elements[names.index(name)].value if name in names else None
    return None


def _of(module: Module, node: cst.CSTNode, asks: _Asks) -> Iterator[HostRead]:
    if isinstance(node, cst.Call):
        yield from _of_call(module, node, asks)
    elif isinstance(node, cst.Subscript):
        yield from _of_subscript(module, node, asks)
    elif isinstance(node, cst.FormattedString):
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression) and asks.waits(
                module, part.expression
            ):
                yield HostRead(node, part.expression, "format")
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        yield from _of_percent(module, node, asks)


def _of_call(module: Module, call: cst.Call, asks: _Asks) -> Iterator[HostRead]:
    func = call.func
    written = _method(module, call)
    if written is not None and written[1:] == ("item", 0):
        tensor = asks.source(module, written[0])
        if tensor is not None and not _made_number(module, call):
            yield HostRead(call, tensor, "item")
        return
    name = module.name(func) or ""
    if name in _CASTS and len(call.args) == 1 and not call.args[0].star:
        read = call.args[0].value
        written = _method(module, read) if isinstance(read, cst.Call) else None
        item = written is not None and written[1:] == ("item", 0) and _made_number(module, read)
        tensor = asks.source(module, written[0] if written is not None and item else read)
        if tensor is not None:
            yield HostRead(call, tensor, name.rpartition(".")[2])
    elif name.startswith("math.") or name in ("builtins.range", "builtins.print"):
        found = next(
            (arg.value for arg in call.args if not arg.star and asks.waits(module, arg.value)), None
        )
        if found is not None:
            yield HostRead(
                call, found, name.partition(".")[0] if name[0] == "m" else name.rpartition(".")[2]
            )
    elif name in _SIZE_FACTORIES or (attr_of(func) in _SIZE_METHODS):
        yield from _of_sizes(module, call, asks)
    elif (
        isinstance(func, cst.Attribute)
        and func.attr.value == "format"
        and isinstance(func.value, _LITERALS)
    ):
        found = next((arg.value for arg in call.args if asks.waits(module, arg.value)), None)
        if found is not None:
            yield HostRead(call, found, "format")
    elif "." in name:
        yield from _of_helper(module, call, name, asks)


def _made_number(module: Module, read: cst.CSTNode) -> bool:
    """Say whether what is read is made the number that it is: ``float(x.item())`` is one read."""
    match module.taker(read):
        case cst.Call(func, [cst.Arg(star="")]):
            return module.name(func) in ("builtins.float", "builtins.int")
    return False


def _of_helper(module: Module, call: cst.Call, name: str, asks: _Asks) -> Iterator[HostRead]:
    for read in argument_reads(module, name):
        given = argument_for(call, read.position, read.name)
        if read.how in _SCALARS and given is not None and asks.waits(module, given):
            words = f"{name.rpartition('.')[2]}() reads `{read.name}` on the host"
            yield HostRead(call, given, "helper", (Why(words, call, (read.module, read.node)),))
            return


def _of_sizes(module: Module, call: cst.Call, asks: _Asks) -> Iterator[HostRead]:
    filled = method_called(call) in _FILLS
    for arg in call.args[:1] if filled else call.args:  # What fills it is no size.
        if arg.keyword is None and not arg.star:
            parts = (
                [e.value for e in arg.value.elements]
                if isinstance(arg.value, cst.Tuple)
                else [arg.value]
            )
            for part in parts:
                if asks.waits(module, part) and inferred(module, part).rank == 0:
                    yield HostRead(call, part, "size")
                    return


def _of_subscript(module: Module, node: cst.Subscript, asks: _Asks) -> Iterator[HostRead]:
    for item in node.slice:
        part = item.slice
        if isinstance(part, cst.Slice):
            for bound in (part.lower, part.upper, part.step):
                if bound is not None and asks.waits(module, bound) and not _guessed(module, bound):
                    yield HostRead(node, bound, "slice")
                    return
        elif isinstance(part, cst.Index) and (
            _scalars(module, part.value, len(node.slice) > 1)
            or (
                asks.waits(module, part.value)
                and inferred(module, node.value).kind in ("list", "tuple")
            )
        ):
            yield HostRead(node, part.value, "index")
            return


@question(
    yes="`{answer}` has no dimension, so that Python reads it to take one element",
    no="no part of the index is a device tensor that is certainly one whole number",
)
def selected_by(module: Module, node: cst.Subscript) -> cst.BaseExpression | None:
    """Return the part of an index into a tensor that Python reads as a number: a whole number in a
    tensor without dimensions, as ``sigmas[i]`` has it in a loop over ``torch.arange``.

    Source: torch/csrc/autograd/python_variable_indexing.cpp, which calls ``item()`` of such an
    index and selects by the number; ``index_select`` and ``gather`` take it as it is.
    """
    if not inferred(module, node.value).tensor:
        return None
    for each in node.slice:
        part = each.slice
        if isinstance(part, cst.Index) and _waits(module, part.value):
            value = inferred(module, part.value)
            if value.rank == 0 and value.dtype == "int" and not value.loose:
                # Whether code is compiled, or called by such code: there an index stays in the
                # graph.
                function = module.function(node)
                sites = call_sites(module, function) if function is not None else []
                return (
                    None
                    if is_compiled(module, node) or any(is_compiled(module, site) for site in sites)
                    else part.value
                )
    return None


def _guessed(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a value may as well be a number: what a dict holds that comes into a module."""
    value = inferred(module, node)
    return value.loose and value.origin == "forward"


def _scalars(module: Module, index: cst.BaseExpression, among_others: bool) -> bool:
    # A list of device scalars as index: each is read. Behind a comma, a list can hold nothing else.
    value = inferred(module, index)
    item = value.item
    if value.kind != "list" or item is None or not item.tensor or item.loose:
        return False
    return (among_others or item.rank == 0) and lives(module, item) is True


def _of_percent(module: Module, node: cst.BinaryOperation, asks: _Asks) -> Iterator[HostRead]:
    if inferred(module, node.left).kind != "str":
        return
    right = node.right
    parts = [e.value for e in right.elements] if isinstance(right, cst.Tuple) else [right]
    found = next((part for part in parts if asks.waits(module, part)), None)
    if found is not None:
        yield HostRead(node, found, "format")


def _waits(module: Module, node: cst.BaseExpression) -> bool:
    if isinstance(node, _PLAIN):
        return False
    return inferred(module, node).tensor and on_device(module, node) is True


def _given(module: Module, node: cst.BaseExpression) -> bool:
    # A helper that is called with this and that: one of the calls in a loop passes a tensor on the
    # device.
    value = inferred(module, node)
    unknown = value.kind == "?" or (value.tensor and value.device is None and value.origin is None)
    return unknown and on_device_from(module, node) is not None


def _brought(module: Module, node: cst.BaseExpression) -> bool:
    # Of all that is brought to a device, only a tensor is read as a number, or as a list of some.
    value = inferred(module, node)
    return value.kind == "?" and value.device in (CUDA, ACCEL) and on_accelerator(module)


def _method(module: Module, call: cst.Call) -> tuple[cst.BaseExpression, str, int] | None:
    """Return receiver, name and number of arguments of a method call.

    It may also be spelled by a wrapper: ``to = lambda x, *args: x.to(*args)``.
    """
    if isinstance(call.func, cst.Attribute) and not callees_of(module, call):
        return call.func.value, call.func.attr.value, len(call.args)
    match callees_of(module, call):
        case (
            cst.Lambda(
                params=cst.Parameters(params=[cst.Param(cst.Name(first)), *_]),
                body=cst.Call(cst.Attribute(cst.Name(receiver), cst.Name(method))),
            ),
        ) if (
            first == receiver
            and call.args
            and call.args[0].keyword is None
            and not call.args[0].star
        ):
            return call.args[0].value, method, len(call.args) - 1
    return None


def source(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the device tensor that an expression is or, through plain copies and views, was; else
    None."""
    if _waits(module, node) or perhaps_on_device(module, node) or _given(module, node):
        return node
    if _brought(module, node):
        return node
    at: cst.CSTNode = node
    while True:
        if isinstance(at, (cst.Call, cst.Subscript)) and _made_of_device(module, at):
            return at
        if (
            isinstance(at, cst.Call)
            and isinstance(at.func, cst.Attribute)
            and at.func.attr.value in _PLAIN_STEPS
        ):
            at = at.func.value
        elif isinstance(at, cst.Attribute) and at.attr.value in _PLAIN_STEPS:
            at = at.value
        else:
            return None
        if _waits(module, at):
            return at


@question(
    yes="`{0}` may be a tensor on the device",
    no="`{0}` is known to be no tensor on the device",
    remember=False,
)
def may_wait(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression may be a tensor on the device: it is one, or nothing is known of
    it."""
    kind = inferred(module, node).kind
    return (kind == "?" and not isinstance(node, _PLAIN)) or tensor_of_device(module, node)


@question(
    yes="`{0}` is a tensor that may lie on the device",
    no="`{0}` is no tensor, or lies on the host",
    remember=False,
)
def tensor_of_device(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a tensor, as far as is known, and nothing shows that it lies on
    the host."""
    value = inferred(module, node)
    tensor = value.tensor or value.kind == "accumulated"
    return tensor and not value.host and not proven_on_host(module, node)


def _read_of(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    return node if may_wait(module, node) else source(module, node)


@frozen
class _Asks:
    """How reads are looked for: what an explicit one (``float(x)``) reads, and what is a tensor of
    which a text, an index or a size is made."""

    source: Callable[[Module, cst.BaseExpression], cst.BaseExpression | None]
    waits: Callable[[Module, cst.BaseExpression], bool]


_CERTAIN = _Asks(source, _waits)
_POSSIBLE = _Asks(_read_of, tensor_of_device)


def _moved(module: Module, call: cst.Call, receiver: cst.BaseExpression) -> bool:
    # Where nothing is known of the receiver, the author's ``.cpu()`` itself says that it may be on
    # the device.
    value = inferred(module, receiver)
    unknown = value.kind == "?" or (value.tensor and value.device is None)
    plain = not call.args and not callees_of(module, call)
    if not plain or not unknown or value.origin == "batch" or not on_accelerator(module):
        return False
    return not given_from_host(module, receiver)


def _made_of_device(module: Module, node: cst.Call | cst.Subscript) -> bool:
    # ``accuracy(output, target)[0]``: an unknown function of device tensors whose result has
    # ``.item()``.
    call = node.value if isinstance(node, cst.Subscript) else node
    if not isinstance(call, cst.Call) or inferred(module, node).kind != "?":
        return False
    if (
        inferred(module, call).kind != "?"
        or module.called(call).partition(".")[0] in _HOST_LIBRARIES
    ):
        return False
    return any(_waits(module, arg.value) for arg in call.args)


# -- copies ----------------------------------------------------------------------------------------


@question(remember=False)
def copies_around(module: Module, node: cst.CSTNode, *kinds: type[Link]) -> Iterator[cst.Call]:
    """Yield the calls in the chain around a node (see `links_around`) that copy to the host."""
    for at in module.links_around(node, *kinds):
        if isinstance(at, cst.Call) and host_copy(module, at) is not None:
            yield at


@question(
    yes="`{0}` copies a device tensor to the host", no="`{0}` copies no device tensor to the host"
)
def host_copy(module: Module, call: cst.Call) -> HostRead | None:
    """Return the copy of a device tensor to host memory that a method call makes, or None.

    Only what moves data counts: ``.numpy()`` behind ``.cpu()`` is free, and on a tensor that was
    not moved it proves that the tensor is on the CPU, as it raises for any other.
    """
    found = _method(module, call)
    if found is None or found[1] not in _COPIES:
        return None
    receiver, method, _ = found
    if (
        not _waits(module, receiver)
        and not perhaps_on_device(module, receiver)
        and not _given(module, receiver)
        and not (method == "tolist" and _brought(module, receiver))
    ):
        return (
            HostRead(call, receiver, method)
            if method == "cpu" and _moved(module, call, receiver)
            else None
        )
    return HostRead(call, receiver, method) if _to_host(module, call, method) else None


@question(
    yes="the host computes with `{0}` in float64",
    no="`{0}` casts no copy of a device tensor to float64",
)
def widened_copy(module: Module, call: cst.Call) -> HostRead | None:
    """Return the copy to host memory that a call casts to float64, in which a GPU is slow:
    ``x.cpu().double()``."""
    match call.func:
        case cst.Attribute(cst.Call() as copy, cst.Name("double" | "to" | "type" as cast)):
            wide = cast == "double" or any(
                module.name(arg.value) in ("torch.float64", "torch.double") for arg in call.args
            )
            return host_copy(module, copy) if wide else None
    return None


def _to_host(module: Module, call: cst.Call, method: str) -> bool:
    moved = method in ("to", "type") and inferred(module, call).device == CPU
    return moved or method in ("cpu", "tolist")


@question()
def possible_copy(module: Module, call: cst.Call) -> HostRead | None:
    """Return the copy to host memory that a method call makes of what is not known to lie there, or
    None."""
    match _method(module, call):
        case (receiver, method, _) if method in _COPIES and may_wait(module, receiver):
            named = (each.value for each in call.args if keyword_of(each) in ("", "device"))
            there = method == "to" and any(named_device(module, each) == CPU for each in named)
            if there or _to_host(module, call, method):
                return HostRead(call, receiver, method)
    return None


@question(
    yes="the call `{answer}` passes a tensor on the accelerator",
    no="no hot call passes a tensor on the accelerator",
)
def on_device_from(module: Module, node: cst.BaseExpression) -> cst.Call | None:
    """Return a hot call of the function around `node` that makes the expression a tensor on the
    accelerator."""
    function = module.function(node)
    sites = call_sites(module, function) if function is not None else []
    if function is None or len(sites) > _MAX_SITES or not on_accelerator(module):
        return None
    for site in sites:
        if heat_of(module, site).hot and not is_benchmark(module, site):
            value = seen_from(values(module), node, function, site)
            if lives(module, value) or (
                value.kind == "accumulated" and value.device in (CUDA, ACCEL)
            ):
                return site
    return None
