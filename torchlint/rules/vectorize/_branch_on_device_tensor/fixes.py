"""Tests of a tensor's truth that can go: a mask that is asked for elements before it is written
through, and a parameter of which is asked whether it was given."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import (
    Fix,
    InsertAfter,
    Module,
    NodeEdit,
    Replace,
    Safety,
)
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.numbers import spelled_number
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_ASKS = ("any", "sum")
_EMPTY = (
    "The write is done where the mask is empty, too: autograd counts it as a change in place, and "
    "a mask that does not fit raises in any case."
)
_GIVEN = (
    "What is zero, false or empty, but not None, counts as given, and a tensor of several elements "
    "no longer raises."
)


def needless_test(module: Module, node: cst.If, test: cst.BaseExpression) -> Fix | None:
    """Return the fix that writes through a mask without asking whether it selects anything."""
    asked = _asked(module, test)
    if asked is None or node.orelse is not None or not isinstance(node.body, cst.IndentedBlock):
        return None
    lines = node.body.body
    if not lines or not all(_fills(module, line, asked) for line in lines):
        return None
    first, *others = lines
    code = cst.Module([]).code_for_node
    new = first.with_changes(leading_lines=()) if hasattr(first, "leading_lines") else first
    edits: list[NodeEdit] = [Replace(node, new)]
    edits += [InsertAfter(node, code(each).strip()) for each in others]
    return Fix(tuple(edits), Safety.UNSAFE, "Write through the mask without the test", _EMPTY)


def _asked(module: Module, test: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what is asked for elements by ``m.any()``, ``torch.any(m)``, ``m.sum()`` and
    ``m.sum() > 0``: a mask, or counts that are more than zero where a mask could be set."""
    test = _above_zero(test) or test
    match test:
        case cst.Call(func=cst.Attribute(value=asked, attr=cst.Name(value=ask)), args=[]) if (
            ask in _ASKS
        ):
            pass
        case cst.Call(func=func, args=[cst.Arg(value=asked, keyword=None, star="")]) if module.name(
            func
        ) in ("torch.any", "torch.sum"):
            pass
        case _:
            return None
    if isinstance(asked, cst.Comparison):
        bare = asked.with_changes(lpar=[], rpar=[])
        return bare if inferred(module, asked).dtype == "bool" else None
    if dotted_text(asked) is None:
        return None
    return asked if _is_mask(module, asked) or _counts(module, asked) else None


def _counts(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a name holds sums of truth values, of which none is below zero."""
    made = definitions_of(module, node) if isinstance(node, cst.Name) else []
    return bool(made) and all(
        isinstance(each, cst.Assign) and _sums_truth(module, each.value) for each in made
    )


def _sums_truth(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=func, args=[cst.Arg(value=summed, keyword=None, star=""), *_]) if (
            module.name(func) == "torch.sum"
        ):
            return inferred(module, summed).dtype == "bool"
        case cst.Call(func=cst.Attribute(value=summed, attr=cst.Name("sum"))):
            return inferred(module, summed).dtype == "bool"
    return False


def _selects(index: cst.BaseExpression, asked: cst.BaseExpression, counted: bool) -> bool:
    """Say whether an index selects nothing where what was asked holds nothing."""
    if not counted:
        return index.deep_equals(asked)
    counts = _above_zero(index)
    return counts is not None and counts.deep_equals(asked)


def _above_zero(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return what ``x > 0`` and ``x != 0`` compare with zero."""
    match node:
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.GreaterThan() | cst.NotEqual(), comparator=cst.Integer("0")
                )
            ],
        ):
            return left
    return None


def _is_mask(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor holds truth values; what else indexes may hold positions."""
    value = inferred(module, node)
    if value.tensor and value.dtype is not None:
        return value.dtype == "bool"
    made = definitions_of(module, node) if isinstance(node, cst.Name) else []
    return bool(made) and all(
        isinstance(each, cst.Assign) and isinstance(each.value, cst.Comparison) for each in made
    )


def _fills(module: Module, line: cst.CSTNode, asked: cst.BaseExpression) -> bool:
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
            pass
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
            pass
        case _:
            return False
    counted = not isinstance(asked, cst.Comparison) and not _is_mask(module, asked)
    through = _selects(index, asked, counted)
    return through and _plain(module, held) and _number(module, value)


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
    return spelled_number(module, node) is not None or (
        isinstance(node, (cst.Name, cst.Attribute)) and inferred(module, node).kind == "number"
    )


def given_test(module: Module, test: cst.BaseExpression) -> Fix | None:
    """Return the fix that asks whether a parameter was given by ``is not None`` instead of by its
    truth."""
    function = module.function(test)
    if not isinstance(test, cst.Name) or function is None:
        return None
    if definitions_of(module, test) != [function]:
        return None
    params = function.params
    defaults = [
        each.default
        for each in (*params.posonly_params, *params.params, *params.kwonly_params)
        if each.name.value == test.value
    ]
    if not any(is_name(each, "None") for each in defaults):
        return None
    above = module.parent(test)
    refused = isinstance(above, cst.UnaryOperation) and isinstance(above.operator, cst.Not)
    place = above if refused else test
    sign = "is" if refused else "is not"
    match above:
        case cst.IfExp(body=cst.Name(value=given), orelse=cst.Name("None")) if given == test.value:
            edits = (Replace(above, test.with_changes(lpar=above.lpar, rpar=above.rpar)),)
            return Fix(edits, Safety.UNSAFE, "Pass it on as it was given", _GIVEN)
    assert isinstance(place, cst.BaseExpression)
    new = cst.parse_expression(f"{test.value} {sign} None")
    edits = (Replace(place, new.with_changes(lpar=place.lpar, rpar=place.rpar)),)
    return Fix(edits, Safety.UNSAFE, "Ask whether it was given", _GIVEN)
