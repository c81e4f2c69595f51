"""Waits for the device that stay whatever becomes of others: for a number of elements that only the
device knows, and for what only the host has."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.device.uploads import host_data, upload_of
from torchlint.semantic.device.value_sized import gathers, scatters
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.uses.dominance import (
    is_optional,
    runs_as_often,
    runs_whenever,
)
from torchlint.semantic.uses.iteration_places import (
    nearest,
)
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import CPU, OF_NETWORKS


@question(
    yes="`{answer}` waits for the device as well, whatever becomes of this",
    no="nothing else in the function is known to wait for the device whatever becomes of this",
)
def wait_that_stays(
    module: Module, node: cst.CSTNode, *, beside: bool = False
) -> cst.CSTNode | None:
    """Return another place of the same function that waits for the device at least as often, as
    only values there say how many elements it takes, or as it copies what only the host has:
    itself, or in a function of the file that it calls. To mend `node` alone then does not let the
    host run ahead. With `beside` it is one of the former, with no run of a model, backward pass or
    step between the two."""
    places = _as_often_as(module, node, beside=beside)
    if beside:
        return nearest(module, node, places, module.loop(node) or module.function(node))
    return next(places, None)


@question(
    yes="the statement beside it copies what only the host has, `{answer}`, and waits as well",
    no="no statement beside it is known to copy to the device what only the host has",
)
def copied_up_beside(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the copy to the device of what only the host has in the statement before that of
    `node`, or behind it: the host waits there for all work that is queued."""
    line = module.statement(node)
    home = module.parent(line)
    lines = home.body if isinstance(home, cst.IndentedBlock) else ()
    at = next((i for i, each in enumerate(lines) if each is line), 0)
    return next(
        (
            call
            for beside in lines[max(at - 1, 0) : at + 2]
            if beside is not line
            for call in module.within(beside, cst.Call)
            if copies_up(module, call) and not is_optional(module, call, home)
        ),
        None,
    )


@question(
    yes="`{0}` copies to the device what only the host has, and waits for it",
    no="`{0}` is not known to copy to the device what only the host has",
)
def copies_up(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a call copies lists or arrays of the host to the device, which are no constants
    and could not be made there; the host waits until all work before is done."""
    if not isinstance(node, cst.Call) or keyword_argument(module, node, "non_blocking") is not None:
        return False
    upload = upload_of(module, node)
    return upload is not None and host_data(module, upload.data) is None


@question(
    yes="the same iteration has just copied `{answer}` to the device, and waited for that",
    no="nothing is known to be copied to the device just before it",
)
def waits_to_copy_up(module: Module, node: cst.CSTNode) -> cst.Call | None:
    """Return the copy of a tensor of the host to the device, which waits for all work that is
    queued, in the same iteration before `node`, with no run of a model, backward pass or step
    between the two: a small copy behind it waits for nothing more. The copy of a batch need not
    wait, and what a factory makes need not be copied: neither is one."""
    iteration = module.loop(node)
    if iteration is None:
        return None
    copies = (
        call
        for call in module.within(iteration, cst.Call)
        if module.before(call, node)
        and (transfer := transfer_of(module, call)) is not None
        and "non_blocking" not in transfer.given
        and _comes_from_host(module, transfer.source)
        and runs_whenever(module, call, node)
    )
    return nearest(module, node, copies, iteration)


def _comes_from_host(module: Module, tensor: cst.BaseExpression) -> bool:
    value = inferred(module, tensor)
    own = value.kind in ("?", "tensor") and value.origin not in {*OF_NETWORKS, "batch", "factory"}
    return own and value.device in (None, CPU)


def _stays_put(module: Module, other: cst.BaseExpression, *, beside: bool) -> bool:
    """Say whether a place waits because only values on the device say how many elements it takes,
    or, unless `beside`, as it copies what only the host has."""
    return (
        gathers(module, other)
        or (isinstance(other, cst.Subscript) and scatters(module, other))
        or (not beside and (copies_up(module, other) or _waits_inside(module, other)))
    )


@question(circular=())
def _staying(module: Module, function: cst.FunctionDef, beside: bool) -> list[cst.BaseExpression]:
    """Return the places of a function that wait whatever becomes of others, see `_stays_put`."""
    places: Iterator[cst.BaseExpression] = module.within(function.body, cst.Subscript, cst.Call)
    return [place for place in places if _stays_put(module, place, beside=beside)]


def _as_often_as(
    module: Module, node: cst.CSTNode, *, beside: bool
) -> Iterator[cst.BaseExpression]:
    """Yield the places of the same function that wait whatever becomes of others and run at least
    as often as `node`: outside of its statement, but for ``x[mask] if mask.any() else x``, and the
    calls that give its operands."""
    function, above = module.function(node), module.parent(node)
    chooses = isinstance(above, cst.IfExp) and above.test is node
    own = node if chooses else module.small_statement(node)
    if function is None:
        return
    for other in _staying(module, function, beside):
        apart = own is None or not module.is_within(other, own)
        if (
            (apart or (module.is_within(other, node) and _waits_inside(module, other)))
            and not module.is_within(node, other)
            and runs_as_often(module, other, node, function)
        ):
            yield other


@question(
    yes="a function of the file that `{0}` calls waits for the device whatever becomes of this",
    no="`{0}` calls no function of the file that is known to wait for the device",
)
def _waits_inside(module: Module, node: cst.CSTNode) -> bool:
    callees = callees_of(module, node) if isinstance(node, cst.Call) else ()
    return len(callees) == 1 and any(
        gathers(module, each) or copies_up(module, each)
        for each in module.within(callees[0].body, cst.Subscript, cst.Call)
        if not is_optional(module, each, callees[0])
    )
