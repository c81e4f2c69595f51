"""Reads through a mask whose size the host need not know: what goes back through the same mask."""

from __future__ import annotations

import libcst as cst

from torchlint.fixes.notes import safe_unless
from torchlint.rule import Fix, Module, NeedImport, Replace, inferred
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_value, definitions_of, readers_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.uses.assumptions import PATCHED, TORCH

_LIKE_MASK = (
    "A program in which the mask selects rows of a larger tensor, and by chance as many as fit, "
    "would raise or give something else."
)
_ORDERS = (
    cst.LessThan,
    cst.LessThanEqual,
    cst.GreaterThan,
    cst.GreaterThanEqual,
    cst.Equal,
    cst.NotEqual,
)


def masked_fix(module: Module, node: cst.Subscript | cst.Call) -> Fix | None:
    """Return the fix that selects with torch.where what is written through the mask that it is read
    by, ``x[mask] = y[mask]``."""
    home = module.small_statement(node)
    match home, node:
        case (
            cst.Assign(
                [cst.AssignTarget(cst.Subscript(cst.Name() | cst.Attribute() as into) as target)],
                value,
            ),
            cst.Subscript(source),
        ) if value is node:
            mask = _only_index(node)
        case _:
            return None
    written = _only_index(target)
    if mask is None or written is None or not mask.deep_equals(written):
        return None
    if dotted_text(into) is None or dotted_text(source) is None or into.deep_equals(source):
        return None
    compared = [each for each in (into, source) if _compares(module, mask, each)]
    if not compared:
        return None
    note = "" if len(compared) > 1 else _LIKE_MASK
    torch = torch_name(module)
    args = [cst.Arg(mask), cst.Arg(source), cst.Arg(into)]
    select = cst.Call(cst.parse_expression(f"{torch}.where"), args)
    new: cst.BaseSmallStatement
    if _is_own(module, home, into):
        new = cst.Assign([cst.AssignTarget(into)], select)
    else:
        new = cst.Expr(cst.Call(cst.Attribute(into, cst.Name("copy_")), [cst.Arg(select)]))
    edits = (Replace(home, new), NeedImport("torch", torch))
    return safe_unless([note], edits, "Select with torch.where on the device", {TORCH: PATCHED})


def _only_index(node: cst.Subscript) -> cst.BaseExpression | None:
    match node.slice:
        case [cst.SubscriptElement(cst.Index(index))]:
            return index
    return None


def _compares(module: Module, mask: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
    """Say whether a mask is a comparison of a tensor that is still what it was then, so that it has
    the tensor's shape wherever it can index it."""
    match assigned_value(module, mask) or mask:
        case cst.Comparison(left, [cst.ComparisonTarget(operator, right)]) if isinstance(
            operator, _ORDERS
        ):
            sides = (left, right)
        case _:
            return False
    if not isinstance(tensor, cst.Name) or not inferred(module, tensor).tensor:
        return False
    return any(
        is_name(side, tensor.value)
        and set(definitions_of(module, side)) == set(definitions_of(module, tensor))
        for side in sides
    )


def _is_own(module: Module, home: cst.Assign, into: cst.BaseExpression) -> bool:
    """Say whether a name can be bound anew: its function made the tensor, and no other name, view
    or caller knows of it."""
    function = module.function(home)
    if not isinstance(into, cst.Name) or function is None:
        return False
    made = definitions_of(module, into)
    if not made or not all(_binds_fresh(module, each) for each in made):
        return False
    reads = {read for each in made for read in readers_of(module, each, into.value)}
    return all(module.function(read) is function and _only_read(module, read) for read in reads)


def _binds_fresh(module: Module, made: cst.CSTNode) -> bool:
    """Say whether an assignment binds one name to what an operator or a factory has just made."""
    match made:
        case cst.Assign([_], cst.BinaryOperation() | cst.UnaryOperation()):
            return True
        case cst.Assign([_], cst.Call() as call):
            while isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call):
                call = call.func.value
            name = module.called(call)
            return name.startswith("torch.") and inferred(module, call).origin == "factory"
    return False


def _only_read(module: Module, read: cst.Name) -> bool:
    """Say whether a use compares a tensor, takes its largest or smallest elements, or writes
    through a mask: whatever its strides are, which torch.where chooses anew."""
    above = module.parent(read)
    match above:
        case cst.Comparison() | cst.ComparisonTarget():
            return True
        case cst.Subscript(value):
            return value is read and isinstance(module.parent(above), cst.AssignTarget)
        case cst.Arg():
            return module.called(module.parent(above)) in (
                "torch.max",
                "torch.min",
                "torch.argmax",
                "torch.argmin",
            )
        case cst.Attribute(attr=cst.Name("max" | "min" | "argmax" | "argmin")):
            return isinstance(module.parent(above), cst.Call)
    return False
