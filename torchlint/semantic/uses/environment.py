"""What crosses to an environment, a simulator outside of torch: an action has to be a number or an
array there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.spelling import ACTS, OPTIMIZER, SCALER, called
from torchlint.semantic.values.inferred import inferred

_PARTS = (cst.Attribute, cst.Call, cst.Subscript, cst.Arg, cst.Tuple, cst.List, cst.Element)
_NAMES = 2
"""Further names that an action may be given before it is taken."""
_NO_WORLDS = ("optimizer", "scaler", "module", "tensor")


@question(
    yes="`{0}` is an action for an environment, which is no code of torch",
    no="`{0}` goes to no environment",
)
def for_environment(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a value goes to an environment: as an argument of ``env.step()``, or as the
    result of a function that chooses an action."""
    return _reaches_environment(module, node, _NAMES)


def _reaches_environment(module: Module, node: cst.CSTNode, names: int) -> bool:
    """Follow a value through `names` further names: ``clipped = np.clip(action, low, high)``."""
    function = module.function(node)
    for use in _uses(module, node):
        for above in (use, *module.ancestors(use)):
            if isinstance(above, cst.Call) and _steps(module, above):
                return True
            if isinstance(above, cst.Return):
                return function is not None and called(function.name.value, ACTS)
            if isinstance(above, cst.Assign) and not module.is_within(node, above):
                if names and _reaches_environment(module, above.value, names - 1):
                    return True
                break
            if above is not use and not isinstance(above, _PARTS):
                break
    return False


def _uses(module: Module, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield an expression, and the reads of the name that it is bound to."""
    yield node
    statement = module.small_statement(node)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return
    target = statement.targets[0].target
    if isinstance(target, cst.Name):
        scope = module.function(node) or module.root
        for read in reads_of(module, scope, target.value):
            if module.is_within(read, statement):
                continue
            yield read


def _steps(module: Module, call: cst.Call) -> bool:
    """Say whether a call is one step of an environment, not of an optimizer or a scheduler."""
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name(value="step")) if call.args:
            name = (dotted_text(receiver) or "").rpartition(".")[2]
            torchs = called(name, OPTIMIZER) or called(name, SCALER) or "sched" in name.lower()
            return not torchs and inferred(module, receiver).kind not in _NO_WORLDS
    return False
