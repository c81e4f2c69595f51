"""What the tests around a node demand of parameters: of its function, and of its callers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.semantic.code.conditions import conditions
from torchlint.semantic.code.flags import Flags
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.module import Module

Demands = frozenset[tuple[str, bool]]
"""The truth that parameters of a function have to have, by name."""
NO_DEMANDS: Demands = frozenset()


class ParameterDemands:
    """Says what the tests in one file demand of parameters."""

    def __init__(self, module: Module, flags: Flags) -> None:
        self.tree = module.tree
        self.names = module.names
        self.conditions = conditions(module)
        self.flags = flags

    def around(self, node: cst.CSTNode, function: cst.FunctionDef) -> Demands:
        """Return what the tests around a node demand of the parameters of its function."""
        tests = self.conditions.tests(node, function)
        return self._of_parameters(
            function, (each for test, needed in tests for each in flags_of(test, needed))
        )

    def spared_calls(self, function: cst.FunctionDef, demands: Demands) -> frozenset[cst.Call]:
        """Return the calls of a function in the file that give one of its parameters what is
        demanded of it only now and then."""
        return frozenset(self.flags.spared(function, dict(demands))) if demands else frozenset()

    def handed_on(self, call: cst.Call, function: cst.FunctionDef, demands: Demands) -> Demands:
        """Return what a call of a function, of whose parameters something is demanded, demands of
        those of its own function, which it hands on."""
        caller = self.tree.function(call) if demands else None
        if not isinstance(caller, cst.FunctionDef):
            return NO_DEMANDS
        given = self.flags.handed(call, function, dict(demands))
        return self._of_parameters(
            caller, (each for value, needed in given for each in flags_of(value, needed))
        )

    def _of_parameters(
        self, function: cst.FunctionDef, flags: Iterable[tuple[str, bool]]
    ) -> Demands:
        """Return the flags that are parameters of a function, which gives them no other value."""
        params = (*function.params.params, *function.params.kwonly_params)
        names = {param.name.value for param in params}
        return frozenset(
            (name, needed)
            for name, needed in flags
            if name in names and len(self.names.bindings(name, function.body)[1]) == 1
        )


def flags_of(test: cst.BaseExpression, needed: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names that a test demands to be true or false."""
    match test:
        case cst.BooleanOperation(operator=cst.And()) if needed:
            yield from flags_of(test.left, needed)
            yield from flags_of(test.right, needed)
        case cst.UnaryOperation(operator=cst.Not()):
            yield from flags_of(test.expression, not needed)
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.Is() | cst.Equal(),
                    comparator=cst.Name("True" | "False" as word),
                )
            ],
        ) if needed:
            yield from flags_of(left, word == "True")
        case cst.Name() | cst.Attribute():
            text = dotted_text(test)
            if text is not None:
                yield text, needed
