"""Tests that are decided by constants: ``method = 2`` above ``if method == 1``, ``if False``."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.names import Names
from torchlint.semantic.code.never_none import NeverNone
from torchlint.semantic.code.reaching import Reaching
from torchlint.semantic.code.tree import FUNCTIONS

_BY_TEXT = regex(r"\b(globals|exec|vars|setattr)\(")
"""What may bind any name of a module."""
_OPERATORS: Mapping[type[cst.BaseCompOp], Callable[[Any, Any], bool]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.Is: operator.is_,
    cst.IsNot: operator.is_not,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
    cst.In: lambda left, right: left in right,
    cst.NotIn: lambda left, right: left not in right,
}
_CONSTANTS = {"True": True, "False": False, "None": None}
UNKNOWN = object()


class Decided:
    """Says of tests whether constants decide them."""

    def __init__(self, text: str, names: Names, reaching: Reaching) -> None:
        self.text = text
        self.names = names
        self.reaching = reaching
        self._never_none = NeverNone(reaching)

    def truth(self, test: cst.BaseExpression) -> bool | None:
        """Return the truth that a test has each time, by what is written out and by names that
        hold nothing else; None where that is not known."""
        match test:
            case cst.UnaryOperation(cst.Not(), inner):
                known = self.truth(inner)
                return None if known is None else not known
            case cst.BooleanOperation(left, joined, right):
                sides = {self.truth(left), self.truth(right)}
                ends = isinstance(joined, cst.Or)
                return ends if ends in sides else None if None in sides else not ends
            case cst.Comparison(
                cst.Name() as name,
                [cst.ComparisonTarget(cst.Is() | cst.IsNot() as compares, cst.Name("None"))],
            ) if self._never_none.name(name):
                return isinstance(compares, cst.IsNot)
            case cst.Comparison(left, [cst.ComparisonTarget() as compared]):
                values = self.value(left), self.value(compared.comparator)
                if UNKNOWN in values:
                    return None
                try:
                    return _OPERATORS[type(compared.operator)](*values)
                except TypeError:
                    return None
        value = self.value(test)
        return None if value is UNKNOWN else bool(value)

    def value(self, node: cst.BaseExpression | None) -> object:
        """Return the number, text or other constant that an expression is; `UNKNOWN` for others,
        and for what may be changed."""
        match node:
            case cst.Integer() | cst.Float() | cst.SimpleString():
                return node.evaluated_value
            case cst.Name("True" | "False" | "None" as word):
                return _CONSTANTS[word]
            case cst.UnaryOperation(cst.Minus(), cst.BaseNumber() as number):
                value = self.value(number)
                return -value if isinstance(value, (int, float)) else UNKNOWN
            case cst.Tuple(elements) | cst.List(elements):
                values = tuple(self.value(each.value) for each in elements)
                return UNKNOWN if UNKNOWN in values else values
            case cst.Name():
                return self._constant_of(node)
        return UNKNOWN

    def _constant_of(self, name: cst.Name) -> object:
        """Return the one constant that a name may hold where it is read."""
        scope, bindings = self.names.bindings(name.value, name)
        if (
            not isinstance(scope, (*FUNCTIONS, cst.Module))
            or any(each.kind != "assign" or not _is_plain(each.value) for each in bindings)
            or any(name.value in outer for outer in self.names.outer.values())
        ):
            return UNKNOWN
        found = self.reaching.definitions(name)
        values = [self.value(getattr(each, "value", None)) for each in found]
        first = values[0] if values else UNKNOWN
        same = all(type(each) is type(first) and each == first for each in values)
        return first if same and not self._set_elsewhere(scope, name.value) else UNKNOWN

    @functools.cached_property
    def _is_bound_by_text(self) -> bool:
        return _BY_TEXT.search(self.text) is not None

    def _set_elsewhere(self, scope: cst.CSTNode, name: str) -> bool:
        """Say whether a name of the module may get another value from other code."""
        outside = self.names.outside
        return isinstance(scope, cst.Module) and (
            self._is_bound_by_text
            or outside.others_say(functools.partial(_sets, name)) is not False
        )


class Given(Decided):
    """Says of tests in a function whether the constants that one call gives it decide them.

    Args:
        decided: what decides tests of the function's file.
        values: the values of parameters that the function leaves as they are.
    """

    def __init__(self, decided: Decided, values: Mapping[str, object]) -> None:
        super().__init__(decided.text, decided.names, decided.reaching)
        self._given = values

    def _constant_of(self, name: cst.Name) -> object:
        given = self._given.get(name.value, UNKNOWN)
        return super()._constant_of(name) if given is UNKNOWN else given


def _is_plain(value: cst.BaseExpression | None) -> bool:
    """Say whether a value cannot be changed in place."""
    return not isinstance(value, (cst.List, cst.NamedExpr))


def _sets(name: str, text: str) -> bool:
    return name in text and re.search(rf"\.{name}\s*=(?!=)|['\"]{name}['\"]", text) is not None
