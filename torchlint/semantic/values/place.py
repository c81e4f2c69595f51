"""Where a value lives: on the accelerator, on the host, or not known."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import ACCEL, CUDA, Value

_ORIGIN_ON_DEVICE = ("model", "loss", "forward")


@question(
    yes="`{0}` is a tensor on the accelerator",
    no="`{0}` is not known to be a tensor on the accelerator",
)
def on_device(module: Module, node: cst.CSTNode) -> bool | None:
    """Say whether an expression is a tensor on the accelerator; None where unknown."""
    return lives(module, inferred(module, node))


@question()
def perhaps_on_device(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an expression is a tensor on the accelerator on one of its paths alone: ``flag
    and x.all()``."""
    value = inferred(module, node)
    return value.kind == "accumulated" and lives(module, value.but(kind="tensor")) is True


@question(yes="`{0}` names the device {answer}", no="`{0}` does not name a device")
def named_device(module: Module, node: cst.CSTNode | None) -> str | None:
    """Return the device an expression names: `CUDA`, `ACCEL` (the program's own), `CPU`, `META`, or
    None."""
    if node is None:
        return None
    return values(module).run(_owner(module, node), 3).device_of(inferred(module, node))


def lives(module: Module, value: Value) -> bool | None:
    """Say whether a value is a tensor on the accelerator; None where unknown."""
    if value.host or not on_accelerator(module):
        return False
    if not value.tensor:
        return None
    if value.device in (CUDA, ACCEL):
        return True
    return True if value.device is None and value.origin in _ORIGIN_ON_DEVICE else None


def _owner(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    owner: cst.CSTNode = module.tree.owners.get(node, module.root)
    while isinstance(owner, cst.Lambda):
        owner = module.tree.owners[owner]
    return owner
