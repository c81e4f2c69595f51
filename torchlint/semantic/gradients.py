"""Who needs gradients, and who cannot have any: differentiating code, frozen networks, proofs that autograd is off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic import torch_api
from torchlint.semantic.names import dotted_text

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

_NEEDS = frozenset(("backward", "retain_grad", "register_hook", "register_backward_hook", "enable_grad"))
_CUTS = frozenset(("detach", "detach_", "data"))
_FREEZING = re.compile(r"freez|frozen|set_requires_grad|no_?grad", re.IGNORECASE)


def differentiates(place: cst.CSTNode, module: Module) -> bool:
    """Say whether code inside `place` asks autograd for something: a backward pass, a gradient, a hook."""
    for node in module.within(place, cst.Attribute, nested=True):
        assert isinstance(node, cst.Attribute)
        attr, above = node.attr.value, module.parent(node)
        if attr in _NEEDS or (attr == "grad" and not isinstance(above, cst.AssignTarget)):
            return True
        if attr == "requires_grad" and isinstance(above, cst.AssignTarget) and not _assigned_false(above, module):
            return True
        if attr == "requires_grad_" and not (isinstance(above, cst.Call) and _is_false(above.args)):
            return True
    return any(module.is_step(c) for c in module.within(place, cst.Call) if isinstance(c, cst.Call))


def frozen(model: cst.CSTNode, module: Module) -> bool:
    """Say whether the file switches off the gradients of a model's parameters, under the name it has at `model`."""
    names = _names(model)
    for node in module.nodes(cst.Call, cst.Assign):
        if isinstance(node, cst.Assign):
            target = node.targets[0].target
            named = isinstance(target, cst.Attribute) and target.attr.value == "requires_grad"
            loop = next((a for a in module.ancestors(node) if isinstance(a, cst.For)), None) if named else None
            if loop is not None and _assigned_false(node.targets[0], module) and names & _words(loop.iter, module):
                return True
        elif isinstance(node, cst.Call):
            callee = dotted_text(node.func) or ""
            off = callee.endswith(".requires_grad_") and _is_false(node.args)
            if (off or _FREEZING.search(callee.rpartition(".")[2])) and names & _words(node, module):
                return True
    return False


def only_detached(call: cst.Call, module: Module) -> bool:
    """Say whether nothing but ``.detach()`` or ``.data`` is asked of a call's result, where it is read at all."""
    found = False
    for use in module.uses(call):
        above = module.parent(use)
        if not isinstance(above, cst.Attribute) or above.value is not use:
            return False
        if above.attr.value in _CUTS:
            found = True
        elif above.attr.value not in torch_api.HOST_ATTRIBUTES:
            return False
    return found


def trained_elsewhere(call: cst.Call, module: Module) -> bool:
    """Say whether another call of the same model, by its name in this file, records a graph that is put to use."""
    name = dotted_text(call.func)
    calls = (other for other in module.nodes(cst.Call) if isinstance(other, cst.Call) and other is not call)
    same = [other for other in calls if name is not None and dotted_text(other.func) == name]
    return any(
        module.no_grad(other) is False and module.uses(other) and not only_detached(other, module) for other in same
    )


def proves_no_grad(function: cst.CSTNode, module: Module) -> bool:
    """Say whether a function would raise if a graph were recorded: ``numpy()`` of a tensor that then requires grad."""
    for call in module.within(function, cst.Call):
        if not isinstance(call, cst.Call):
            continue
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "numpy" and not call.args:
            read: cst.BaseExpression | None = call.func.value
        else:
            array = module.name(call.func) in ("numpy.array", "numpy.asarray") and call.args
            read = call.args[0].value if array else None
        value = module.value(read) if read is not None else None
        if value is not None and value.tensor and value.grad is True:
            return True
    return False


def _names(model: cst.CSTNode) -> set[str]:
    """Return the words by which ``self.net_g.module(x)`` may be frozen elsewhere: net_g."""
    parts = (dotted_text(model) or "").split(".")
    return {p for p in parts if p not in ("self", "cls", "module", "forward", "")}


def _words(node: cst.CSTNode, module: Module) -> set[str]:
    return {n.value for n in module.within(node, cst.Name) if isinstance(n, cst.Name)}


def _assigned_false(target: cst.CSTNode, module: Module) -> bool:
    home = module.small_statement(target)
    return isinstance(home, cst.Assign) and isinstance(home.value, cst.Name) and home.value.value == "False"


def _is_false(args: object) -> bool:
    first = args[0].value if isinstance(args, (list, tuple)) and args else None
    return isinstance(first, cst.Name) and first.value == "False"
