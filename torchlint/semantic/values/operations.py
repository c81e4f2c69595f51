"""One shape for the spellings of a tensor operation: ``torch.f(x)``, ``F.f(x)``, ``x.f()``,
``nn.F()(x)``, ``@``."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import has_star
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.ops import values
from torchlint.semantic.values.inferred import inferred

_PACKAGES = ("torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.Tensor.", "torch.")
_BINARY: dict[type[cst.BaseBinaryOp], str] = {
    getattr(cst, sign): name for name, sign in values("operator").items()
}
_AUGMENTED: dict[type[cst.BaseAugOp], str] = {
    getattr(cst, f"{sign}Assign"): name for name, sign in values("operator").items()
}
_SYNONYMS = values("is")


@frozen
class Operation:
    """One operation: its name (``softmax``), its operands in order (a method's receiver first), and
    its keywords.

    `made` is the call that constructs the layer, where a layer of torch.nn does it; `name` is then
    the class's name.
    """

    name: str
    operands: tuple[cst.BaseExpression, ...]
    keywords: Mapping[str, cst.BaseExpression]
    made: cst.Call | None = None

    def argument(self, position: int, keyword: str) -> cst.BaseExpression | None:
        """Return an argument given by position (the operation's tensor is 0) or by keyword, or
        None."""
        return (
            self.operands[position] if position < len(self.operands) else self.keywords.get(keyword)
        )


@question(yes="`{0}` is a tensor operation", no="`{0}` is not the operation that the rule is about")
def operation_of(module: Module, node: cst.CSTNode | None) -> Operation | None:
    """Return the tensor operation that an expression or ``x *= …`` stands for, or None."""
    if type(node) is cst.BinaryOperation and type(node.operator) in _BINARY:
        return Operation(_BINARY[type(node.operator)], (node.left, node.right), {})
    if (
        type(node) is cst.AugAssign
        and isinstance(node.target, cst.Name)
        and type(node.operator) in _AUGMENTED
    ):
        return Operation(_AUGMENTED[type(node.operator)], (node.target, node.value), {})
    if type(node) is not cst.Call or has_star(node):
        return None
    given = tuple(arg.value for arg in node.args if arg.keyword is None)
    keywords = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    if "input" in keywords:
        given = (keywords["input"], *given)
    dotted = module.name(node.func)
    for package in _PACKAGES if dotted is not None else ():
        if dotted is not None and dotted.startswith(package) and "." not in dotted[len(package) :]:
            return Operation(_canonical(dotted[len(package) :]), given, keywords)
    layer = _layer(module, node.func)
    if layer is not None:
        return Operation(module.called(layer).removeprefix("torch.nn."), given, keywords, layer)
    func = node.func
    if (
        not isinstance(func, cst.Attribute)
        or (dotted is not None and "." in dotted)
        or _no_tensor(module, func.value)
    ):
        return None
    return Operation(_canonical(func.attr.value), (func.value, *given), keywords)


def _canonical(name: str) -> str:
    name = name if name.startswith("__") else name.rstrip("_")
    return _SYNONYMS.get(name, name)


def _layer(module: Module, func: cst.BaseExpression) -> cst.Call | None:
    """Return the call that makes the layer of torch.nn which `func` is."""
    made = func if isinstance(func, cst.Call) else None
    if made is None and isinstance(func, (cst.Name, cst.Attribute)):
        value = inferred(module, func)
        made = value.node if value.kind == "module" and isinstance(value.node, cst.Call) else None
    return made if made is not None and module.called(made).startswith("torch.nn.") else None


def _no_tensor(module: Module, receiver: cst.BaseExpression) -> bool:
    """Say whether a method's receiver is something else than a tensor: ``self``, an array, a
    number, a module."""
    root = dotted_text(receiver)
    if root in ("self", "cls") or (
        isinstance(receiver, cst.Call) and dotted_text(receiver.func) == "super"
    ):
        return True
    return inferred(module, receiver).kind in (
        "module",
        "ndarray",
        "number",
        "str",
        "list",
        "dict",
        "object",
        "class",
    )
