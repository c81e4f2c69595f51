"""Waits that each batch of an evaluation has, or each step, whatever becomes of its other reads:
the host works on a copy, or shows a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.data.per_step_use import (
    Sink,
    logged_in,
    logging_call,
    redraws_bar,
    shown_tensors,
)
from torchlint.semantic.device.host_reads import host_copy, scalar_reads
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.loops import has_model_call
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.dominance import runs_whenever
from torchlint.semantic.uses.host_needs import needed_at_once, needed_by
from torchlint.semantic.uses.iteration_places import iteration_places, nearest
from torchlint.semantic.uses.lasting_waits import wait_that_stays
from torchlint.semantic.uses.network_waits import network_wait
from torchlint.semantic.uses.unavoidable_syncs import (
    goes_on_elsewhere,
    stays_beside,
    waited_before,
    waits_besides,
)
from torchlint.semantic.uses.waits_inside import scales
from torchlint.semantic.values.inferred import is_model_call

_EMPTIES = ops.dotted("empties")
_COLLECTS = frozenset("add append appendleft extend insert put setdefault update".split())
_ARRAYS = ops.having("reduce") | ops.having("join") | {"append", "array", "asarray"}
"""Functions of NumPy that torch has as well: they leave a number, or join what is collected."""


@question(
    yes="the host works on `{answer}` in each batch of the evaluation",
    no="the host is not known to work on a copy in each batch of an evaluation",
)
def worked_on_in_batch(module: Module, node: cst.CSTNode) -> cst.Call | None:
    """Return the copy on which other code than torch's works in each batch of the evaluation that
    `node` belongs to: the device is idle when the next batch is copied."""
    return next(_worked_on(module, node), None)


@question(
    yes="the host works on `{answer}` right beside it, in each batch of the evaluation",
    no="the host is not known to work on a copy right beside it, in each batch of an evaluation",
)
def worked_on_beside(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return such a copy with no run of a model between it and `node`: then `node` alone waits for
    nothing."""
    return nearest(module, node, _worked_on(module, node))


@question(
    yes="each iteration of the loop shows `{answer}` right beside it",
    no="nothing is known to be shown right beside it in each iteration of the loop",
)
def shown_beside(
    module: Module, node: cst.CSTNode, *, training: bool = False
) -> cst.BaseExpression | None:
    """Return what each batch of an evaluation reads of the device to print or log, other than on a
    progress bar, with no run of a model between it and `node`; with `training` also what each
    training step does, anywhere."""
    grade = heat_of(module, node).grade
    if grade is Grade.EVAL:
        return nearest(
            module, node, (e for e in iteration_places(module, node) if _shown(module, e))
        )
    if not training or grade is not Grade.TRAIN:
        return None
    return nearest(module, node, (e for e in iteration_places(module, node) if _logs(module, e)))


@question(
    yes="each iteration ends in a wait for the device, `{answer}`",
    no="no iteration is known to end in a wait for the device",
)
def ends_in_wait(
    module: Module, node: cst.CSTNode, *, put_off: bool = False
) -> cst.BaseExpression | None:
    """Return what the host waits for in each step, or batch, that `node` belongs to, with no run of
    a model and no backward pass between it and the next one: the device is idle then, and does
    nothing with which a copy could overlap. These are a step of a GradScaler, a copy that the host
    needs at once, and where nothing is trained also what is printed and what other code than
    torch's takes; with `put_off` whatever the step is known to wait for, and a
    network that waits in each run."""
    iteration = module.loop(node) or module.function(node)
    if iteration is None:
        return None
    trains = heat_of(module, node).train
    calls = [*module.within(iteration, cst.Call)]
    last = next((call for call in reversed(calls) if _runs_network(module, call)), None)
    waits: Iterable[cst.BaseExpression] = (
        waits_besides(module, node, None)
        if put_off
        else (e for e in calls if _stays(module, e, trains) and runs_whenever(module, e, node))
    )
    return next(
        (
            wait
            for wait in waits
            if last is None
            or module.before(last, wait)
            or module.is_within(last, wait)
            or (isinstance(wait, cst.Call) and network_wait(module, wait) is not None)
        ),
        None,
    )


def _runs_network(module: Module, call: cst.Call) -> bool:
    """Say whether a call runs a model or a backward pass, itself or in a function of the file."""
    return (
        method_called(call) == "backward"
        or is_model_call(module, call)
        or any(has_model_call(module, each) for each in callees_of(module, call))
    )


def _stays(module: Module, call: cst.Call, trains: bool) -> bool:
    copies = host_copy(module, call) is not None
    if scales(module, call) or (copies and needed_at_once(module, call)):
        return True
    return not trains and (_shown(module, call) or (copies and _taken_by_host(module, call)))


@question(
    yes="`{answer}` waits for the device all the same",
    no="nothing is known to wait for the device all the same",
)
def waits_anyway(
    module: Module, node: cst.CSTNode, tensor: cst.BaseExpression, *, logs: bool = False
) -> cst.CSTNode | None:
    """Return what makes the host wait in the same iteration whatever becomes of one read of a
    tensor: a wait just before, a read that the host needs right beside it, what is printed or
    logged beside it where `node` does not log itself, memory that is given back right beside it,
    or, where nothing is trained, another wait of the same function."""
    trains = heat_of(module, node).grade not in (Grade.EVAL, Grade.FORWARD)
    return (
        waited_before(module, tensor)
        or stays_beside(module, node)
        or shown_beside(module, node, training=not logs)
        or _gives_back_beside(module, node)
        or (None if trains else wait_that_stays(module, node))
    )


def _gives_back_beside(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the call that empties the allocator's cache in each iteration, with no run of a model
    between it and `node`: blocks are freed when the device is done."""
    calls = (each for each in iteration_places(module, node) if module.called(each) in _EMPTIES)
    return nearest(module, node, calls)


def _worked_on(module: Module, node: cst.CSTNode) -> Iterator[cst.Call]:
    if heat_of(module, node).grade is not Grade.EVAL:
        return
    for place in iteration_places(module, node):
        if (
            isinstance(place, cst.Call)
            and host_copy(module, place) is not None
            and (needed_at_once(module, place) or _taken_by_host(module, place))
        ):
            yield place


def _taken_by_host(module: Module, copy: cst.Call) -> bool:
    """Say whether code that is not torch's takes an array in its iteration, and does not only
    collect, join or count it: that could be done on the device, or after the loop."""
    return goes_on_elsewhere(module, copy) and any(
        True for _ in needed_by(module, copy, _uses_array, calls=0)
    )


def _uses_array(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    if not isinstance(place, cst.Call) or not isinstance(part, cst.Arg):
        return False
    package, _, last = module.called(place).rpartition(".")
    if isinstance(place.func, cst.Attribute):
        last = place.func.attr.value
    package = package.partition(".")[0]
    joins = package == "numpy" and last in _ARRAYS
    return package not in ("builtins", "torch") and last not in _COLLECTS and not joins


def _shown(module: Module, place: cst.BaseExpression) -> bool:
    sinks = (
        logged_in(module, place) if scalar_reads(module, place) else [*_logging_sink(module, place)]
    )
    return any(
        sink.kind in ("show", "take") and not redraws_bar(module, sink.call) for sink in sinks
    )


def _logs(module: Module, place: cst.BaseExpression) -> bool:
    """Say whether a call reads the device for a log that it is part of, or for its own."""
    sinks = logged_in(module, place) if scalar_reads(module, place) else ()
    within = any(
        sink.kind in ("show", "take") and module.is_within(place, sink.call) for sink in sinks
    )
    return within or any(True for _ in _logging_sink(module, place))


def _logging_sink(module: Module, place: cst.BaseExpression) -> Iterator[Sink]:
    """Yield what a call is as one that logs, where it makes numbers of tensors that it is given."""
    sink = logging_call(module, place) if isinstance(place, cst.Call) else None
    if sink is not None and sink.kind == "show" and any(True for _ in shown_tensors(module, sink)):
        yield sink
