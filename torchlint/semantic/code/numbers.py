"""Numbers that are written out."""

from __future__ import annotations

import math

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_CONSTANTS = {
    f"{library}.{name}": getattr(math, name)
    for library in ("math", "torch", "numpy")
    for name in ("pi", "e", "inf", "nan", "tau")
}


@question(remember=False)
def spelled_number(module: Module, node: cst.CSTNode | None) -> float | None:
    """Return the number that an expression spells: a literal, ``-math.pi``, ``float("inf")``; a NaN
    for a text that is none."""
    match node:
        case cst.Integer() | cst.Float():
            try:
                return float(node.evaluated_value)
            except OverflowError:
                return math.inf
        case cst.Name("True" | "False"):
            return float(node.value == "True")
        case cst.UnaryOperation(cst.Minus(), inner):
            number = spelled_number(module, inner)
            return None if number is None else -number
        case cst.Call(func, [cst.Arg(keyword=None, star="", value=inner)]) if (
            module.name(func) == "builtins.float"
        ):
            if not isinstance(inner, cst.SimpleString):
                return spelled_number(module, inner)
            try:
                return float(str(inner.evaluated_value))
            except ValueError:
                return math.nan
        case cst.Attribute() | cst.Name():
            return _CONSTANTS.get(module.name(node) or "")
    return None
