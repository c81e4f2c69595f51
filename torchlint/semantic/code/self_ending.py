"""Branches that end what their own test found, so that the next pass does not come to them:
``if first: first = False``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.semantic.code.conditions import Condition
from torchlint.semantic.code.demands import flags_of
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.intervals import FEW_DIGITS, is_counter
from torchlint.semantic.code.memos import differs_by_iteration, lacking, stores
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import LOOPS, components, receiver
from torchlint.semantic.module import Module


class SelfEnding:
    """Says of the branches of one file whether they end what their test found."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.names = module.names
        self.flow = flow(module)

    def ends(self, condition: Condition, until: cst.CSTNode | None) -> bool:
        """Say whether a branch turns over its own flag, ``if first: first = False; ...``, sets back
        what it compares, also behind ``if step - last < 100: return``, or has a method build what
        is missing, or undo what the test finds."""
        flags = dict(flags_of(condition.test, condition.needed))
        return (
            any(self._flips(line, flags) for line in condition.branch)
            or self._undone(condition, flags)
            or self._sets_back(condition, until)
            or self._rebuilds(condition)
            or self._fills(condition, until)
        )

    def _flips(self, line: cst.CSTNode, flags: dict[str, bool]) -> bool:
        """Say whether a line gives one of the flags the truth value that it was not tested for."""
        for bound in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match bound:
                case cst.Assign(
                    [cst.AssignTarget(target)],
                    cst.Name("True" | "False" as word),
                ):
                    needed = flags.get(dotted_text(target) or "")
                    if needed is not None and needed is not (word == "True"):
                        return True
        return False

    def _undone(self, condition: Condition, flags: dict[str, bool]) -> bool:
        """Say whether a branch has a method of the same object end the state that the test finds,
        and its function does not begin it again: ``if self.merged: self.unmerge()``."""
        own = {flag: needed for flag, needed in flags.items() if flag.startswith("self.")}
        home = self.tree.function(condition.test)
        if not own or home is None:
            return False
        begun = {flag: not needed for flag, needed in own.items()}
        return not any(
            self._flips(line, begun) for line in self.tree.within(home, cst.SimpleStatementLine)
        ) and any(
            self._flips(line, own) or self._empties(line, own)
            for call in _method_calls(condition.branch)
            for callee in self.flow.callees(call)
            for line in self.tree.within(callee, cst.SimpleStatementLine)
        )

    def _empties(self, line: cst.CSTNode, flags: dict[str, bool]) -> bool:
        """Say whether a line takes out of the list that is named after a flag which is true as long
        as the list holds something: ``self.merged``, ``self.merged_adapters.pop()``."""
        for call in self.tree.within(line, cst.Call):
            match call:
                case cst.Call(cst.Attribute(holder, cst.Name("pop" | "clear"))):
                    name = dotted_text(holder) or ""
                    if any(needed and name.startswith(flag) for flag, needed in flags.items()):
                        return True
        return False

    def _fills(self, condition: Condition, until: cst.CSTNode | None) -> bool:
        """Say whether a branch puts into a table, which outlives a pass, what the test finds
        missing there: ``if device not in table: table[device] = …``."""
        return any(
            any(stores(self.tree, line, table, key) for line in condition.branch)
            and self._outlives(table, until or self.tree.function(table))
            and not is_counter(key)
            and not differs_by_iteration(self.tree, self.names, key)
            for table, key in lacking(self.names, condition.test, condition.needed)
        )

    def _outlives(self, table: cst.BaseExpression, home: cst.CSTNode | None) -> bool:
        """Say whether a table is there for later passes of a loop, or calls of a function, as
        nothing in it makes the table."""
        text = dotted_text(table)
        if home is None or text is None:
            return False
        if isinstance(home, cst.FunctionDef) and not text.startswith(("self.", "cls.")):
            root = next(self.tree.within(table, cst.Name))
            scope, _ = self.names.bindings(root.value, root)
            if not isinstance(scope, cst.Module):
                return False
        return not any(
            dotted_text(each.target) == text for each in self.tree.within(home, cst.AssignTarget)
        )

    def _rebuilds(self, condition: Condition) -> bool:
        """Say whether a branch has a method of the same object build what the test finds missing or
        too small, and nothing drops it: ``if self.n is None or n > self.n: self.build(n)``."""
        kept = set(_kept_places(condition.test)) if condition.needed else {None}
        calls = _method_calls(condition.branch)
        builders = [callee for call in calls for callee in self.flow.callees(call)]
        if None in kept or not builders:
            return False
        sets = {
            (self.tree.function(each), text)
            for each in self.tree.nodes(cst.AssignTarget)
            if (text := dotted_text(each.target)) in kept
        }
        made = {builder for builder in builders if all((builder, text) in sets for text in kept)}
        return (
            bool(made)
            and all(
                home in builders
                or (isinstance(home, cst.FunctionDef) and home.name.value == "__init__")
                for home, _ in sets
            )
            and not any(map(self._counts_on, kept))
        )

    def _counts_on(self, place: str | None) -> bool:
        """Say whether a place is changed from what it held: a counter, which no test finds
        missing."""
        return any(
            dotted_text(each.target) == place for each in self.tree.nodes(cst.AugAssign)
        ) or any(
            dotted_text(target.target) == place
            and any(
                dotted_text(part) == place
                for part in self.tree.within(each.value, cst.Attribute, cst.Name)
            )
            for each in self.tree.nodes(cst.Assign)
            for target in each.targets
        )

    def _sets_back(self, condition: Condition, until: cst.CSTNode | None) -> bool:
        """Say whether a branch gives a place that its own test compares a new value, and that
        value lasts into the next pass: ``if done - told > 500: told = done``."""
        for comparison in self._compared(condition.test, condition.needed):
            sides = [comparison.left, comparison.comparisons[0].comparator]
            greater = self._is_greater(comparison, condition.needed)
            for index, side in enumerate(sides):
                for place, sign in self._places(side, 1 if index == 0 else -1):
                    moved = any(
                        self._moves(line, place, None if greater is None else greater == (sign > 0))
                        for line in condition.branch
                    )
                    if (
                        moved
                        and self._lasts(place, condition.branch, until)
                        and not self._counted_up(comparison, place, condition.branch, until)
                    ):
                        return True
        return False

    def _counted_up(
        self,
        comparison: cst.Comparison,
        place: cst.BaseExpression,
        branch: Sequence[cst.CSTNode],
        until: cst.CSTNode | None,
    ) -> bool:
        """Say whether a branch counts up to (or down to) what stays as it is, a budget of more than
        a few passes: it runs in each of them. Only where the other side moves on the branch waits
        for it."""
        counts = any(
            each.target.deep_equals(place)
            for line in branch
            for each in self.tree.within(line, cst.AugAssign)
        )
        loop = next((n for n in self.tree.ancestors(branch[0]) if isinstance(n, LOOPS)), until)
        if not counts or loop is None or self.tree.contains(comparison, cst.Call):
            return False
        sides = (comparison.left, comparison.comparisons[0].comparator)
        few = any(
            isinstance(side, cst.Integer) and 0 < side.evaluated_value < 10**FEW_DIGITS
            for side in sides
        )
        return not few and not any(
            self._goes_on(other, loop)
            for side in sides
            for other, _ in self._places(side, 1)
            if not other.deep_equals(place)
        )

    def _goes_on(self, place: cst.BaseExpression, loop: cst.CSTNode) -> bool:
        """Say whether a name gets values in a loop, or an attribute outside of ``__init__``; one of
        ``self`` that the file never sets may be another file's counter."""
        if isinstance(place, cst.Name):
            return bool(self.flow.writes(loop, place.value))
        sets = [
            each
            for each in self.tree.nodes(cst.AssignTarget, cst.AugAssign)
            if isinstance(each, (cst.AssignTarget, cst.AugAssign))
            and self.tree.spelled(each.target, place)
        ]
        homes = (self.tree.function(each) for each in sets)
        own = (dotted_text(place) or "").rpartition(".")[0] == "self"
        return any(home is None or home.name.value != "__init__" for home in homes) or (
            own and not sets
        )

    def _compared(self, test: cst.BaseExpression, needed: bool) -> Iterator[cst.Comparison]:
        """Yield the comparisons that all have to be true (or false) for a test to be what is
        needed."""
        match test:
            case cst.BooleanOperation(left, operator, right):
                if isinstance(operator, cst.And if needed else cst.Or):
                    yield from self._compared(left, needed)
                    yield from self._compared(right, needed)
            case cst.Comparison(comparisons=[_]):
                yield test

    def _is_greater(self, comparison: cst.Comparison, needed: bool) -> bool | None:
        """Say whether a comparison wants its left side to be the greater one."""
        operator = comparison.comparisons[0].operator
        if isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual)):
            return needed
        return not needed if isinstance(operator, (cst.LessThan, cst.LessThanEqual)) else None

    def _places(
        self, node: cst.CSTNode, sign: int, depth: int = 1
    ) -> Iterator[tuple[cst.BaseExpression, int]]:
        """Yield the places that a side of a comparison adds up, each with its sign; for a name that
        was read from an attribute also that."""
        match node:
            case cst.BinaryOperation(left, cst.Add() | cst.Subtract() as operator):
                yield from self._places(left, sign)
                other = -sign if isinstance(operator, cst.Subtract) else sign
                yield from self._places(node.right, other)
            case cst.Attribute() | cst.Subscript():
                yield node, sign
            case cst.Name():
                yield node, sign
                for value in self._read_from(node) if depth else ():
                    yield from self._places(value, sign, depth - 1)

    def _read_from(self, name: cst.Name) -> Iterator[cst.CSTNode]:
        """Yield the attributes of ``self`` from which a name got its number before it is tested."""
        _, bindings = self.names.bindings(name.value, name)
        for binding in bindings:
            value = binding.value if binding.kind == "assign" else None
            if value is None or self.tree.order[value] > self.tree.order[name]:
                continue
            value = receiver(value)
            if isinstance(value, (cst.Attribute, cst.Subscript)):
                yield value

    def _moves(self, line: cst.CSTNode, place: cst.CSTNode, high: bool | None) -> bool:
        """Say whether a line gives a place another value, one that can make the test false: where
        it has to be `high`, a lower one."""
        for bound in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match bound:
                case cst.Assign([cst.AssignTarget(cst.Tuple(targets))], value):
                    if any(each.value.deep_equals(place) for each in targets):
                        return not self.tree.spelled(value, place)
                case cst.Assign([cst.AssignTarget(target)], value):
                    if target.deep_equals(place):
                        return not self.tree.spelled(value, place)
                case cst.AugAssign(target, cst.AddAssign() | cst.SubtractAssign() as step) if (
                    target.deep_equals(place)
                ):
                    return high is not None and isinstance(step, cst.SubtractAssign) == high
        return False

    def _lasts(
        self, place: cst.CSTNode, branch: Sequence[cst.CSTNode], until: cst.CSTNode | None
    ) -> bool:
        """Say whether what a branch assigns to a place is there in the next pass: nothing in a pass
        sets it but this branch, and it is no local name of a function that is called anew."""
        loop = next((n for n in self.tree.ancestors(branch[0]) if isinstance(n, LOOPS)), None)
        if loop is None or until is None or not self.tree.is_within(loop, until):
            loop = None
        if isinstance(place, cst.Name) and loop is None:
            scope, _ = self.names.bindings(place.value, place)
            if not (isinstance(scope, cst.Module) and isinstance(until, cst.FunctionDef)):
                return False
        if isinstance(loop, cst.For) and self.tree.spelled(loop.target, place):
            return False
        whole = loop if loop is not None else until
        return whole is not None and not any(
            self.tree.spelled(write, place)
            for write in self.tree.within(whole, cst.AssignTarget)
            if not any(self.tree.is_within(write, line) for line in branch)
        )


def _method_calls(branch: Sequence[cst.CSTNode]) -> list[cst.Call]:
    """Return the calls that are lines of a branch by themselves."""
    return [
        line.body[0].value
        for line in branch
        if type(line) is cst.SimpleStatementLine
        and type(line.body[0]) is cst.Expr
        and isinstance(line.body[0].value, cst.Call)
    ]


def _kept_places(test: cst.BaseExpression) -> Iterator[str | None]:
    """Yield of each alternative of a test the attribute of ``self`` that it finds to be None, or
    less than something; None for what asks anything else."""
    for part in components(test, cst.Or):
        match part:
            case (
                cst.Comparison(
                    place,
                    [
                        cst.ComparisonTarget(cst.Is(), cst.Name("None"))
                        | cst.ComparisonTarget(cst.LessThan() | cst.LessThanEqual())
                    ],
                )
                | cst.Comparison(
                    comparisons=[
                        cst.ComparisonTarget(cst.GreaterThan() | cst.GreaterThanEqual(), place)
                    ]
                )
            ):
                text = dotted_text(place) or ""
                yield text if text.startswith("self.") else None
            case _:
                yield None
