"""Which names of a function flow into the loss that it back-propagates: they were computed on the
model's device."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from torchlint.semantic.code.calls import literal_key
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.tree import Tree, attr_of, is_name
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import CRITERION, LOSS, called

_TAKERS = frozenset(("backward", "scale", "manual_backward"))
_RECEIVERS = ("torch", "ctx", "self")
COMPUTING = (
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
        return part_text(node) if called(node.attr.value, LOSS) else None
    key = literal_key(node) if isinstance(node, cst.Subscript) else None
    return part_text(node) if key is not None and called(key, LOSS) else None


def part_text(node: cst.CSTNode) -> str | None:
    """Return the text of an attribute, or of what lies under a literal key: ``out.kl``,
    ``losses["kl"]``."""
    if type(node) is cst.Attribute:
        return dotted_text(node)
    key = literal_key(node) if isinstance(node, cst.Subscript) else None
    holder = dotted_text(node.value) if isinstance(node, cst.Subscript) and key else None
    return None if holder is None else f"{holder}[{key}]"


def holders(tree: Tree, owner: cst.CSTNode, trained: Collection[str]) -> frozenset[str]:
    """Return the names of what gives the loss of a function and more beside it: ``losses`` of
    ``losses["total"].backward()`` or ``sum(losses.values())``, ``parts`` of ``loss, parts = f(x)``.
    """
    if not trained:
        return frozenset()
    out = {re.split(r"[.\[]", text)[0] for text in trained if not text.isidentifier()}
    out.update(_beside(tree, owner, trained))
    for loop in tree.within(owner, cst.For, cst.CompFor):
        match loop:
            case cst.For(target, iterated) | cst.CompFor(target, iterated):
                row = isinstance(target, cst.Tuple) and target.elements
                its = row[-1].value if row else target  # ``for () in pairs`` binds nothing.
                if isinstance(its, cst.Name) and _values_of(iterated) in out:
                    out.add(its.value)
    return frozenset(out) - {"self", "cls"}


def _values_of(node: cst.BaseExpression) -> str | None:
    """Return the name of the mapping of whose values a loop takes one after the other."""
    match node:
        case cst.Call(cst.Attribute(cst.Name(name), cst.Name("items" | "values"))):
            return name
    return None


def _beside(tree: Tree, owner: cst.CSTNode, trained: Collection[str]) -> Iterator[str]:
    """Yield the names to which one call gives what comes with a loss, and those of mappings of
    which a sum is back-propagated."""
    for node in tree.within(owner, cst.Assign):
        if not isinstance(node.value, cst.Call):
            continue
        match node.targets[0].target:
            case cst.Tuple(elements):
                names = [each.value.value for each in elements if isinstance(each.value, cst.Name)]
                if any(name in trained and called(name, LOSS) for name in names):
                    yield from (name for name in names if name not in trained)
            case cst.Name(name) if name in trained and is_name(node.value.func, "sum"):
                calls = tree.within(node.value, cst.Call)
                yield from (each for each in map(_values_of, calls) if each is not None)


def trained_names(tree: Tree, names: Names, owner: cst.CSTNode) -> dict[str, bool]:
    """Return the plain names, and the places of losses, that reach a ``backward()`` of the
    function, or are compared by a criterion there; True for those that must be tensors.

    Followed are assignments whose right side is arithmetic, tensor methods and torch functions:
    their operands live where the loss lives (0-dim CPU tensors aside, whose device is known from
    how they were made). What is given to models and to other functions is not followed.
    """
    todo = list(dict.fromkeys(_back_propagated(tree, owner)))
    if not todo:
        return {}
    found = dict.fromkeys(todo, True)
    for call in tree.within(owner, cst.Call):
        for operand, _ in _criticised(call, names):
            if operand not in found:
                found[operand] = False
                todo.append(operand)
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
            if (part := part_text(node)) is not None:
                yield part, False
            return
        yield from _operands(node.value, names, certain)
    elif isinstance(node, cst.Call):
        yield from _called(node, names)


def _criticised(node: cst.Call, names: Names) -> Iterator[tuple[str, bool]]:
    """Yield what a criterion, by its name, compares in a function that trains: both lie where the
    loss does. It may take tuples and mappings as well."""
    func = node.func
    said = func.value if isinstance(func, cst.Name) else attr_of(func)
    if isinstance(said, str) and called(said, CRITERION) and names.name(func) is None:
        for arg in node.args[:2]:
            if not arg.star:
                yield from _operands(arg.value, names, False)


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
        if method in COMPUTING:
            yield from _operands(node.func.value, names, True)
