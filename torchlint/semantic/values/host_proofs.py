"""What a call of ``.numpy()`` proves: it raises on a tensor of a device, so its tensor lies on the
host, and so does what the function computed that from."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred

_MOVES = ops.having("move") | {"numpy", "type"}
_BRANCHES = (cst.If, cst.IfExp, cst.Try, cst.BooleanOperation, cst.Match)
_STEPS = 24
"""Expressions that are followed back from one call."""


@question(yes="`.numpy()` would raise if `{0}` lay on a device", no="no `.numpy()` says so")
def proven_on_host(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a tensor must lie on the host, as its function calls ``.numpy()`` of what it
    computes of it, or of which it is computed."""
    proofs = _proofs(module, module.function(node) or module.root)
    return any(
        (root in proven or _definition(module, root) in proven)
        and all(module.is_within(node, branch) for branch in branches)
        for root in (_roots(node) if proofs else ())
        for branches, proven in proofs
    )


def _roots(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return an expression, and what its methods and parts are asked of, as far as nothing moves
    it."""
    found = [node]
    while True:
        match node:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(m))) if m not in _MOVES:
                node = inner
            case cst.Attribute(value=inner) | cst.Subscript(value=inner):
                node = inner
            case _:
                return found
        found.append(node)


_Proof = tuple[tuple[cst.CSTNode, ...], frozenset[object]]


@question(ground=True)
def _proofs(module: Module, scope: cst.CSTNode) -> tuple[_Proof, ...]:
    """Return what each ``.numpy()`` of a scope proves, with the branches in which it stands."""
    proofs = []
    for call in module.within(scope, cst.Call):
        match call:
            case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("numpy")), args=[]):
                if inferred(module, tensor).tensor:
                    branches = [b for b in module.ancestors(call) if isinstance(b, _BRANCHES)]
                    inside = tuple(b for b in branches if module.is_within(b, scope))
                    proofs.append((inside, _computed_from(module, tensor)))
    return tuple(proofs)


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
        if inferred(module, node).tensor and not _moved(node):
            proven |= {node, definition} - {None}
            made = definition[0] if definition is not None else node
            todo += _operands(module, made.value if isinstance(made, cst.Assign) else made)
    return frozenset(proven)


def _moved(node: cst.CSTNode) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(method))):
            return method in _MOVES
    return False


def _definition(module: Module, node: cst.CSTNode) -> tuple[cst.CSTNode, str] | None:
    """Return the one place where a name was bound, with the name."""
    made = definitions_of(module, node) if isinstance(node, cst.Name) else ()
    return (made[0], node.value) if len(made) == 1 and isinstance(node, cst.Name) else None


def _operands(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return what an operation, a function of torch or a network computes with on one device."""
    match node:
        case cst.BinaryOperation(left=left, right=right):
            return [left, right]
        case cst.Attribute(value=inner) | cst.Subscript(value=inner):
            return [inner]
        case cst.Call(func=func, args=args):
            given = [arg.value for arg in args]
            torch = (module.name(func) or "").startswith("torch.")
            if torch or inferred(module, func).kind == "module":
                return list(given)
            return [func.value, *given] if isinstance(func, cst.Attribute) else []
        case cst.Name():
            return []
    return [node] if isinstance(node, cst.BaseExpression) else []
