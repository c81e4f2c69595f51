"""All that makes the host wait for the device, or may: reads, copies, tests and operations of what
is not known to lie on the host."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.code.truth import ASKING, asked_for_truth
from torchlint.semantic.device.host_reads import (
    may_wait,
    possible_copy,
    possible_reads,
    tensor_of_device,
)
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.device.value_sized import gathered, unsized
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.operations import operation_of
from torchlint.semantic.values.place import named_device, on_device
from torchlint.semantic.values.value import ACCEL, CUDA

WAITING = (*ASKING, cst.Call, cst.Subscript, cst.FormattedString, cst.BinaryOperation)
"""The types of nodes that may wait."""
_NUMBERS = ("tensor", "number", "bool")
_OPERATIONS = ops.having("waits") - ops.having("reads") - ops.having("to-host")
_TEXTS = frozenset(("builtins.str", "builtins.repr"))
_STREAMS = ops.dotted("stream")
_DEVICE = ops.dotted("whole-device")
SYNCHRONISERS = (*_DEVICE, ".synchronize")
"""Calls of which `synchroniser` says something."""

READ = "Python reads it on the host"
TO_HOST = "it is copied to the host"
TO_DEVICE = "without non_blocking the host waits for the copy"
MADE = "host data are copied to the device"
TRUTH = "Python asks the device for its truth"
SIZED = "only values on the device say how many elements there are"
VALUES = "the operation looks at values on the host"
ALL_WORK = "it waits for all work on the device"
SCALED = "a gradient scaler reads whether gradients are infinite"
CHECKED = "a distribution checks on the host what it is given, unless validate_args=False"
INDEXED = "the positions are copied to the device"
UNSEEN = "what it calls is not in view"
STOPS = frozenset((READ, SIZED, TO_HOST, TRUTH, VALUES))
"""Those for which the host certainly waits where the tensor lies on the device: copies to the
device may overlap."""
_KNOWN = ("torch.", "builtins.", "math.", "numpy.")


@frozen
class PossibleWait:
    """An expression for which the host waits, or may wait.

    Args:
        node: the expression.
        tensor: what is read or copied; None where that is no single value.
        why: one of the sentences of this module.
    """

    node: cst.BaseExpression
    tensor: cst.BaseExpression | None
    why: str


@question()
def possible_waits(module: Module, node: cst.CSTNode) -> tuple[PossibleWait, ...]:
    """Return the waits of a node itself: those of a tensor of the device, and those of what may be
    one."""
    return tuple(_waits(module, node))


@question(
    yes="`{0}` calls what is not in view, and may wait there",
    no="`{0}` calls what is known, or code of the project",
)
def unseen(module: Module, call: cst.Call) -> bool:
    """Say whether a call is of something that nothing is known of, as of a library: it may wait,
    and a run shows that at its line. Code of the project waits at lines of its own."""
    name = module.called(call)
    if name.startswith(_KNOWN) or callees_of(module, call):
        return False
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    return inferred(module, receiver).kind in ("?", "object", "function", "class")


def _waits(module: Module, node: cst.CSTNode) -> Iterator[PossibleWait]:
    for read in possible_reads(module, node):
        yield PossibleWait(read.node, read.tensor, READ)
    if isinstance(node, ASKING):
        for asked in asked_for_truth(module, node):
            if _decides(module, asked):
                yield PossibleWait(asked, asked, TRUTH)
    if isinstance(node, cst.Call):
        yield from _of_call(module, node)
    if isinstance(node, (cst.Call, cst.Subscript)):
        tensor = gathered(module, node)
        if tensor is not None and tensor_of_device(module, tensor):
            yield PossibleWait(node, tensor, SIZED)
    if isinstance(node, cst.Subscript) and tensor_of_device(module, node.value):
        parts = (part.slice for part in node.slice)
        if any(isinstance(each, cst.Index) and _on_host(module, each.value) for each in parts):
            yield PossibleWait(node, node.value, INDEXED)


def _on_host(module: Module, index: cst.BaseExpression) -> bool:
    """Say whether an index is positions that the host has: a list, an array, a tensor."""
    value = inferred(module, index)
    positions = value.tensor and value.host and value.rank != 0 and value.dtype == "int"
    return positions or value.kind in ("list", "ndarray", "iterator")


def _of_call(module: Module, call: cst.Call) -> Iterator[PossibleWait]:
    copy = possible_copy(module, call)
    if copy is not None and not told_not_to_wait(module, call):
        yield PossibleWait(call, copy.tensor, TO_HOST)
    if module.name(call.func) in _TEXTS and len(call.args) == 1:
        shown = call.args[0].value
        if tensor_of_device(module, shown):
            yield PossibleWait(call, shown, READ)
    if synchroniser(module, call) is not None:
        yield PossibleWait(call, None, ALL_WORK)
    yield from _of_scaler(module, call)
    yield from _of_distribution(module, call)
    size = unsized(module, call)
    if size is not None and tensor_of_device(module, size.values):
        yield PossibleWait(call, size.values, SIZED)
    found = operation_of(module, call)
    if found is not None and found.name in _OPERATIONS and found.operands:
        tensor = found.operands[0]
        if gathered(module, call) is None and tensor_of_device(module, tensor):
            yield PossibleWait(call, tensor, VALUES)
    # The copy to the device for which the host waits: of a tensor that is not known to be there,
    # or of what a tensor is made of there.
    transfer = transfer_of(module, call)
    if transfer is not None:
        moved = may_wait(module, transfer.source) or _batch(module, transfer.source)
        there = on_device(module, transfer.source) is True
        if moved and not there and not told_not_to_wait(module, call):
            yield PossibleWait(call, transfer.source, TO_DEVICE)
    elif module.name(call.func) in ops.DATA_FACTORIES and call.args:
        told = keyword_argument(module, call, "device")
        device, given = named_device(module, told), call.args[0].value
        known = device in (CUDA, ACCEL)
        if (known or (told and device is None)) and on_device(module, given) is not True:
            yield PossibleWait(call, None if known else told, MADE)


def _of_distribution(module: Module, call: cst.Call) -> Iterator[PossibleWait]:
    """Yield the wait of a distribution of torch that checks on the host what a call hands it: its
    arguments where it is made, and that of which it is asked how likely it is."""
    made: list[cst.CSTNode] = [call]
    match call.func:
        case cst.Attribute(cst.Name() as asked, cst.Name("log_prob")):
            made = definitions_of(module, asked)
    for each in made:
        maker = each.value if isinstance(each, cst.Assign) else each
        if (
            not isinstance(maker, cst.Call)
            or not (module.name(maker.func) or "").startswith("torch.distributions.")
            or keyword_argument(module, maker, "validate_args") is not None
        ):
            return
    given = (arg.value for arg in call.args[:3] if may_wait(module, arg.value))
    for checked in given if made else ():
        yield PossibleWait(call, checked, CHECKED)
        return


def _batch(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether what is moved is a tensor on the host, or a batch from there."""
    value = inferred(module, node)
    return value.kind == "batch" or (value.tensor and value.host)


@question(yes="`{0}` is told not to wait (non_blocking=True)", no="`{0}` waits for what it copies")
def told_not_to_wait(module: Module, call: cst.Call) -> bool:
    """Say whether a copy is told not to wait."""
    told = keyword_argument(module, call, "non_blocking")
    return told is not None and not is_name(told, "False")


@question()
def synchroniser(module: Module, call: cst.Call) -> str | None:
    """Return how a call that waits for all work on the device is spelled in full, or None."""
    match call.func:
        case cst.Attribute(cst.Call(func), cst.Name("synchronize")) if (
            module.name(func) in _STREAMS
        ):
            return f"{module.name(func)}().synchronize"
    name = module.name(call.func)
    return name if name in _DEVICE else None


def _of_scaler(module: Module, call: cst.Call) -> Iterator[PossibleWait]:
    """Yield the wait of a step of a gradient scaler."""
    waits = scaler_waits(module, call)
    if waits is not False and isinstance(call.func, cst.Attribute):
        yield PossibleWait(call, None if waits else call.func.value, SCALED)


@question()
def scaler_waits(module: Module, call: cst.Call) -> bool | None:
    """Say whether a call is a step of a gradient scaler that reads from the device whether a
    gradient is infinite: one that is switched off does not, nor does one of a fused optimizer,
    which asks for that on the device; None where a setting decides."""
    match call.func:
        case cst.Attribute(scaler, cst.Name("step" | "get_scale")) if (
            inferred(module, scaler).kind == "scaler"
        ):
            made = inferred(module, scaler).node
            switch, fused = _option(module, made, "enabled"), None
            if call.args:
                fused = _option(module, inferred(module, call.args[0].value).node, "fused")
            if is_name(switch, "False") or is_name(fused, "True"):
                return False
            certain = isinstance(made, cst.Call) and switch is None
            return True if certain and (fused is None or is_name(fused, "False")) else None
    return False


def _option(module: Module, made: cst.CSTNode | None, name: str) -> cst.BaseExpression | None:
    return keyword_argument(module, made, name) if isinstance(made, cst.Call) else None


def _decides(module: Module, asked: cst.BaseExpression) -> bool:
    match asked:
        case cst.Comparison(
            item,
            [cst.ComparisonTarget(cst.In() | cst.NotIn(), holder)],
        ):
            # A tensor holds numbers: what is asked for a string is a dict or a named tuple.
            return inferred(module, item).kind in _NUMBERS and tensor_of_device(module, holder)
    return tensor_of_device(module, asked)
