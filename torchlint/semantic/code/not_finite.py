"""Tests that only a NaN or an infinity fulfils, and what runs by them."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import certain, conditions
from torchlint.semantic.code.flags import truth
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.tree import last_name
from torchlint.semantic.module import Module

_NOT_FINITE = regex(
    r"^_*((is|has|have|any|found|got|saw)_?)?(nans?|infs?|nan_?or_?inf|non_?finite|not_finite)(_(found|seen|detected))?$"
)
_FINITE = regex(r"^_*((is|all|are)_?)?finite$")


class NotFinite:
    """Says of the tests in one file whether only a NaN or an infinity fulfils them."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.flow = flow(module)
        self.conditions = conditions(module)
        self._asked: set[cst.CSTNode] = set()

    def says(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a test is fulfilled only by a NaN or an infinity: ``not isfinite(loss)``,
        ``loss.isnan()``."""
        match test:
            case cst.Call(cst.Attribute(inner, cst.Name("item" | "any" | "all")), []):
                return certain(inner, needed, self.says)
            case cst.Call(func, [cst.Arg(inner)]) if last_name(func) in (
                "any",
                "all",
            ):
                return certain(inner, needed, self.says)
            case cst.Call(func):
                named = last_name(func) in (("isnan", "isinf") if needed else ("isfinite",))
                return named or self._says_unfinite(test, needed)
            case cst.Name() | cst.Attribute():
                name = last_part(test)
                made = self.flow.names.sole_definition(test) if isinstance(test, cst.Name) else None
                return bool((_NOT_FINITE if needed else _FINITE).search(name)) or (
                    isinstance(made, cst.Call) and self.says(made, needed)
                )
        return False

    def _says_unfinite(self, call: cst.Call, needed: bool) -> bool:
        """Say whether what a call returns is true (or false, as needed) only of a NaN or an
        infinity, by the functions of this file that it runs."""
        functions = [each for each in self.flow.callees(call) if each not in self._asked]
        self._asked.update(functions)
        try:
            return bool(functions) and all(
                isinstance(each, cst.FunctionDef) and self._returns_unfinite(each, needed)
                for each in functions
            )
        finally:
            self._asked.difference_update(functions)

    def _returns_unfinite(self, function: cst.FunctionDef, needed: bool) -> bool:
        returns = list(self.tree.within(function, cst.Return))
        if not needed and self.conditions.last_of(function.body) is not cst.Return:
            return False
        wanted = [each for each in returns if truth(each.value) is not (not needed)]
        return bool(wanted) and all(
            self.runs_unfinite(each, function)
            or (each.value is not None and certain(each.value, needed, self.says))
            for each in wanted
        )

    def runs_unfinite(self, node: cst.CSTNode, until: cst.CSTNode | None) -> bool:
        """Say whether a node runs inside `until` only after a NaN or an infinity."""
        return self.conditions.condition(node, until, self.says) is not None
