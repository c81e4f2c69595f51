"""Whether what has ``.item()`` has the other methods of a tensor too.

What a program chooses by its configuration, ``criterion = get_metric(config)``, may give a NumPy
scalar, which has ``.item()`` and no ``.detach()``. `inferred` takes its name for what it most
likely is, which is right for a finding: the read waits if it is a tensor. A fix that calls other
methods needs to know.
"""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.inferred import inferred

_OWN = ops.TENSOR_ONLY_METHODS
_PASSING = ops.REDUCTIONS | ops.having("method", "pointwise") | ops.SAME_VALUES | ops.having("move")
"""What arrays have as well, so that it is all the same what they are called on."""


@question(
    yes="`{0}` is a tensor: by what made it, or by what is done with it",
    no="`{0}` may be a NumPy scalar: what gives it is chosen elsewhere",
)
def detachable(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a thing that has ``.item()`` is no NumPy scalar, which has no ``.detach()``: no
    callable gives it of which the program shows neither what it is nor that its results are
    back-propagated."""
    return not _doubtful(module, node)


@question()
def _doubtful(module: Module, node: cst.CSTNode) -> bool:
    match node:
        case cst.Name():
            return not _used_as_tensor(module, node) and any(
                _doubtful_binding(module, each, node.value) for each in definitions_of(module, node)
            )
        case cst.Call():
            return _doubtful_call(module, node)
        case cst.Subscript(inner) | cst.UnaryOperation(expression=inner):
            return _doubtful(module, inner)
        case cst.Attribute(inner, cst.Name("data")):
            return _doubtful(module, inner)
        case cst.IfExp(body=body, orelse=other):
            return any(_doubtful(module, each) for each in (body, other))
        case cst.BinaryOperation(left, right=right):
            sides = [left, right]
            doubtful = [_doubtful(module, each) for each in sides]
            sure = (
                inferred(module, each).kind in ("tensor", "batch") and not doubt
                for each, doubt in zip(sides, doubtful, strict=True)
            )
            return any(doubtful) and not any(sure)
    return False


def _doubtful_binding(module: Module, definition: cst.CSTNode, name: str) -> bool:
    """Say whether what binds a name is doubtful; what a loop or a parameter binds is not."""
    match definition:
        case cst.Assign([cst.AssignTarget(cst.Tuple(parts))], cst.Call() as call):
            place = next((i for i, part in enumerate(parts) if is_name(part.value, name)), None)
            return _doubtful_call(module, call, place)
        case cst.Assign(value=value) | cst.AnnAssign(value=cst.BaseExpression() as value):
            return _doubtful(module, value)
    return False


def _used_as_tensor(module: Module, name: cst.Name) -> bool:
    """Say whether the function around a name back-propagates what it holds, or calls on it what
    tensors alone have; ``.item()`` and a name prove nothing."""
    use = values(module).uses(module.tree.owners[name]).get(name.value)
    return use is not None and (use.grad is True or use.origin != "loss")


def _doubtful_call(module: Module, call: cst.Call, place: int | None = None) -> bool:
    """Say whether what a call gives is doubtful, or of a tuple what it has at a place."""
    func, name = call.func, module.name(call.func)
    if name is not None and name.startswith("torch."):
        return False
    callees = [each for each in callees_of(module, call) if isinstance(each, cst.FunctionDef)]
    if callees:
        given = [one for each in callees for one in module.within(each.body, cst.Return)]
        return any(_doubtful_return(module, each.value, place) for each in given)
    what = inferred(module, func)
    if what.kind == "module":
        # Of a network, the name is enough: it gives no number.
        return what.origin == "name" and what.name == "loss" and not _is_trained(module, func)
    if isinstance(func, cst.Attribute) and func.attr.value in _OWN:
        return False
    if isinstance(func, cst.Attribute) and func.attr.value in _PASSING and name is None:
        return _doubtful(module, func.value)
    if inferred(module, call).kind == "?":
        return not _is_trained(module, func)
    return isinstance(func, cst.Attribute) and _doubtful(module, func.value)


def _doubtful_return(module: Module, value: cst.BaseExpression | None, place: int | None) -> bool:
    parts = [each.value for each in value.elements] if isinstance(value, cst.Tuple) else [value]
    if place is not None and place < len(parts):
        parts = [parts[place]]
    return any(each is not None and _doubtful(module, each) for each in parts)


@question(
    yes="what `{0}` gives is back-propagated",
    no="nothing that `{0}` gives is known to be back-propagated",
)
def _is_trained(module: Module, func: cst.BaseExpression) -> bool:
    """Say whether the file back-propagates what a callable of this name gives, in any function."""
    text = dotted_text(func)
    return text is not None and text in _trainers(module)


@question(ground=True)
def _trainers(module: Module) -> frozenset[str]:
    """Return the names of the callables whose results a function of the file back-propagates."""
    out: set[str] = set()
    for call in module.nodes(cst.Call):
        text = dotted_text(call.func)
        binding = module.small_statement(call) if text is not None else None
        if text is None or not isinstance(binding, cst.Assign):
            continue
        target = binding.targets[0].target
        if isinstance(target, cst.Name):
            use = values(module).uses(module.tree.owners[binding]).get(target.value)
            if use is not None and (use.grad is True or use.origin == "model"):
                out.add(text)
    return frozenset(out)
