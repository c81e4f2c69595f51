"""Tensors that certainly have no graph: computed with autograd off, in the same function."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import names as torch_names
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.observers import says
from torchlint.semantic.values.inferred import inferred

_ON = frozenset(("enable_grad", "set_grad_enabled", "requires_grad", "requires_grad_", "Parameter"))
_SWITCHED_ON = Wording(
    regex(r"\benable_grad\b|\bset_grad_enabled\b|\binference_mode\(\s*(?:mode\s*=)?F"),
    ("enable_grad", "set_grad_enabled", "inference_mode("),
)
_TENSORS = ("tensor", "batch")
_CALLABLE = ("module", "function")
_LATER = (cst.Lambda, cst.GeneratorExp, cst.ClassDef)


@question(
    yes="`{0}` has no graph: it was computed with autograd off, in the same function",
    no="`{0}` may have a graph",
)
def graphless(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor, and all that it was last computed by, stands in one block of
    ``no_grad`` or ``inference_mode``, or in a function that is decorated so."""
    region = _region(module, tensor)
    return region is not None and _is_computed(module, tensor, region)


def _region(module: Module, node: cst.CSTNode) -> cst.With | cst.FunctionDef | None:
    """Return the block or function around a node that has autograd off, where nothing in it may
    switch it on again."""
    if scopes(module).conditional_grad(node):
        return None
    for above in module.ancestors(node):
        if isinstance(above, _LATER):
            return None
        if isinstance(above, cst.With) and module.is_within(node, above.body):
            if any(_switches_off(module, item.item) for item in above.items):
                return None if _may_switch_on(module, above) else above
        elif isinstance(above, cst.FunctionDef):
            off = any(_switches_off(module, each.decorator) for each in above.decorators)
            return above if off and not _may_switch_on(module, above) else None
    return None


def _switches_off(module: Module, expression: cst.BaseExpression) -> bool:
    match expression:
        case cst.Call(func, []):
            return module.name(func) in torch_names.NO_GRAD
    return module.name(expression) in torch_names.NO_GRAD


def _may_switch_on(module: Module, region: cst.CSTNode) -> bool:
    """Say whether code in a block may ask for a graph, or lets other code run in between."""
    names = module.within(region, cst.Name, nested=True)
    return any(name.value in _ON for name in names) or module.contains(
        region, cst.Yield, cst.Await, nested=True
    )


@question()
def _is_computed(
    module: Module, node: cst.BaseExpression, region: cst.With | cst.FunctionDef
) -> bool:
    """Say whether an expression gives a tensor that an operation in a block has made."""
    match node:
        case cst.Name(name):
            found = definitions_of(module, node)
            return bool(found) and all(_is_bound(module, each, name, region) for each in found)
        case cst.Call(func):
            name = module.name(func) or ""
            if name in ops.COMPUTING_FUNCTIONS:
                return True
            if isinstance(func, cst.Attribute) and not name:
                method, held = func.attr.value, inferred(module, func.value)
                if held.kind in _TENSORS and method in ops.COMPUTING_METHODS:
                    return True
                if held.kind in _TENSORS and method in ops.ALIASING_METHODS:
                    return _is_computed(module, func.value, region)
            # A network may hand a parameter out, and a loss of one's own may take a gradient.
            value, callee = inferred(module, node), inferred(module, func)
            loss = value.kind in _TENSORS and value.origin == "loss" and callee.kind in _CALLABLE
            return loss and bool(node.args) and not says(module, _SWITCHED_ON)
        case cst.BinaryOperation() | cst.UnaryOperation(cst.Minus()):
            return inferred(module, node).kind in _TENSORS
        case cst.Subscript(inner):
            return _is_computed(module, inner, region)
    return False


def _is_bound(
    module: Module,
    made: cst.CSTNode,
    name: str,
    region: cst.With | cst.FunctionDef,
) -> bool:
    if not module.is_within(made, region.body):
        return False
    match made:
        case cst.Assign([cst.AssignTarget(cst.Name(bound))], value):
            return bound == name and _is_computed(module, value, region)
        case cst.AugAssign(cst.Name() as target):
            return _is_computed(module, target, region)
    return False
