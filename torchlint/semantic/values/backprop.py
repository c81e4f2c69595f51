"""Which names of a function flow into the loss that it back-propagates: they were computed on the
model's device."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.calls import literal_key
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.tree import Tree
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import LOSS, called

_TAKERS = frozenset(("backward", "scale", "manual_backward"))
_RECEIVERS = ("torch", "ctx", "self")
_COMPUTING = (
    ops.TENSOR_ONLY_METHODS
    | ops.REDUCTIONS
    | ops.having("method", "pointwise")
    | ops.SAME_VALUES
    | {"float"}
)


def place_text(node: cst.CSTNode) -> str | None:
    """Return the text of a name, or of what is kept as a loss under an attribute or a literal key:
    ``out.loss``, ``losses["total_loss"]``."""
    if type(node) is cst.Name:
        return node.value
    if type(node) is cst.Attribute:
        return dotted_text(node) if called(node.attr.value, LOSS) else None
    key = literal_key(node) if isinstance(node, cst.Subscript) else None
    if not isinstance(node, cst.Subscript) or key is None or not called(key, LOSS):
        return None
    holder = dotted_text(node.value)
    return None if holder is None else f"{holder}[{key}]"


def trained_names(tree: Tree, names: Names, owner: cst.CSTNode) -> dict[str, bool]:
    """Return the plain names, and the places of losses, that reach a ``backward()`` of the
    function; True for those that must be tensors.

    Followed are assignments whose right side is arithmetic, tensor methods and torch functions:
    their operands live where the loss lives (0-dim CPU tensors aside, whose device is known from
    how they were made). What is given to models and to other functions is not followed.
    """
    todo = list(dict.fromkeys(_back_propagated(tree, owner)))
    if not todo:
        return {}
    found = dict.fromkeys(todo, True)
    sources = _sources(tree, owner)
    while todo:
        for value in sources.get(todo.pop(), ()):
            for operand, certain in _operands(value, names, False):
                if operand not in found:
                    todo.append(operand)
                found[operand] = found.get(operand, False) or certain
    return found


def _back_propagated(tree: Tree, owner: cst.CSTNode) -> Iterator[str]:
    for call in tree.within(owner, cst.Call):
        func = call.func
        if type(func) is not cst.Attribute or func.attr.value not in _TAKERS:
            continue
        own = func.attr.value == "backward" and not call.args
        given = func.value if own else call.args[0].value if call.args else None
        text = place_text(given) if given is not None else None
        if text is not None and not (own and text in _RECEIVERS):
            yield text


def _sources(tree: Tree, owner: cst.CSTNode) -> dict[str, list[cst.BaseExpression]]:
    out: dict[str, list[cst.BaseExpression]] = {}
    for node in tree.within(owner, cst.Assign, cst.AugAssign):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if isinstance(target.target, cst.Name):
                    out.setdefault(target.target.value, []).append(node.value)
        elif isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            out.setdefault(node.target.value, []).append(node.value)
    return out


def _operands(node: cst.BaseExpression, names: Names, certain: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names that an expression computes with; `certain` where only a tensor can stand."""
    if isinstance(node, cst.Name):
        yield node.value, certain
    elif isinstance(node, cst.BinaryOperation):
        yield from _operands(node.left, names, False)
        yield from _operands(node.right, names, False)
    elif isinstance(node, cst.UnaryOperation):
        yield from _operands(node.expression, names, certain)
    elif isinstance(node, cst.IfExp):
        yield from _operands(node.body, names, False)
        yield from _operands(node.orelse, names, False)
    elif (text := place_text(node)) is not None:
        yield text, certain
    elif isinstance(node, cst.Subscript):
        if isinstance(node.value, cst.Name):
            return
        yield from _operands(node.value, names, certain)
    elif isinstance(node, cst.Call):
        yield from _called(node, names)


def _called(node: cst.Call, names: Names) -> Iterator[tuple[str, bool]]:
    name = names.name(node.func)
    if name is not None and name.startswith("torch."):
        if name in ops.NO_TENSOR or name in ops.FACTORIES or name in ops.DATA_FACTORIES:
            return
        tensors = 2 if name in ops.LOSS_FUNCTIONS else 1
        for index, arg in enumerate(node.args):
            if arg.keyword is None and not arg.star:
                yield from _operands(arg.value, names, index < tensors)
    elif (
        name is None
        and isinstance(node.func, cst.Attribute)
        and isinstance(node.func.value, cst.BaseExpression)
    ):
        method = node.func.attr.value
        if method in _COMPUTING:
            yield from _operands(node.func.value, names, True)
