"""Tests of a tensor's truth that can go: a mask that is asked for elements before it is written
through, and a list of one answer for each element."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Fix, InsertAfter, Module, NodeEdit, Replace, Safety
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.uses.elements import one_dimensional
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_ASKS = ("any", "sum")
_EMPTY = (
    "The write is done where the mask is empty, too: autograd counts it as a change in place, and "
    "a mask that does not fit raises in any case."
)
_ONCE = "Only code that looks at each operation can tell one comparison from many."
_FLAT = "What is no vector, or has no dimension at all, gives a list as well, where it raised."


def needless_test(module: Module, node: cst.If, test: cst.BaseExpression) -> Fix | None:
    """Return the fix that writes through a mask without asking whether it selects anything."""
    mask = _asked(module, test)
    if mask is None or node.orelse is not None or not isinstance(node.body, cst.IndentedBlock):
        return None
    lines = node.body.body
    if not lines or not all(_fills(module, line, mask) for line in lines):
        return None
    first, *others = lines
    code = cst.Module([]).code_for_node
    new = first.with_changes(leading_lines=()) if hasattr(first, "leading_lines") else first
    edits: list[NodeEdit] = [Replace(node, new)]
    edits += [InsertAfter(node, code(each).strip()) for each in others]
    return Fix(tuple(edits), Safety.UNSAFE, "Write through the mask without the test", _EMPTY)


def _asked(module: Module, test: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the mask of ``m.any()``, ``torch.any(m)``, ``m.sum()`` and ``m.sum() > 0``."""
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.GreaterThan() | cst.NotEqual(), comparator=cst.Integer("0")
                )
            ],
        ):
            test = left
    match test:
        case cst.Call(func=cst.Attribute(value=mask, attr=cst.Name(value=ask)), args=[]) if (
            ask in _ASKS
        ):
            pass
        case cst.Call(func=func, args=[cst.Arg(value=mask, keyword=None, star="")]) if module.name(
            func
        ) in ("torch.any", "torch.sum"):
            pass
        case _:
            return None
    return mask if dotted_text(mask) is not None and _is_mask(module, mask) else None


def _is_mask(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor holds truth values; what else indexes may hold positions."""
    value = inferred(module, node)
    if value.tensor and value.dtype is not None:
        return value.dtype == "bool"
    made = definitions_of(module, node) if isinstance(node, cst.Name) else []
    return bool(made) and all(
        isinstance(each, cst.Assign) and isinstance(each.value, cst.Comparison) for each in made
    )


def _fills(module: Module, line: cst.CSTNode, mask: cst.BaseExpression) -> bool:
    """Say whether a statement puts a number where the mask is, and does nothing else."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[
                        cst.AssignTarget(
                            target=cst.Subscript(
                                value=held,
                                slice=[cst.SubscriptElement(slice=cst.Index(value=index))],
                            )
                        )
                    ],
                    value=value,
                )
            ]
        ):
            return index.deep_equals(mask) and _plain(module, held) and _number(module, value)
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(
                    value=cst.Call(
                        func=cst.Attribute(value=held, attr=cst.Name("masked_fill_")),
                        args=[cst.Arg(value=index, keyword=None), cst.Arg(value=value)],
                    )
                )
            ]
        ):
            return index.deep_equals(mask) and _plain(module, held) and _number(module, value)
    return False


def _plain(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a tensor on the device, or a slice of one, that costs nothing to
    name."""
    held = node
    while isinstance(held, cst.Subscript):
        if not all(isinstance(part.slice, cst.Slice) for part in held.slice):
            return False
        held = held.value
    return dotted_text(held) is not None and bool(on_device(module, held))


def _number(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Integer() | cst.Float() | cst.Name("True" | "False"):
            return True
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _number(module, inner)
        case cst.Call(func=func, args=[cst.Arg(value=cst.SimpleString())]):
            return module.name(func) == "builtins.float"
        case cst.Name() | cst.Attribute():
            return inferred(module, node).kind == "number"
    return False


def answers_at_once(module: Module, choice: cst.IfExp) -> Fix | None:
    """Return the fix for ``[a if v > 0.5 else b for v in t]``: one comparison, and one read."""
    whole = module.parent(choice)
    match whole, choice.test:
        case (
            cst.ListComp(
                elt=elt,
                for_in=cst.CompFor(
                    target=cst.Name(value=name),
                    iter=tensor,
                    ifs=[],
                    inner_for_in=None,
                    asynchronous=None,
                ),
            ),
            cst.Comparison(
                left=cst.Name(value=left),
                comparisons=[cst.ComparisonTarget(operator=operator, comparator=bound)],
            ),
        ) if elt is choice and left == name:
            pass
        case _:
            return None
    if isinstance(operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
        return None
    value = inferred(module, tensor)
    if not value.tensor or value.loose or not _number(module, bound):
        return None
    if name in module.names_in(choice.body) | module.names_in(choice.orelse):
        return None
    if dotted_text(tensor) is None:
        return None
    flat = one_dimensional(module, tensor)
    sign = cst.Module([]).code_for_node(operator).strip()
    compared = f"({module.code(tensor)} {sign} {module.code(bound)})"
    code = f"{compared}.tolist()" if flat else f"{compared}.flatten().tolist()"
    edits = (
        Replace(choice.test, cst.Name(name)),
        Replace(tensor, cst.parse_expression(code)),
    )
    note = "" if flat else _FLAT
    return Fix(edits, Safety.UNSAFE, "Compare all elements, and read them once", note or _ONCE)


__all__ = ["answers_at_once", "needless_test"]
