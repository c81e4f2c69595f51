"""What a tensor that is given to NumPy proves: NumPy raises on one of a device, so that this one
lies on the host, and so does what the function computed it from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred

_MOVES = ops.having("move") | {"numpy", "type"}
_JOINS = frozenset(f"numpy.{each}" for each in ("stack", "concatenate", "vstack", "hstack"))
_COMPUTES = frozenset(
    f"numpy.{each}" for each in "array asarray sqrt exp log isnan isinf isfinite".split()
)
"""Ask what they are given for an array, whatever methods it has."""
_BRANCHES = (cst.If, cst.IfExp, cst.Try, cst.BooleanOperation, cst.Match)
_STEPS = 24
"""Expressions that are followed back from one call."""


@question(yes="NumPy would raise if `{0}` lay on a device", no="nothing is given to NumPy of it")
def proven_on_host(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a tensor must lie on the host, as its function gives NumPy what it computes of
    it, or of which it is computed."""
    proofs = _proofs(module, module.scope(node))
    return any(
        (root in proven or _definition(module, root) in proven)
        and all(module.is_within(node, branch) for branch in branches)
        for root in (_roots(module, node) if proofs else ())
        for branches, proven in proofs
    )


def _roots(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return an expression, and what it, its methods and parts are computed of, as far as nothing
    moves it."""
    found = [node]
    for _ in range(_STEPS):
        match node:
            case cst.Call(cst.Attribute(inner)) if not _is_moved(module, node):
                node = inner
            case cst.Attribute(inner) | cst.Subscript(inner):
                node = inner
            case cst.Name():
                definition = _definition(module, node)
                if definition is None or not isinstance(definition[0], cst.Assign):
                    break
                node = definition[0].value
            case cst.BinaryOperation(inner, right=other) | cst.Comparison(
                inner, [cst.ComparisonTarget(comparator=other)]
            ) if inferred(module, other).kind in ("number", "ndarray"):
                node = inner
            case cst.BinaryOperation(inner, right=other) if inferred(module, other).tensor:
                found += _roots(module, other)
                node = inner
            case _:
                break
        found.append(node)
    return found


_Proof = tuple[tuple[cst.CSTNode, ...], frozenset[object]]


@question(ground=True)
def _proofs(module: Module, scope: cst.CSTNode) -> tuple[_Proof, ...]:
    """Return what each tensor proves that a scope gives NumPy, with the branches in which it
    does."""
    proofs = []
    for call in module.within(scope, cst.Call):
        for tensor in _given_to_numpy(module, call, scope):
            if inferred(module, tensor).tensor:
                branches = [b for b in module.ancestors(tensor) if isinstance(b, _BRANCHES)]
                branches += [b for b in module.ancestors(call) if isinstance(b, _BRANCHES)]
                inside = tuple(b for b in branches if module.is_within(b, scope))
                proofs.append((inside, _computed_from(module, tensor)))
    return tuple(proofs)


def _given_to_numpy(
    module: Module, call: cst.CSTNode, scope: cst.CSTNode
) -> Iterator[cst.BaseExpression]:
    """Yield what a call makes an array of: a tensor, or what a list is filled with that NumPy
    joins."""
    match call:
        case cst.Call(cst.Attribute(tensor, cst.Name("numpy")), []):
            yield tensor
        case cst.Call(func, [cst.Arg(tensor), *_]) if (module.name(func) or "") in _COMPUTES:
            yield tensor
        case cst.Call(func, [cst.Arg(cst.Name() as rows), *_]) if (
            module.name(func) or ""
        ) in _JOINS:
            made = definitions_of(module, rows)
            for fill in module.within(scope, cst.Call):
                match fill:
                    case cst.Call(
                        cst.Attribute(cst.Name() as filled, cst.Name("append")),
                        [cst.Arg(row)],
                    ) if filled.value == rows.value and definitions_of(module, filled) == made:
                        yield row


def _computed_from(module: Module, tensor: cst.BaseExpression) -> frozenset[object]:
    """Return the expressions, and the definitions of names, that a tensor was computed from."""
    proven: set[object] = set()
    todo: list[cst.CSTNode] = [tensor]
    for _ in range(_STEPS):
        if not todo:
            break
        node = todo.pop()
        if node in proven:
            continue
        definition = _definition(module, node)
        if inferred(module, node).tensor and not _is_moved(module, node):
            proven |= {node, definition} - {None}
            made = definition[0] if definition is not None else node
            todo += _operands(module, made.value if isinstance(made, cst.Assign) else made)
    return frozenset(proven)


def _is_moved(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a call may bring a tensor to another place; ``x.to(torch.uint8)`` does not."""
    match node:
        case cst.Call(cst.Attribute(attr=cst.Name("to")), [cst.Arg(target)]):
            return inferred(module, target).kind != "dtype"
        case cst.Call(cst.Attribute(attr=cst.Name(method))):
            return method in _MOVES
    return False


def _definition(module: Module, node: cst.CSTNode) -> tuple[cst.CSTNode, str] | None:
    """Return the one place where a name was bound, with the name."""
    made = definitions_of(module, node) if isinstance(node, cst.Name) else ()
    return (made[0], node.value) if len(made) == 1 and isinstance(node, cst.Name) else None


def _operands(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return what an operation, a function of torch or a network computes with on one device."""
    match node:
        case cst.BinaryOperation(left, right=right):
            return [left, right]
        case cst.Comparison(left, targets):
            return [left, *(each.comparator for each in targets)]
        case cst.Attribute(inner):
            return [inner]
        case cst.Subscript(inner, parts):
            # What lies on the host takes no index on a device but a single number.
            plain = (each.slice.value for each in parts if isinstance(each.slice, cst.Index))
            values = ((each, inferred(module, each)) for each in plain)
            return [inner, *(each for each, of in values if of.rank or of.dtype == "bool")]
        case cst.Call(func, args):
            given = [arg.value for arg in args]
            torch = (module.name(func) or "").startswith("torch.")
            if torch or inferred(module, func).kind == "module":
                return list(given)
            return [func.value, *given] if isinstance(func, cst.Attribute) else []
        case cst.Name():
            return []
    return [node] if isinstance(node, cst.BaseExpression) else []
