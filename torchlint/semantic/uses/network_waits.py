"""Where a network waits for the device in each of its own runs, in whatever file it is."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.device.possible_waits import (
    INDEXED,
    SIZED,
    STOPS,
    WAITING,
    possible_waits,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import libraries, ops
from torchlint.semantic.uses.dominance import is_optional
from torchlint.semantic.values.classes import is_network
from torchlint.semantic.values.definitions_behind import reached
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_READS = ops.having("reads") | {"cpu"}
_CALLS = 3
"""Networks in networks that are looked into."""


@frozen
class WaitInside:
    """A place in a network for which the host waits in each run.

    Args:
        where: the file of the network.
        node: the place.
    """

    where: Module
    node: cst.BaseExpression

    def shown_from(self, module: Module) -> str:
        """Return the place in words, with the name of its file where that is another one."""
        place = f"`{self.where.shown(self.node)}`"
        return place if self.where is module else f"{place} in {Path(self.where.path).name}"


@question(
    yes="the network waits for the device in each run",
    no="the network is not known to wait for the device in each run",
)
def network_wait(module: Module, call: cst.Call) -> WaitInside | None:
    """Return where a network that a call runs waits for the device whatever it is given there: it
    copies lengths to the host, asks a tensor for its truth, or solves a differential equation with
    steps that it chooses by the error."""
    if not any(on_device(module, arg.value) is True for arg in call.args):
        return None
    return next(_waits(module, call, frozenset(), _CALLS), None)


def _waits(module: Module, call: cst.Call, there: Set[str], calls: int) -> Iterator[WaitInside]:
    """Yield the waits of a call of a network, or of a method of one; `there` are the parameters
    around it that are known to lie on the device."""
    behind = reached(module, call)
    if len(behind) != 1:
        return
    where, function = behind[0]
    if not isinstance(function, cst.FunctionDef) or not _of_network(where, function):
        return
    bound = where.bind(function, call)
    given = {name for name, value in bound.items() if _is_there(module, value, there)}
    ends = [
        each
        for each in where.within(function.body, cst.Return, cst.Yield)
        if isinstance(each, cst.Yield) or is_optional(where, each, function)
    ]
    for node in where.within(function.body, *WAITING) if given else ():
        if is_optional(where, node, function) or any(where.before(end, node) for end in ends):
            continue
        places = [
            wait.node
            for wait in possible_waits(where, node)
            if wait.why in STOPS
            and wait.tensor is not None
            and _is_there(where, wait.tensor, given)
        ]
        yield from (WaitInside(where, place) for place in places)
        if isinstance(node, cst.Call) and not places:
            if _copies(node, given) or _chooses_steps(where, node):
                yield WaitInside(where, node)
            elif calls > 1:
                yield from _waits(where, node, given, calls - 1)


def _of_network(module: Module, function: cst.FunctionDef) -> bool:
    cls = module.class_of(function)
    return cls is not None and is_network(module, cls)


def _is_there(module: Module, tensor: cst.BaseExpression, there: Set[str]) -> bool:
    """Say whether a tensor is known to lie on the device: by itself, or as what is made of one of
    the parameters that do."""
    if isinstance(tensor, cst.Name):
        return tensor.value in there or on_device(module, tensor) is True
    value = inferred(module, tensor)
    if not value.tensor or value.loose or value.host:
        return False
    return on_device(module, tensor) is True or not there.isdisjoint(module.names_in(tensor))


def _copies(call: cst.Call, there: Set[str]) -> bool:
    match call.func:
        case cst.Attribute(cst.Name(name), cst.Name(method)):
            return name in there and method in _READS
    return False


def _chooses_steps(module: Module, call: cst.Call) -> bool:
    """Say whether a call solves a differential equation by a method that asks after each step
    whether its error is small enough: the default, or one that is written there."""
    if module.name(call.func) not in libraries.SOLVERS:
        return False
    method = keyword_argument(module, call, "method")
    written = method.evaluated_value if isinstance(method, cst.SimpleString) else None
    return method is None or written in libraries.ADAPTIVE


@question(
    yes="the backward pass waits for `{answer}`",
    no="the backward pass is not known to wait for the device",
)
def backward_wait(module: Module, call: cst.Call) -> WaitInside | None:
    """Return what was selected on the way to a loss by a mask, or by positions that the host has:
    for its gradient the backward pass waits again, as the forward pass has. It stands in the same
    iteration or function, or in code of the project that is called there."""
    home = module.loop(call) or module.function(call)
    if home is None or method_called(call) != "backward":
        return None
    level: list[tuple[Module, cst.CSTNode]] = [
        (module, node)
        for node in module.within(home, cst.Subscript, cst.Call)
        if module.before(node, call)
    ]
    for _ in range(_CALLS):
        for where, node in level:
            if (
                isinstance(node, cst.Subscript)
                and inferred(where, node).grad is not False
                and any(wait.why in (INDEXED, SIZED) for wait in possible_waits(where, node))
            ):
                return WaitInside(where, node)
        level = [
            (inside, node)
            for where, each in level
            if isinstance(each, cst.Call)
            for inside, function in reached(where, each)
            for node in inside.within(function.body, cst.Subscript, cst.Call)
        ]
    return None
