"""Tensors that a step makes of data of Python or NumPy, and copies to the device."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Grade, Module, Transfer, heat_of, inferred
from torchlint.rules.transfer._blocking_batch_copy.batches import older_than_loops
from torchlint.semantic.code.reaching import assigned_values, assignments_of, definitions_of
from torchlint.semantic.code.tree import is_name, method_called
from torchlint.semantic.device.host_reads import host_copy, scalar_reads
from torchlint.semantic.device.uploads import host_data, tensor_data, upload_of
from torchlint.semantic.question import question
from torchlint.semantic.time.loops import has_model_call
from torchlint.semantic.torch import ops
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.value import CPU

_NAMES = 3
"""Names of names that are looked behind."""
_FEW_NUMBERS = 3
"""So many numbers in a loss are sizes or bounds, and no data."""


@question(remember=False)
def made_in_step(module: Module, node: cst.Call, transfer: Transfer | None) -> bool:
    """Say whether what a call copies to the device is made in this step of data of the host."""
    upload = upload_of(module, node)
    if not _in_training(module, node) and (
        upload is None
        or heat_of(module, node).grade is not Grade.FORWARD
        or not _listed_here(module, upload.data)
    ):
        return False
    if upload is not None:
        new = heat_of(module, upload.node).step and not older_than_loops(module, upload.data)
        known = host_data(module, upload.data) is not None
        return new and _of_host(module, upload.data) and not known
    return transfer is not None and (
        _by_helper(module, transfer.source) or _computed(module, transfer.source)
    )


def _in_training(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a place runs in each training step, makes a batch, or is a part of a loss: a pass
    of a network gets what its callers have, and may have nothing to overlap with."""
    heat = heat_of(module, node)
    function = heat.why[-1].node if heat.why else None
    return heat.train or (
        isinstance(function, cst.FunctionDef)
        and (function.name.value == "__next__" or "loss" in function.name.value.lower())
    )


def _listed_here(module: Module, data: cst.BaseExpression) -> bool:
    """Say whether data are a list that the function makes itself, element by element."""
    made = assigned_values(module, data)
    return bool(made) and all(isinstance(each, (cst.List, cst.ListComp)) for each in made)


def _computed(module: Module, source: cst.BaseExpression, depth: int = _NAMES) -> bool:
    """Say whether a tensor of the host is computed in this step of data of Python or NumPy:
    ``one_hot(torch.tensor(labels)).float()``."""
    if inferred(module, source).device != CPU or not heat_of(module, source).step:
        return False
    for call in module.within(source, cst.Call):
        if module.name(call.func) in ops.DATA_FACTORIES and call.args:
            data = call.args[0].value
            return (
                host_data(module, data) is None
                and _of_host(module, data)
                and not older_than_loops(module, data)
            )
    made = assignments_of(module, source) if depth else []
    return bool(made) and all(
        isinstance(each.targets[0].target, cst.Name) and _computed(module, each.value, depth - 1)
        for each in made
    )


def _by_helper(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether a function of the project makes a tensor of data of Python or NumPy in each call,
    and is known to return nothing else."""
    if not isinstance(source, cst.Call) or inferred(module, source).device != CPU:
        return False
    helpers = definitions_behind.functions(module, source)
    return bool(helpers) and all(
        isinstance(helper, cst.FunctionDef)
        and not helper.decorators
        and bool(values := definitions_behind.returned(where, helper))
        and all(
            (data := tensor_data(where, value)) is not None and _of_host(where, data)
            for value in values
        )
        for where, helper in helpers
    )


def _of_host(module: Module, data: cst.BaseExpression) -> bool:
    """Say whether data are Python's or NumPy's own, of which nothing was read from the device in
    the same function: then they make a round trip, for which the read waits."""
    value = inferred(module, data)
    tensors = value.tensor or (value.item is not None and value.item.tensor)
    if tensors or value.kind in ("number", "shape") or _was_on_device(module, data):
        return False
    if isinstance(data, cst.Name) and _is_filled_here(module, data):
        return False
    # A few numbers in a pass are as many as their sizes; an empty list is no copy.
    few = 0 if heat_of(module, data).train else _FEW_NUMBERS
    return not isinstance(data, cst.List) or len(data.elements) > few


def _is_filled_here(module: Module, data: cst.Name) -> bool:
    """Say whether a loop that runs a network appends to a list, as to the rewards of an episode:
    nobody has them before."""
    return any(
        method_called(call) == "append"
        and is_name(call.func.value, data.value)
        and any(has_model_call(module, loop) for loop in module.loops(call))
        for call in module.within(module.scope(data), cst.Call)
        if isinstance(call.func, cst.Attribute)
    )


def _was_on_device(module: Module, data: cst.BaseExpression) -> bool:
    """Say whether data have been read from the device in the same function."""
    names = [name for name in module.within(data, cst.Name) if name.value != "self"]
    made = [each for name in names for each in definitions_of(module, name)]
    places = [data, *(each for each in made if isinstance(each, (cst.Assign, cst.AugAssign)))]
    return any(
        host_copy(module, call) is not None or scalar_reads(module, call)
        for place in places
        for call in module.within(place, cst.Call)
    )
