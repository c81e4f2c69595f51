"""Values that leave the device, are worked on by the host, and go back to a device in the same
function."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.rule import Module, inferred, keyword_argument
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.self_attributes import self_assignments
from torchlint.semantic.code.tree import links
from torchlint.semantic.device.host_reads import HostRead, host_copy
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.values.place import named_device
from torchlint.semantic.values.value import ACCEL, CUDA


@frozen
class RoundTrip:
    """One trip of a value from the device to the host and back.

    Args:
        copy: where the value leaves the device.
        back: the call that brings the result to the device again.
        maker: the call that makes a tensor of host data, often inside `back`.
        direct: the whole trip is one expression.
        through: the dotted names of the functions that it passes on the host.
        unknown: whether it also passes a method of an object of which nothing is known.
    """

    copy: HostRead
    back: cst.Call
    maker: cst.Call
    direct: bool
    through: tuple[str, ...]
    unknown: bool


SENDS = (*ops.DATA_FACTORIES, *(f".{name}" for name in MOVES))
"""Calls that may end a trip to the host."""


@question(
    yes="the data went to the host and comes back", no="`{0}` is not the end of a trip to the host"
)
def round_trip(module: Module, back: cst.Call) -> RoundTrip | None:
    """Return the trip that ends in `back`: a tensor made of host data and moved, or made with
    ``device=``."""
    maker = _maker(module, back)
    if maker is None or not maker.args:
        return None
    through: list[str] = []
    unknown = False
    data = maker.args[0].value
    for expr in _sources(module, data, maker, set()):
        for call in module.within(expr, cst.Call):
            copy = host_copy(module, call)
            if copy is not None:
                direct = module.is_within(call, data)
                return RoundTrip(copy, back, maker, direct, tuple(through), unknown)
            if _is_given(module, call.func):
                return None  # What that does on the host, torch has no word for.
            unknown = unknown or _runs_elsewhere(module, call)
            through.append(module.called(call))
    return None


def _is_given(module: Module, func: cst.BaseExpression) -> bool:
    """Say whether what is called is a function that this one is given, itself, by its object or by
    the context of an autograd function: ``forward_fun(x.cpu().numpy())``."""
    match func:
        case cst.Attribute(cst.Name("ctx")):
            return True
        case cst.Attribute(cst.Name("self"), cst.Name(name)):
            cls = module.class_of(func)
            return cls is not None and name in self_assignments(module.tree, cls)
        case cst.Name():
            bound = definitions_of(module, func)
        case _:
            return False
    match bound:
        case [cst.FunctionDef(name=home) as function]:
            return function is module.function(func) and home.value != func.value
        case [cst.Assign([cst.AssignTarget(cst.Name())], value)]:
            return _is_given(module, value)
    return False


def _runs_elsewhere(module: Module, call: cst.Call) -> bool:
    """Say whether a call runs a method of an object of which nothing is known, a simulator's
    ``env.step(action)``, also by way of a class above: ``super().step(action)``."""
    match call.func:
        case cst.Attribute(cst.Call(cst.Name("super"))):
            return True
        case cst.Attribute(holder):
            return not module.called(call) and inferred(module, holder).kind == "?"
    return False


def _maker(module: Module, back: cst.Call) -> cst.Call | None:
    """Return the call that makes a tensor of host data, where `back` brings that tensor to a
    device."""
    if module.name(back.func) in ops.DATA_FACTORIES:
        device = keyword_argument(module, back, "device")
        return (
            back if device is not None and named_device(module, device) in (CUDA, ACCEL) else None
        )
    if not isinstance(back.func, cst.Attribute) or back.func.attr.value not in MOVES:
        return None
    if inferred(module, back).device not in (CUDA, ACCEL):
        return None
    chain = links(back.func.value, cst.Call, cst.Attribute)
    calls = (at for at in chain if isinstance(at, cst.Call))
    return next((call for call in calls if module.name(call.func) in ops.DATA_FACTORIES), None)


def _sources(
    module: Module,
    expr: cst.BaseExpression,
    before: cst.CSTNode,
    seen: set[cst.CSTNode],
) -> Iterator[cst.BaseExpression]:
    """Yield an expression, then the expressions from which the names in it got their values,
    nearest first."""
    yield expr
    for name in module.within(expr, cst.Name):
        above = module.parent(name)
        if isinstance(above, cst.Attribute) and above.attr is name:
            continue
        if isinstance(above, cst.Call) and above.func is name:
            continue
        origin = _origin(module, name.value, before)
        if origin is not None and origin not in seen:
            seen.add(origin)
            yield from _sources(module, origin, origin, seen)


def _origin(module: Module, name: str, before: cst.CSTNode) -> cst.BaseExpression | None:
    scope_node: cst.CSTNode = module.scope(before)
    own = module.small_statement(before)
    for write in reversed(
        [w for w in writes_of(module, scope_node, name) if module.before(w, before)]
    ):
        at = module.small_statement(write)
        if at is not None and at is own:
            continue
        if isinstance(at, cst.Assign):
            return at.value
        if at is None and isinstance(above := module.parent(write), cst.For):
            return above.iter
    return None
