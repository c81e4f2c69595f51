"""Where a value lives: on the accelerator, on the host, or not known."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.reaching import assigned_value
from torchlint.semantic.code.tree import root_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.host_proofs import proven_on_host
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import ACCEL, CUDA, OF_NETWORKS, Value


@question(
    yes="`{0}` is a tensor on the accelerator",
    no="`{0}` is not known to be a tensor on the accelerator",
)
def on_device(module: Module, node: cst.CSTNode) -> bool | None:
    """Say whether an expression is a tensor on the accelerator; None where unknown."""
    found = lives(module, inferred(module, node))
    return False if found and proven_on_host(module, node) else found


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
    found = values(module).run(_owner(module, node), 3).device_of(inferred(module, node))
    return None if found == ACCEL and of_host_argument(module, node, far=False) else found


@question(
    yes="a call passes `{0}` from the host", no="no call is known to pass `{0}` from the host"
)
def given_from_host(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is made of a parameter for which one of the calls passes a tensor
    that is on the host."""
    return any(each.tensor and each.host for each in _passed(module, node, far=True))


def _passed(module: Module, node: cst.BaseExpression, *, far: bool) -> Iterator[Value]:
    """Yield what calls pass as the parameter that an expression is made of."""
    root = root_of(node)
    function = module.function(node)
    if function is None or not isinstance(root, cst.Name):
        return
    if not writes_of(module, function.body, root.value):
        yield from values(module).given(function, root.value, far=far)


@question(
    yes="`{0}` is the device of what calls pass from the host",
    no="`{0}` is not known to be the device of something on the host",
)
def of_host_argument(module: Module, node: cst.CSTNode, *, far: bool = True) -> bool:
    """Say whether an expression is the device of a parameter for which calls pass tensors that are
    on the host, and none is known to pass one that is on the accelerator.

    Where `far`, the calls of other files are asked as well; each of these has to be analysed.
    """
    if isinstance(node, cst.Name):
        node = assigned_value(module, node) or node
    match node:
        case cst.Attribute(cst.Name() as argument, cst.Name("device")):
            on_host = False
            for each in _passed(module, argument, far=far):
                if each.device in (ACCEL, CUDA):
                    return False
                on_host = on_host or (each.tensor and each.host)
            return on_host
    return False


def lives(module: Module, value: Value) -> bool | None:
    """Say whether a value is a tensor on the accelerator; None where unknown."""
    if value.host or not on_accelerator(module):
        return False
    if not value.tensor:
        return None
    if value.device in (CUDA, ACCEL):
        return True
    return True if value.device is None and value.origin in OF_NETWORKS else None


def _owner(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    owner: cst.CSTNode = module.tree.owners.get(node, module.root)
    while isinstance(owner, cst.Lambda):
        owner = module.tree.owners[owner]
    return owner
