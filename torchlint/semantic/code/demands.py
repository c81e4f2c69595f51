"""What the tests around a node demand of parameters: of its function, and of its callers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.semantic.code.conditions import conditions
from torchlint.semantic.code.flags import Flags
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import parameters_of
from torchlint.semantic.module import Module

Demands = frozenset[tuple[str, bool | str | None]]
"""By the names of parameters of a function, the truth that they have to have, or the text that they
have to be or to hold, or None, which they have to be."""
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
        demands: list[tuple[str, bool | str | None]] = []
        for test, needed in self.conditions.tests(node, function):
            demands += flags_of(test, needed)
            demands += self._texts(test, needed)
            demands += self._left_out(test, needed)
        return self._of_parameters(function, demands)

    def spared_calls(self, function: cst.FunctionDef, demands: Demands) -> frozenset[cst.Call]:
        """Return the calls of a function in the file that give one of its parameters what is
        demanded of it only now and then."""
        return frozenset(self.flags.spared(function, demands)) if demands else frozenset()

    def handed_on(self, call: cst.Call, function: cst.FunctionDef, demands: Demands) -> Demands:
        """Return what a call of a function, of whose parameters something is demanded, demands of
        those of its own function, which it hands on."""
        caller = self.tree.function(call) if demands else None
        if not isinstance(caller, cst.FunctionDef):
            return NO_DEMANDS
        handed: list[tuple[str, bool | str]] = []
        for value, needed in self.flags.handed(call, function, demands):
            if isinstance(needed, bool):
                handed += flags_of(value, needed)
            elif isinstance(value, cst.Name) and needed is not None:
                handed.append((value.value, needed))
        return self._of_parameters(caller, handed)

    def _of_parameters(
        self, function: cst.FunctionDef, flags: Iterable[tuple[str, bool | str | None]]
    ) -> Demands:
        """Return the flags that are parameters of a function, which gives them no other value
        before."""
        params = parameters_of(function)
        names = {param.name.value for param in params}
        return frozenset(
            (name, needed)
            for name, needed in flags
            if name in names
            and (needed is None or len(self.names.bindings(name, function.body)[1]) == 1)
        )

    def _left_out(self, test: cst.BaseExpression, needed: bool) -> Iterator[tuple[str, None]]:
        """Yield the name that a test demands to be None, where nothing binds it before."""
        match test:
            case cst.Comparison(
                cst.Name(name) as read,
                [cst.ComparisonTarget(cst.Is() | cst.IsNot() as asked, cst.Name("None"))],
            ) if needed is isinstance(asked, cst.Is):
                order, (_, bindings) = self.tree.order, self.names.bindings(name, read)
                if all(order[each.node] > order[read] for each in bindings[1:]):
                    yield name, None

    def _texts(self, test: cst.BaseExpression, needed: bool) -> Iterator[tuple[str, str]]:
        """Yield the names that a test demands to be a text, or to hold it: ``mode == "x"``, ``"x"
        in wanted``, and ``name == "x"`` in a loop over them."""
        if not needed:
            return
        match test:
            case cst.BooleanOperation(left, cst.And(), right):
                yield from self._texts(left, needed)
                yield from self._texts(right, needed)
            case cst.Comparison(
                cst.SimpleString() as text,
                [cst.ComparisonTarget(cst.In(), cst.Name(name))],
            ):
                yield name, str(text.raw_value)
            case cst.Comparison(
                cst.Name(name),
                [cst.ComparisonTarget(cst.Equal(), cst.SimpleString() as text)],
            ):
                yield name, str(text.raw_value)
                for above in self.tree.ancestors(test):
                    match above:
                        case cst.For(cst.Name(each), cst.Name(wanted)):
                            if each == name:
                                yield wanted, str(text.raw_value)


def flags_of(test: cst.BaseExpression, needed: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names that a test demands to be true or false."""
    match test:
        case cst.BooleanOperation(operator=cst.And()) if needed:
            yield from flags_of(test.left, needed)
            yield from flags_of(test.right, needed)
        case cst.UnaryOperation(cst.Not()):
            yield from flags_of(test.expression, not needed)
        case cst.Comparison(
            left,
            [
                cst.ComparisonTarget(
                    cst.Is() | cst.Equal(),
                    cst.Name("True" | "False" as word),
                )
            ],
        ) if needed:
            yield from flags_of(left, word == "True")
        case cst.Name() | cst.Attribute():
            text = dotted_text(test)
            if text is not None:
                yield text, needed
