"""Reads through a mask whose size the host knows after all: what goes back through the same mask,
and all but the diagonal of a matrix."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Fix, Module, NeedImport, NodeEdit, Remove, Replace, Safety, one_sentence
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.uses.observers import hooks_operations, replaced, scripted
from torchlint.semantic.values.inferred import inferred

_LIKE_MASK = (
    "A program in which the mask selects rows of a larger tensor, and by chance as many as fit, "
    "would raise or give something else."
)
_PATCHED = "The code replaces functions of torch, or looks at each of its operations."
_SQUARE = (
    "What is no square matrix, but was stretched to one by the mask, raises or gives something "
    "else."
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
    """Return the fix for a read through a mask, where it can do without the number of elements."""
    return _copied(module, node) or _scattered(module, node) or _off_diagonal(module, node)


# -- x[mask] = y[mask] -----------------------------------------------------------------------------


def _copied(module: Module, node: cst.Subscript | cst.Call) -> Fix | None:
    """Select with torch.where what is written through the mask that it is read by."""
    home = module.small_statement(node)
    match home, node:
        case (
            cst.Assign(
                targets=[
                    cst.AssignTarget(
                        target=cst.Subscript(value=cst.Name() | cst.Attribute() as into) as target
                    )
                ],
                value=value,
            ),
            cst.Subscript(value=source),
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
    watched = hooks_operations(module) or replaced(module, "where", "copy_") or scripted(module)
    note = one_sentence(("" if len(compared) > 1 else _LIKE_MASK, _PATCHED if watched else ""))
    torch = name_for_module(module, "torch", "torch")
    args = [cst.Arg(mask), cst.Arg(source), cst.Arg(into)]
    select = cst.Call(cst.parse_expression(f"{torch}.where"), args)
    new: cst.BaseSmallStatement
    if _is_own(module, home, into):
        new = cst.Assign([cst.AssignTarget(into)], select)
    else:
        new = cst.Expr(cst.Call(cst.Attribute(into, cst.Name("copy_")), [cst.Arg(select)]))
    edits = (Replace(home, new), NeedImport("torch", torch))
    safety = Safety.UNSAFE if note else Safety.SAFE
    return Fix(edits, safety, "Select with torch.where on the device", note)


def _scattered(module: Module, node: cst.Subscript | cst.Call) -> Fix | None:
    """Select with torch.where what ``x.masked_scatter_(mask, y.masked_select(mask))`` puts where
    it took it from."""
    home = module.small_statement(node)
    match home, node:
        case (
            cst.Expr(
                value=cst.Call(
                    func=cst.Attribute(value=into, attr=cst.Name("masked_scatter_")) as method,
                    args=[cst.Arg(value=written, keyword=None), cst.Arg(value=value, keyword=None)],
                )
            ),
            cst.Call(
                func=cst.Attribute(value=source, attr=cst.Name("masked_select")),
                args=[cst.Arg(value=mask, keyword=None)],
            ),
        ) if value is node and mask.deep_equals(written):
            pass
        case _:
            return None
    if any(dotted_text(each) is None for each in (into, source, mask)) or into.deep_equals(source):
        return None
    watched = hooks_operations(module) or replaced(module, "where", "copy_") or scripted(module)
    torch = name_for_module(module, "torch", "torch")
    args = [cst.Arg(mask), cst.Arg(source), cst.Arg(into)]
    select = cst.Call(cst.parse_expression(f"{torch}.where"), args)
    new = cst.Expr(cst.Call(method.with_changes(attr=cst.Name("copy_")), [cst.Arg(select)]))
    note = one_sentence((_LIKE_MASK, _PATCHED if watched else ""))
    edits = (Replace(home, new), NeedImport("torch", torch))
    return Fix(edits, Safety.UNSAFE, "Select with torch.where on the device", note)


def _only_index(node: cst.Subscript) -> cst.BaseExpression | None:
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=index))]:
            return index
    return None


def _compares(module: Module, mask: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
    """Say whether a mask is a comparison of a tensor that is still what it was then, so that it has
    the tensor's shape wherever it can index it."""
    made = mask
    if isinstance(mask, cst.Name):
        found = definitions_of(module, mask)
        made = found[0].value if len(found) == 1 and isinstance(found[0], cst.Assign) else mask
    match made:
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]
        ) if isinstance(operator, _ORDERS):
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
    if not made or not all(_makes(module, each) for each in made):
        return False
    reads = {read for each in made for read in readers_of(module, each, into.value)}
    return all(module.function(read) is function and _only_read(module, read) for read in reads)


def _makes(module: Module, made: cst.CSTNode) -> bool:
    """Say whether an assignment binds one name to what an operator or a factory has just made."""
    match made:
        case cst.Assign(targets=[_], value=cst.BinaryOperation() | cst.UnaryOperation()):
            return True
        case cst.Assign(targets=[_], value=cst.Call() as call):
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
        case cst.Subscript(value=value):
            return value is read and isinstance(module.parent(above), cst.AssignTarget)
        case cst.Arg():
            call = module.parent(above)
            name = module.name(call.func) if isinstance(call, cst.Call) else None
            return name in ("torch.max", "torch.min", "torch.argmax", "torch.argmin")
        case cst.Attribute(attr=cst.Name("max" | "min" | "argmax" | "argmin")):
            return isinstance(module.parent(above), cst.Call)
    return False


# -- x[~eye].view(n, -1) ---------------------------------------------------------------------------


def _off_diagonal(module: Module, node: cst.Subscript | cst.Call) -> Fix | None:
    """Cut the diagonal out of a matrix by slices."""
    edit = _cut(module, node)
    if edit is None:
        return None
    mask = _mask_of(module, node)
    edits: list[NodeEdit] = [edit]
    made = definitions_of(module, mask) if isinstance(mask, cst.Name) else []
    if isinstance(mask, cst.Name) and len(made) == 1:
        readers = [_reader(module, each) for each in readers_of(module, made[0], mask.value)]
        cuts = [_cut(module, each) for each in readers if each is not None]
        known = [each for each in cuts if each is not None]
        if len(known) == len(readers) and isinstance(made[0], cst.Assign):
            edits = [*known, Remove(made[0])]
    return Fix(tuple(edits), Safety.UNSAFE, "Cut the diagonal out by slices", _SQUARE)


def _reader(module: Module, mask: cst.Name) -> cst.Subscript | cst.Call | None:
    """Return the read of elements that a mask is given to."""
    above = module.parent(mask)
    if isinstance(above, cst.Arg):
        call = module.parent(above)
        return call if isinstance(call, cst.Call) else None
    part = module.parent(above) if isinstance(above, cst.Index) else None
    node = module.parent(part)
    return node if isinstance(node, cst.Subscript) else None


def _mask_of(module: Module, node: cst.Subscript | cst.Call) -> cst.BaseExpression | None:
    match node:
        case cst.Subscript():
            return _only_index(node)
        case cst.Call(func=cst.Attribute(attr=cst.Name("masked_select")), args=[cst.Arg() as arg]):
            return arg.value if arg.keyword is None and not arg.star else None
    return None


def _cut(module: Module, node: cst.Subscript | cst.Call) -> Replace | None:
    """Return the edit for ``x[mask].view(n, -1)``, where the mask leaves the diagonal out."""
    mask = _mask_of(module, node)
    held = node.value if isinstance(node, cst.Subscript) else node.func
    tensor = held.value if isinstance(node, cst.Call) and isinstance(held, cst.Attribute) else held
    method = module.parent(node)
    call = module.parent(method) if isinstance(method, cst.Attribute) else None
    if mask is None or not isinstance(call, cst.Call) or not isinstance(method, cst.Attribute):
        return None
    match method.attr.value, call.args:
        case "view" | "reshape", [cst.Arg(value=rows, star=""), cst.Arg(value=rest)] if (
            module.source_of(rest) == "-1"
        ):
            pass
        case _:
            return None
    size = _side(module, mask)
    if size is None or dotted_text(tensor) is None:
        return None
    x, n = module.source_of(tensor), module.source_of(rows)
    own = (f"{x}.shape[0]", f"{x}.size(0)", f"len({x})")
    if n != size and (n not in own or inferred(module, tensor).rank != 2):
        return None
    n = own[-1] if n in own else n
    if not isinstance(rows, (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Integer)) and (
        not isinstance(rows, cst.BinaryOperation) or not isinstance(rows.operator, cst.Multiply)
    ):
        return None
    code = f"{x}.flatten()[1:].view(-1, {n} + 1)[:, :-1].reshape({n}, -1)"
    return Replace(call, cst.parse_expression(code))


def _side(module: Module, mask: cst.BaseExpression) -> str | None:
    """Return the code of the length of a square mask that is false on its diagonal alone."""
    made = sole_definition(module, mask) if isinstance(mask, cst.Name) else mask
    if isinstance(mask, cst.Name) and made is None:
        found = definitions_of(module, mask)
        made = found[0].value if len(found) == 1 and isinstance(found[0], cst.Assign) else None
    while made is not None:
        match made:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("bool")), args=[]):
                made = value
            case cst.UnaryOperation(operator=cst.BitInvert(), expression=eye):
                return _eye(module, eye)
            case cst.BinaryOperation(left=ones, operator=cst.Subtract(), right=eye) if _all_ones(
                module, ones
            ):
                return _eye(module, eye)
            case _:
                return None
    return None


def _all_ones(module: Module, node: cst.BaseExpression) -> bool:
    name = module.name(node.func) if isinstance(node, cst.Call) else None
    return module.source_of(node) in ("1", "1.0") or name in ("torch.ones_like", "torch.ones")


def _eye(module: Module, node: cst.BaseExpression) -> str | None:
    """Return the code of the length of an identity matrix."""
    while True:
        match node:
            case cst.Call(
                func=cst.Attribute(value=value, attr=cst.Name("bool" | "to" | "cuda" | "type_as"))
            ) if module.name(node.func) is None:
                node = value
            case cst.Call(func=func, args=[cst.Arg(value=size, keyword=None), *rest]) if (
                module.name(func) == "torch.eye" and all(arg.keyword for arg in rest)
            ):
                return module.source_of(size)
            case _:
                return None


__all__ = ["masked_fix"]
