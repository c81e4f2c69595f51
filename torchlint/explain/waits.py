"""What of a line the host waits for, or may wait for, whether or not a rule reports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.semantic.code.off_the_gpu import off_the_gpu
from torchlint.semantic.device.possible_waits import (
    MADE,
    SCALED,
    TO_DEVICE,
    WAITING,
    possible_waits,
)
from torchlint.semantic.module import Module
from torchlint.semantic.uses.network_waits import backward_wait, network_wait
from torchlint.semantic.values.definitions_behind import reached
from torchlint.semantic.values.inferred import inferred, is_model_call
from torchlint.semantic.values.place import on_device

_CONDITIONS = {
    MADE: ", if `{}` is the GPU",
    SCALED: ", if `{}` is switched on",
    TO_DEVICE: ", unless `{}` is there already",
}


def waits_on(module: Module, nodes: Iterable[cst.CSTNode]) -> tuple[str, ...]:
    """Return in words what the host waits for in some nodes, and what it waits for where a tensor
    of which that is not known lies on the device."""
    here = [each for each in nodes if isinstance(each, WAITING)]
    if not here or off_the_gpu(module, here[0]) is not None:
        return ()
    return tuple(dict.fromkeys(words for node in here for words in _words(module, node)))


def _words(module: Module, node: cst.CSTNode) -> Iterator[str]:
    for wait in possible_waits(module, node):
        unless = ""
        if wait.tensor is not None and on_device(module, wait.tensor) is not (
            wait.why != TO_DEVICE
        ):
            condition = _CONDITIONS.get(wait.why, ", if `{}` is on the device")
            unless = condition.format(module.shown(wait.tensor))
        yield f"`{module.shown(wait.node)}`: {wait.why}{unless}"
    if isinstance(node, cst.Call):
        inside, again = network_wait(module, node), backward_wait(module, node)
        if inside is not None:
            yield f"`{module.shown(node)}`: the network waits in {inside.shown_from(module)}"
        elif is_model_call(module, node) and not (
            reached(module, node) or (inferred(module, node.func).name or "").startswith("torch.")
        ):
            yield f"`{module.shown(node)}`: the network may wait, as its code is not in view"
        if again is not None:
            place = again.shown_from(module)
            yield f"`{module.shown(node)}`: for the gradient of {place} it waits again"
