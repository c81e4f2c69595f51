"""Conditions by which a node runs only now and then: intervals, last batches, elapsed time, debug
flags."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.semantic.code.conditions import certain, conditions
from torchlint.semantic.code.debug_flags import check_left_off, reads_debug_flag
from torchlint.semantic.code.demands import ParameterDemands
from torchlint.semantic.code.fallbacks import nothing_to_compute
from torchlint.semantic.code.flags import Flag, Flags, truth
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.intervals import FEW_DIGITS, intervals
from torchlint.semantic.code.not_finite import NotFinite
from torchlint.semantic.code.off_the_gpu import OffTheGpu
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.self_ending import SelfEnding
from torchlint.semantic.code.tree import Function, is_name
from torchlint.semantic.code.unreached import unreached_code
from torchlint.semantic.code.updates import updates
from torchlint.semantic.code.warned import only_warns
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_DRAWS = frozenset(
    """random.random numpy.random.rand numpy.random.random numpy.random.random_sample
    torch.rand""".split()
)
"""Functions that draw numbers between 0 and 1."""
_RARE = 0.2
"""The share of steps up to which a test by chance is rarely true."""


class Guards:
    """Says of the nodes of one file whether a condition makes them run only now and then."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.names = module.names
        self.flow = flow(module)
        self.scopes = scopes(module)
        self.updates = updates(module)
        self.conditions = conditions(module)
        self.intervals = intervals(module)
        self.reached = unreached_code(module)
        self.self_ending = SelfEnding(module)
        self.not_finite = NotFinite(module)
        self.off_the_gpu = OffTheGpu(module)
        self.flags = Flags(module, self.rare, self.throttled, self.not_finite.runs_unfinite)
        self.demands = ParameterDemands(module, self.flags)
        self._rarity: dict[tuple[cst.CSTNode, bool], bool] = {}
        self._asked: set[cst.CSTNode] = set()

    def throttled(self, node: cst.CSTNode, until: cst.CSTNode | None) -> bool:
        """Say whether a condition between `node` and `until` makes it run only now and then.

        A step counter tested with ``%``, equality or membership, elapsed time, "last batch", a
        number that is not finite, a flag that the branch itself turns over, and a place that the
        branch sets back from what its test compares throttle. ``rank == 0``, ``interval > 0`` and
        ``verbose`` do not, and what decides about a training step is no throttle: that is the step.
        """
        return self.throttle(node, until) is not None

    def throttle(self, node: cst.CSTNode, until: cst.CSTNode | None) -> cst.BaseExpression | None:
        """Return the condition that makes `node` run only now and then inside `until`, see
        `throttled`; else None."""
        for test, needed, branch in self.conditions.around(node, until):
            if self.rare(test, needed) and not (
                self._is_step(test, branch) or self._refuses(test, needed)
            ):
                return test
        around = list(self.conditions.around(node, until))
        for condition in around:
            if (
                self.self_ending.ends(condition, until)
                or nothing_to_compute(self.tree, self.names, condition)
                or only_warns(self.names, condition.branch)
                or self.off_the_gpu.falls_back(condition, around)
            ):
                return condition.test
        return None

    def _refuses(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether what a test does not let pass is an error, so that ordinary runs pass: ``if
        width % 8: raise ValueError``."""
        above = self.tree.parents[test]
        return not needed and isinstance(above, cst.If) and self.reached.raises(above.body)

    def _is_step(self, test: cst.BaseExpression, branch: Sequence[cst.CSTNode]) -> bool:
        """Say whether what an interval guards is the training step itself: gradients that pile up,
        a generator's step. A long interval that the code spells out is rare all the same."""
        if not self.updates.updates(branch):
            return False
        if not self.intervals.is_interval(test):
            # Whether a function that the project defines makes a test rare, by what it returns.
            return self._by_flag(test) or any(
                self._call_is_rare(call, needed)
                for call in self.tree.within(test, cst.Call)
                for needed in (True, False)
            )
        return not any(
            isinstance(each.operator, cst.Modulo)
            and isinstance(each.right, cst.Integer)
            and len(each.right.value) > FEW_DIGITS
            for each in self.tree.within(test, cst.BinaryOperation)
        )

    def rare(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a test is true (or false, as needed) only now and then."""
        key = (test, needed)
        if key not in self._rarity:
            found = (
                self._rarely_true(test, needed)
                or certain(test, needed, self.not_finite.says)
                or certain(test, needed, self.off_the_gpu.says)
            )
            if self.flags.pending or self.flags.further is not None:
                return found  # As long as a flag is being asked about, this is not the last word.
            self._rarity[key] = found
        return self._rarity[key]

    def _is_argument(self, test: cst.BaseExpression) -> bool:
        """Say whether a test is a parameter of its function."""
        if not isinstance(test, cst.Name):
            return False
        _, bindings = self.names.bindings(test.value, test)
        return any(each.kind == "param" for each in bindings)

    def _by_flag(self, test: cst.BaseExpression) -> bool:
        """Say whether a flag alone makes a test rare, by what it is bound to."""
        names = [name for name in self.tree.within(test, cst.Name) if truth(name) is None]
        return any(self.flags.rarely(name, needed) for name in names for needed in (True, False))

    def _call_is_rare(self, call: cst.Call, needed: bool) -> bool:
        """Say whether what a call returns is true (or false, as needed) only now and then, by the
        function that it runs, here or in another file; an interval given as 1 is none."""
        if any(self.intervals.is_one(arg.value) for arg in call.args):
            return False
        callees = self.flow.callees(call)
        if callees:
            return all(self.rarely_returns(each, needed) for each in callees)
        method = call.func
        cls = self.tree.class_of(call)
        outside = self.names.outside
        if isinstance(method, cst.Attribute) and is_name(method.value, "self"):
            family = self.scopes.family_outside(cls) if cls is not None else ()
            return outside.rarely_returns(family, method.attr.value, needed)
        found = outside.find(self.names.name(method))
        return found is not None and outside.rarely_returns((found,), "", needed)

    def rarely_returns(self, function: Function, needed: bool) -> bool:
        """Say whether a function returns what is true (or false, as needed) only now and then:
        ``return step % every == 0``."""
        if function in self._asked:
            return False
        self._asked.add(function)
        try:
            if isinstance(function, cst.Lambda):
                return self.rare(function.body, needed)
            returns = list(self.tree.within(function, cst.Return))
            if not needed and self.conditions.last_of(function.body) is not cst.Return:
                return False  # At its end a function returns None, which is false.
            values = [False if each.value is None else truth(each.value) for each in returns]
            return any(value is not (not needed) for value in values) and all(
                self._returns_rarely(each, value, needed)
                for each, value in zip(returns, values, strict=True)
            )
        finally:
            self._asked.discard(function)

    def _returns_rarely(self, line: cst.Return, value: bool | None, needed: bool) -> bool:
        """Say whether one ``return`` gives the other truth, or the needed one now and then."""
        if value is None:
            return line.value is not None and self.rare(line.value, needed)
        return value is not needed or self.throttled(line, None)

    def _rarely_true(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a test has a truth value only in some steps, by counters and by names.

        ``if last_step: break`` leaves nearly all steps to what follows.
        """
        match test:
            case cst.UnaryOperation(cst.Not(), inner):
                return self._rarely_true(inner, not needed)
            case cst.BooleanOperation(left, operator, right):
                rare = [side for side in (left, right) if self._rarely_true(side, needed)]
                if isinstance(operator, cst.And) is needed:
                    return bool(rare)
                # Of ``log or step % 10 == 0`` the interval is what counts, of an argument neither.
                return len(rare) == 2 or (needed and not all(map(self._is_argument, rare)))
            case cst.Call() if self._call_is_rare(test, needed):
                return True
            case cst.Comparison(
                cst.Name() as name,
                [
                    cst.ComparisonTarget(
                        cst.Is() | cst.IsNot() as operator,
                        cst.Name("None") as other,
                    )
                    | cst.ComparisonTarget(
                        cst.Equal() | cst.NotEqual() as operator,
                        cst.SimpleString() as other,
                    )
                ],
            ):
                asked = isinstance(operator, (cst.Is, cst.Equal)) is needed
                return self.flags.rarely_same(name, other, asked)
        if self.intervals.is_interval(test):
            return self.intervals.often_true(test) is not needed
        if self._by_chance(test, needed):
            return True
        if isinstance(test, cst.Name):
            known = truth(test)
            if known is not None:
                return known is not needed
            if self.flags.rarely(test, needed):
                return True
        if needed:
            return reads_debug_flag(test) or check_left_off(self.tree, self.names, test)
        return self.intervals.all_but_few(test)

    def _by_chance(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a number between 0 and 1 that is drawn at random decides, and rarely lets
        pass: ``random.random() < 0.1``."""
        match test:
            case cst.Comparison(
                drawn,
                [cst.ComparisonTarget(operator, cst.Float() as share)],
            ):
                draws = {self.names.name(c.func) for c in self.tree.within(drawn, cst.Call)}
                below = isinstance(operator, (cst.LessThan, cst.LessThanEqual))
                above = isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual))
                passes = share.evaluated_value if below is needed else 1 - share.evaluated_value
                return bool((below or above) and draws & _DRAWS) and passes <= _RARE
        return False


@question(ground=True)
def guards(module: Module) -> Guards:
    """Return what makes nodes of a file run only now and then."""
    return Guards(module)


def flag_given(module: Module, flag: Flag) -> tuple[tuple[bool, tuple[tuple[str, Flag], ...]], ...]:
    """Return of each call in this file that may be one of another file's function whether it gives
    a flag the truth that is asked about only now and then, and on which flags of this file's
    functions that rests."""
    return tuple(guards(module).flags.given_elsewhere(flag))


@question(
    yes="a condition makes it run only now and then", no="no condition makes it rare", ground=True
)
def throttled(module: Module, node: cst.CSTNode, until: cst.CSTNode | None = None) -> bool:
    """Say whether a condition makes `node` run only now and then inside `until` (default: its
    function)."""
    return guards(module).throttled(node, until)


@question(ground=True)
def throttle(
    module: Module, node: cst.CSTNode, until: cst.CSTNode | None = None
) -> cst.BaseExpression | None:
    """Return the condition by which `throttled` holds, or None."""
    return guards(module).throttle(node, until)
