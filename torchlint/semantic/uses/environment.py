"""What crosses to an environment, a simulator outside of torch: an action has to be a number or an
array there."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.spelling import ACTS, OPTIMIZER, SCALER, called
from torchlint.semantic.uses.destinations import destinations
from torchlint.semantic.values.inferred import inferred

_NO_WORLDS = ("optimizer", "scaler", "module", "tensor")


@question(
    yes="`{0}` is an action for an environment, which is no code of torch",
    no="`{0}` goes to no environment",
)
def for_environment(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a value goes to an environment: as an argument of ``env.step()``, or as the
    result of a function that chooses an action."""
    function = module.function(node)
    chooses = function is not None and called(function.name.value, ACTS)
    return any(
        chooses if isinstance(place, cst.Return) else _steps(module, place)
        for place in destinations(module, node)
        if isinstance(place, (cst.Call, cst.Return))
    )


def _steps(module: Module, call: cst.Call) -> bool:
    """Say whether a call is one step of an environment, not of an optimizer or a scheduler."""
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name(value="step")) if call.args:
            name = (dotted_text(receiver) or "").rpartition(".")[2]
            torchs = called(name, OPTIMIZER) or called(name, SCALER) or "sched" in name.lower()
            return not torchs and inferred(module, receiver).kind not in _NO_WORLDS
    return False
