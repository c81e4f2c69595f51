"""Where the host waits for a value on the device: reads of one scalar, and copies of whole tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.time.heat import Why
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

_CASTS = frozenset(["builtins.float", "builtins.int", "builtins.bool", "builtins.complex"])
_SIZE_METHODS = frozenset(("view reshape expand repeat new_zeros new_ones new_empty unflatten narrow").split())
_LITERALS = (cst.SimpleString, cst.ConcatenatedString)
_PLAIN = (cst.BaseNumber, cst.BaseString, cst.Ellipsis)
_SIZE_FACTORIES = frozenset(
    "torch." + name for name in ("zeros ones empty full rand randn randperm arange linspace eye").split()
)
# What may stand between a copy and the scalar read that it serves: ``loss.cpu().detach().numpy().item()``.
_PLAIN_STEPS = frozenset(
    ("detach data numpy cpu to float double half squeeze clone flatten view reshape contiguous").split()
)


_COPIES = frozenset(("cpu", "tolist", "to"))
_SCALARS = frozenset(("item", "float", "int"))
_HOST_LIBRARIES = frozenset(("numpy", "scipy", "sklearn", "math", "builtins", "pandas", "cv2"))


@dataclass(frozen=True, slots=True)
class HostRead:
    """One place where Python waits for the device.

    Args:
        node: the expression that waits.
        tensor: the expression on the device.
        how: ``item``, ``float``, ``int``, ``bool``, ``complex``, ``math``, ``range``, ``slice``, ``index``, ``size``,
            ``format`` or ``print`` for scalar reads; ``helper`` for one that a function of another file makes;
            ``cpu``, ``to`` or ``tolist`` for copies.
        inside: where the other file reads.
    """

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    how: str
    inside: tuple[Why, ...] = ()


class HostReads:
    """Finds the host reads of one file; asks the `Module` where a value lives."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._scalars: dict[cst.CSTNode, tuple[HostRead, ...]] = {}
        self._copies: dict[cst.Call, HostRead | None] = {}

    # -- scalars ------------------------------------------------------------------------------------------------

    def scalars(self, node: cst.CSTNode) -> tuple[HostRead, ...]:
        """Return the scalar reads that a call, slice, index, f-string or ``%`` format makes itself."""
        if node not in self._scalars:
            self._scalars[node] = tuple(self._of(node))
        return self._scalars[node]

    def _of(self, node: cst.CSTNode) -> Iterator[HostRead]:
        if isinstance(node, cst.Call):
            yield from self._of_call(node)
        elif isinstance(node, cst.Subscript):
            yield from self._of_subscript(node)
        elif isinstance(node, cst.FormattedString):
            for part in node.parts:
                if isinstance(part, cst.FormattedStringExpression) and self._waits(part.expression):
                    yield HostRead(node, part.expression, "format")
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            yield from self._of_percent(node)

    def _of_call(self, call: cst.Call) -> Iterator[HostRead]:
        func = call.func
        written = self._method(call)
        if written is not None and written[1:] == ("item", 0):
            tensor = self.source(written[0])
            if tensor is not None:
                yield HostRead(call, tensor, "item")
            return
        name = self.module.name(func) or ""
        if name in _CASTS and len(call.args) == 1 and not call.args[0].star:
            tensor = self.source(call.args[0].value)
            if tensor is not None:
                yield HostRead(call, tensor, name.rpartition(".")[2])
        elif name.startswith("math.") or name in ("builtins.range", "builtins.print"):
            found = next((arg.value for arg in call.args if not arg.star and self._waits(arg.value)), None)
            if found is not None:
                yield HostRead(call, found, name.partition(".")[0] if name[0] == "m" else name.rpartition(".")[2])
        elif name in _SIZE_FACTORIES or (isinstance(func, cst.Attribute) and func.attr.value in _SIZE_METHODS):
            yield from self._of_sizes(call)
        elif isinstance(func, cst.Attribute) and func.attr.value == "format" and isinstance(func.value, _LITERALS):
            found = next((arg.value for arg in call.args if self._waits(arg.value)), None)
            if found is not None:
                yield HostRead(call, found, "format")
        elif "." in name:
            yield from self._of_helper(call, name)

    def _of_helper(self, call: cst.Call, name: str) -> Iterator[HostRead]:
        for read in self.module.argument_reads(name):
            given = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == read.name]
            if not given and not any(arg.star for arg in call.args[: read.position + 1]):
                plain = [arg.value for arg in call.args if arg.keyword is None]
                given = plain[read.position : read.position + 1]
            if read.how in _SCALARS and given and self._waits(given[0]):
                words = f"{name.rpartition('.')[2]}() reads `{read.name}` on the host"
                yield HostRead(call, given[0], "helper", (Why(words, call, (read.module, read.node)),))
                return

    def _of_sizes(self, call: cst.Call) -> Iterator[HostRead]:
        for arg in call.args:
            if arg.keyword is None and not arg.star:
                parts = [e.value for e in arg.value.elements] if isinstance(arg.value, cst.Tuple) else [arg.value]
                for part in parts:
                    if self._waits(part) and self.module.value(part).rank == 0:
                        yield HostRead(call, part, "size")
                        return

    def _of_subscript(self, node: cst.Subscript) -> Iterator[HostRead]:
        for item in node.slice:
            part = item.slice
            if isinstance(part, cst.Slice):
                for bound in (part.lower, part.upper, part.step):
                    if bound is not None and self._waits(bound):
                        yield HostRead(node, bound, "slice")
                        return
            elif isinstance(part, cst.Index) and self._waits(part.value) and self._in_list(node):
                yield HostRead(node, part.value, "index")
                return

    def _in_list(self, node: cst.Subscript) -> bool:
        return self.module.value(node.value).kind in ("list", "tuple")

    def _of_percent(self, node: cst.BinaryOperation) -> Iterator[HostRead]:
        if self.module.value(node.left).kind != "str":
            return
        right = node.right
        parts = [e.value for e in right.elements] if isinstance(right, cst.Tuple) else [right]
        found = next((part for part in parts if self._waits(part)), None)
        if found is not None:
            yield HostRead(node, found, "format")

    def _waits(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, _PLAIN):
            return False
        return self.module.value(node).tensor and self.module.on_device(node) is True

    def _summed(self, node: cst.BaseExpression) -> bool:
        # ``total = 0`` and then ``total = total + loss``: a number only before the first step.
        value = self.module.value(node)
        return value.kind == "accumulated" and value.device in (CUDA, ACCEL) and self.module.accel

    def _given(self, node: cst.BaseExpression) -> bool:
        # A helper that is called with this and that: one of the calls in a loop passes a tensor on the device.
        value = self.module.value(node)
        unknown = value.kind == "?" or (value.tensor and value.device is None and value.origin is None)
        return unknown and self.module.on_device_from(node) is not None

    def _method(self, call: cst.Call) -> tuple[cst.BaseExpression, str, int] | None:
        """Return receiver, name and number of arguments of a method call.

        It may also be spelled by a wrapper: ``to = lambda x, *args: x.to(*args)``.
        """
        if isinstance(call.func, cst.Attribute) and not self.module.callees(call):
            return call.func.value, call.func.attr.value, len(call.args)
        match self.module.callees(call):
            case (
                cst.Lambda(
                    params=cst.Parameters(params=[cst.Param(name=cst.Name(first)), *_]),
                    body=cst.Call(func=cst.Attribute(value=cst.Name(receiver), attr=cst.Name(method))),
                ),
            ) if first == receiver and call.args and call.args[0].keyword is None and not call.args[0].star:
                return call.args[0].value, method, len(call.args) - 1
        return None

    def source(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the device tensor that an expression is or, through plain copies and views, was; else None."""
        if self._waits(node) or self._summed(node) or self._given(node):
            return node
        at: cst.CSTNode = node
        while True:
            if isinstance(at, (cst.Call, cst.Subscript)) and self._made_of_device(at):
                return at
            if isinstance(at, cst.Call) and isinstance(at.func, cst.Attribute) and at.func.attr.value in _PLAIN_STEPS:
                at = at.func.value
            elif isinstance(at, cst.Attribute) and at.attr.value in _PLAIN_STEPS:
                at = at.value
            else:
                return None
            if self._waits(at):
                return at

    def _moved(self, call: cst.Call, receiver: cst.BaseExpression) -> bool:
        # Where nothing is known of the receiver, the author's ``.cpu()`` itself says that it may be on the device.
        value = self.module.value(receiver)
        unknown = value.kind == "?" or (value.tensor and value.device is None)
        plain = not call.args and not self.module.callees(call)
        return plain and unknown and value.origin != "batch" and self.module.accel

    def _made_of_device(self, node: cst.Call | cst.Subscript) -> bool:
        # ``accuracy(output, target)[0]``: an unknown function of device tensors whose result has ``.item()``.
        call = node.value if isinstance(node, cst.Subscript) else node
        if not isinstance(call, cst.Call) or self.module.value(node).kind != "?":
            return False
        if (
            self.module.value(call).kind != "?"
            or (self.module.name(call.func) or "").partition(".")[0] in _HOST_LIBRARIES
        ):
            return False
        return any(self._waits(arg.value) for arg in call.args)

    # -- copies -------------------------------------------------------------------------------------------------

    def copy(self, call: cst.Call) -> HostRead | None:
        """Return the copy of a device tensor to host memory that a method call makes, or None.

        Only what moves data counts: ``.numpy()`` behind ``.cpu()`` is free, and on a tensor that was not moved it
        proves that the tensor is on the CPU, as it raises for any other.
        """
        if call not in self._copies:
            self._copies[call] = self._copy(call)
        return self._copies[call]

    def _copy(self, call: cst.Call) -> HostRead | None:
        found = self._method(call)
        if found is None or found[1] not in _COPIES:
            return None
        receiver, method, _ = found
        if not self._waits(receiver) and not self._summed(receiver) and not self._given(receiver):
            return HostRead(call, receiver, method) if method == "cpu" and self._moved(call, receiver) else None
        if method in ("cpu", "tolist") or (method == "to" and self.module.value(call).device == CPU):
            return HostRead(call, receiver, method)
        return None
