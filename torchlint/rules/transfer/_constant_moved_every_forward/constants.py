"""Tensors that are built once on the host, or from constants, and moved to the device again and
again."""

from __future__ import annotations

import libcst as cst

from torchlint.base.records import frozen
from torchlint.rule import Module, inferred
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.tree import DISPLAYS, components, is_name, targets_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.classes import family_of, is_network
from torchlint.semantic.values.inferred import class_attribute
from torchlint.semantic.values.kept import made_once, refilled
from torchlint.semantic.values.value import CPU

_WRAPS = ("torch.nn.Parameter", "torch.autograd.Variable")
_VIEWS = ops.SAME_VALUES | ops.having("repeats") | ops.having("cast") - ops.having("move")


@frozen
class HostConstant:
    """A constant that lives on the host.

    Args:
        kind: ``attribute`` of a module, ``global`` of the file, or ``literal`` that is built anew
            each time.
        name: the attribute's or the variable's name, or the factory's.
        made: the one plain statement that assigns the attribute or the global alone; None for
            others and literals.
    """

    kind: str
    name: str
    made: cst.Assign | None


@question(
    yes="`{0}` is a constant on the host", no="`{0}` is not known to be a constant on the host"
)
def host_constant_of(module: Module, source: cst.BaseExpression) -> HostConstant | None:
    """Return the constant on the host of which an expression is a view or a cast, or None.

    A tensor that is looked up by an index that is itself data is no constant, but a table.
    """
    at = source
    while True:
        match at:
            case cst.Subscript(value) if all(_plain_index(part) for part in at.slice):
                at = value
            case cst.Call(cst.Attribute(value, cst.Name(method))) if method in _VIEWS and (
                module.name(at.func) is None
            ):
                at = value
            case cst.Attribute(cst.Name("self"), cst.Name(name)):
                return _attribute(module, at, name)
            case cst.Name(name):
                return _global(module, at, name)
            case cst.Call(func, [first, *_]) if module.name(func) in _WRAPS:
                at = first.value
            case cst.Call():
                return _literal(module, at)
            case _:
                return None


def _plain_index(part: cst.SubscriptElement) -> bool:
    if isinstance(part.slice, cst.Slice):
        return True
    if not isinstance(part.slice, cst.Index):
        return False
    index = part.slice.value
    fixed = isinstance(index, (cst.Integer, cst.UnaryOperation, cst.Ellipsis))
    return fixed or is_name(index, "None")


def _attribute(module: Module, node: cst.Attribute, name: str) -> HostConstant | None:
    cls = module.class_of(node)
    if cls is None or not is_network(module, cls):
        return None
    value = class_attribute(module, cls, name)
    if not value.tensor or value.device != CPU or value.grad or value.origin in ("param", "buffer"):
        return None
    made = made_once(module, cls, name)
    if made is None or any(
        name.value in ("requires_grad", "requires_grad_") for name in module.within(made, cst.Name)
    ):
        return None
    match made:
        case cst.Assign([cst.AssignTarget(cst.Attribute())]) if not _in_class_body(
            module, cls, name
        ):
            return HostConstant("attribute", name, made)
    return HostConstant("attribute", name, None)


def _in_class_body(module: Module, cls: cst.ClassDef, name: str) -> bool:
    """Say whether a class or a relative binds the name itself; no buffer can be registered under
    such a name."""
    for member in family_of(module, cls):
        for line in member.body.body:
            if isinstance(line, cst.FunctionDef) and line.name.value == name:
                return True
            for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if (
                    isinstance(small, (cst.Assign, cst.AnnAssign))
                    and small.value is not None
                    and any(is_name(target, name) for target in targets_of(small))
                ):
                    return True
    return False


def _global(module: Module, node: cst.Name, name: str) -> HostConstant | None:
    definition = sole_definition(module, node)
    made = module.parent(definition)
    if (
        not isinstance(made, cst.Assign)
        or definition is None
        or module.function(made)
        or module.class_of(made)
    ):
        return None
    # A loop at module level is a program's own; what is bound inside of it is no constant.
    if module.function(node) is None or module.loops(made):
        return None
    value = inferred(module, definition)
    return HostConstant("global", name, made) if value.tensor and value.device == CPU else None


def _literal(module: Module, call: cst.Call) -> HostConstant | None:
    name = module.called(call)
    first = call.args[0] if call.args else None
    if (
        name not in ops.DATA_FACTORIES
        or first is None
        or first.star
        or inferred(module, call).device != CPU
    ):
        return None
    shown = _resolved(module, first.value)
    if (
        not isinstance(shown, DISPLAYS)
        or next(components(shown, cst.List, cst.Tuple), None) is None
        or not _is_literal(module, first.value)
    ):
        return None
    return HostConstant("literal", module.shown(call.func), None)


def _resolved(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the display that a name of the file, or an attribute that only ``__init__`` assigns,
    stands for."""
    match node:
        case cst.Name():
            definition = sole_definition(module, node)
            return (
                definition
                if definition is not None and module.function(definition) is None
                else None
            )
        case cst.Attribute(cst.Name("self"), cst.Name(name)):
            cls = module.class_of(node)
            made = made_once(module, cls, name) if cls is not None else None
            kept = made is not None and cls is not None and not refilled(module, cls, name)
            plain = isinstance(made, cst.Assign) and isinstance(
                made.targets[0].target, cst.Attribute
            )
            return made.value if made is not None and plain and kept else None
    return node


@question()
def _is_literal(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is made of number literals alone, also through names that hold
    such."""
    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.UnaryOperation(expression=operand):
            return _is_literal(module, operand)
        case cst.BinaryOperation(left, right=right):
            return _is_literal(module, left) and _is_literal(module, right)
        case cst.List(elements) | cst.Tuple(elements):
            return all(
                isinstance(e, cst.Element) and _is_literal(module, e.value) for e in elements
            )
        case cst.Name() | cst.Attribute():
            held = _resolved(module, node)
            return held is not None and _is_literal(module, held)
    return False
