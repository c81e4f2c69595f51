"""Waits for the device in code that a call runs, as far as that is known."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Set

import libcst as cst

from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.tree import (
    method_called,
    root_of,
)
from torchlint.semantic.device.host_reads import host_copy, scalar_reads
from torchlint.semantic.device.possible_waits import (
    ALL_WORK,
    SCALED,
    STOPS,
    WAITING,
    possible_waits,
    scaler_waits,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.step_overhead import backward_reads
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.dominance import (
    is_optional,
)
from torchlint.semantic.uses.iteration_places import (
    starts_work,
)
from torchlint.semantic.values.definitions_behind import reached
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU

_NUMBERS = frozenset(("builtins.float", "builtins.int", "builtins.bool"))
_READS = ops.having("reads") | {"cpu"}
COPIES = _READS - {"item"}
_CALLS = 3
"""Functions in functions that are looked into."""


@question(circular=())
def known_waits(module: Module, iteration: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the expressions in an iteration for which the host waits: copies to the device may
    overlap, and are none."""
    passes = [
        call
        for call in module.within(iteration, cst.Call)
        if method_called(call) == "backward" and backward_reads(module) is not None
    ]
    return passes + [
        wait.node
        for node in module.within(iteration, *WAITING)
        for wait in possible_waits(module, node)
        if (wait.why in (ALL_WORK, SCALED) and wait.tensor is None)
        or (
            wait.why in STOPS
            and wait.tensor is not None
            and (
                on_device(module, wait.tensor) is True
                or (isinstance(node, cst.Call) and host_copy(module, node) is not None)
            )
        )
    ]


@question(
    yes="`{0}` reads what may be on the device",
    no="`{0}` reads nothing of which it is unknown where it is",
)
def may_read(module: Module, call: cst.CSTNode, *, anywhere: bool = False) -> bool:
    """Say whether ``x.item()`` or ``x.cpu()`` reads what may be a tensor of the device, as nothing
    says where it is, or a function that a call runs copies such a one, where it runs a network for
    what it returns. What waits `anywhere` in the step are also steps of gradient scalers that may.
    The part of a batch that nobody moves is on the host."""
    match call:
        case cst.Call(cst.Attribute(read, cst.Name("item")), []):
            value = inferred(module, read)
            known = value.device is not None or value.origin == "batch"
            asked = known or any(scalar_reads(module, call))
            return value.kind in ("?", "tensor") and not asked
        case cst.Call(cst.Attribute(read, cst.Name("cpu")), []):
            return host_copy(module, call) is None and _may_be_on_device(module, read)
        case cst.Call():
            scales = anywhere and _may_scale(module, call)
            return scales or bool(_copies_inside(module, call, anywhere))
    return False


def _may_scale(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a step of a gradient scaler that is made elsewhere: few are made to do
    nothing."""
    match call.func:
        case cst.Attribute(scaler) if scaler_waits(module, call) is None:
            return not isinstance(inferred(module, scaler).node, cst.Call)
    return False


@question(circular=())
def _copies_inside(
    module: Module, call: cst.Call, anywhere: bool, calls: int = _CALLS
) -> list[cst.Call]:
    """Return what copies a value of which nobody says that it lies on the host there in the only
    function that a call may reach, or in one that it calls: who writes ``.cpu()`` expects it on the
    device. `anywhere` adds the steps of gradient scalers that may wait."""
    reached = _function_reached(module, call)
    if reached is None:
        return []
    where, function = reached
    bound = where.bind(function, call)
    works = not anywhere and starts_work(module, call)
    found: list[cst.Call] = []
    for each in where.within(function.body, cst.Call):
        match each:
            case cst.Call(cst.Attribute(tensor, cst.Name("cpu")), []):
                name = name_behind(tensor)
                given = bound.get(name.value) if name is not None else None
                places = [(where, tensor), *([(module, given)] if given is not None else [])]
                copies = all(_may_be_on_device(home, value) for home, value in places)
            case _:
                copies = (anywhere and _may_scale(where, each)) or (
                    calls > 1 and bool(_copies_inside(where, each, anywhere, calls - 1))
                )
        returned = isinstance(where.small_statement(each), cst.Return)
        if copies and not is_optional(where, each, function) and (returned or not works):
            found.append(each)
    return found


def _may_be_on_device(module: Module, tensor: cst.BaseExpression) -> bool:
    value = inferred(module, tensor)
    return value.kind in ("?", "tensor") and value.device != CPU and value.origin != "batch"


def stays_inside(
    module: Module,
    call: cst.Call,
    left: Collection[cst.CSTNode] | None,
    anywhere: bool = False,
) -> bool:
    """Say whether the only function that a call may reach waits: at one of the places `left`, or as
    `_reads_inside` says. One that runs a network waits behind it only where it returns what it
    reads, which does not matter to what waits `anywhere` in the step."""
    reached = _function_reached(module, call)
    if reached is None:
        return False
    where, function = reached
    places: Iterable[cst.CSTNode] = _reads_inside(module, call, frozenset(), left is None)
    if where is module and left:
        places = itertools.chain(places, _leading_to(module, function, left))
    works = not anywhere and starts_work(module, call)
    return any(not works or isinstance(where.small_statement(e), cst.Return) for e in places)


def _leading_to(
    module: Module, function: cst.FunctionDef, left: Collection[cst.CSTNode]
) -> Iterator[cst.CSTNode]:
    """Yield those of some places that each run of a function comes to, and its calls of functions
    of the file that come to one."""
    certain = [each for each in left if not is_optional(module, each, module.function(each))]
    homes = {module.function(each) for each in certain}
    yield from (each for each in certain if module.function(each) is function)
    for call in module.within(function.body, cst.Call) if homes else ():
        if not is_optional(module, call, function) and not homes.isdisjoint(
            _functions_run(module, call)
        ):
            yield call


@question(circular=frozenset())
def _functions_run(module: Module, call: cst.Call) -> frozenset[cst.CSTNode]:
    """Return the functions of the file that a call comes to whatever is asked on the way."""
    callees = callees_of(module, call)
    if len(callees) != 1 or not isinstance(callees[0], cst.FunctionDef):
        return frozenset()
    calls = module.within(callees[0].body, cst.Call)
    inner = (_functions_run(module, e) for e in calls if not is_optional(module, e, callees[0]))
    return frozenset(callees).union(*inner)


@question(circular=())
def _reads_inside(
    module: Module, call: cst.Call, given: frozenset[str], own: bool, calls: int = _CALLS
) -> list[cst.Call]:
    """Return what waits in the only function that a call may reach: the steps of a gradient scaler,
    in another file, or with `own` in this one, what brings something of the device to the host that
    it is given, and calls of functions that wait so themselves. `given` are the parameters of the
    function around the call that are known to be on the device."""
    reached = _function_reached(module, call)
    if reached is None:
        return []
    where, function = reached
    bound = where.bind(function, call)
    there = frozenset(name for name, value in bound.items() if _is_there(module, value, given))
    asked = {} if function.name.value == "forward" else bound
    own = own or where is not module
    return [
        each
        for each in where.within(function.body, cst.Call)
        if not is_optional(where, each, function)
        and (
            scaler_waits(where, each)
            or (
                own
                and there
                and (read := _read_by(where, each)) is not None
                and _may_be_there(where, read, asked, there)
            )
            or (calls > 1 and _reads_inside(where, each, there, own, calls - 1))
        )
    ]


@question()
def _function_reached(module: Module, call: cst.Call) -> tuple[Module, cst.FunctionDef] | None:
    """Return the only function of the project that a call may reach."""
    match reached(module, call):
        case [(where, cst.FunctionDef() as function)]:
            return where, function
    return None


def _is_there(module: Module, value: cst.BaseExpression, given: Set[str]) -> bool:
    """Say whether an argument is known to be on the device, by itself or as a parameter is."""
    name = name_behind(value)
    return (name is not None and name.value in given) or on_device(module, value) is True


def _read_by(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """Return the tensor, if it is one, that a call reads on the host: ``x.item()``,
    ``float(x)``."""
    match call:
        case cst.Call(cst.Attribute(read, cst.Name(name))) if name in _READS:
            return read
        case cst.Call(func, [cst.Arg(read)]) if module.name(func) in _NUMBERS:
            return read
    return None


def _may_be_there(
    where: Module, read: cst.BaseExpression, bound: Collection[str], there: Set[str]
) -> bool:
    """Say whether something may be a tensor on the device: of what a function of another file is
    given it is only what is known to be `there`."""
    root = root_of(read)
    if isinstance(root, cst.Name) and root.value in bound:
        return root.value in there
    value = inferred(where, read)
    return value.kind in ("?", "tensor", "batch") and value.device != CPU


def scales(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a step of a GradScaler that may wait."""
    return method_called(call) == "step" and scaler_waits(module, call) is not False


def name_behind(tensor: cst.BaseExpression) -> cst.Name | None:
    """Return the name of which a tensor is the value itself: ``loss``, ``loss.detach()``."""
    while True:
        match tensor:
            case cst.Name():
                return tensor
            case cst.Call(cst.Attribute(inner, cst.Name(method)), []) if method in ops.SAME_VALUES:
                tensor = inner
            case cst.Attribute(inner, cst.Name("data")):
                tensor = inner
            case _:
                return None
