"""Conditions that decide how often a line runs: intervals, last batches, elapsed time, debug
flags."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.tree import FUNCTIONS, OPEN, Open, Tree
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_COUNTER = re.compile(
    r"(^|_)(i|j|it|iter(ation)?s?|itr|step|steps|global_?step|batch(_?(idx|i|id|num|index))?|idx|epoch|epochs|n_?iter|ni|"
    r"cur_?iter|counter|count|num_updates|update_?num|trial|nb|ibatch|bidx|current_step"
    r"|epoch_?(idx|num))$",
    re.IGNORECASE,
)
_INTERVAL_NAME = re.compile(
    r"(should|need|want|time_to|ready)_|(^|_)do_?(log|print|eval|save|report|plot|vis)"
    r"|is_?(last|first|final|log|print|eval|save)|"
    r"(last|first|final)_?(batch|step|iter|epoch)"
    r"|(log|print|eval|save|report)_(now|step|this|due)|every|periodic|"
    r"_?(stop|early_stop(ping)?|best|improved|new_best)$",
    re.IGNORECASE,
)
_DEBUG_NAME = re.compile(
    r"(^|[._])(debug\w*|__debug__|dry_run|sanity\w*|profile\w*|benchmark\w*)$", re.IGNORECASE
)
_ELAPSED = frozenset(("time.time", "time.perf_counter", "time.monotonic", "datetime.datetime.now"))


class Guards:
    """Questions about the conditions around a node."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self.tree = tree
        self.names = names
        self._error_paths: dict[cst.CSTNode, bool] = {}
        self._leaving: dict[cst.CSTNode, list[cst.If]] = {}
        self._rarity: dict[tuple[cst.CSTNode, bool], bool] = {}

    def tests(
        self, node: cst.CSTNode, until: cst.CSTNode | None
    ) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """Yield each condition that decides whether `node` runs inside `until`, with the truth it
        needs.

        Counts ``if`` and conditional expressions around it, ``and`` operands before it, and earlier
        ``if test: continue`` (or break, return, raise) in the same blocks, whose truth needed is
        False.
        """
        child = node
        for above in self.tree.ancestors(node):
            if (isinstance(above, cst.If) and child is not above.test) or (
                isinstance(above, cst.IfExp) and child is not above.test
            ):
                yield above.test, child is above.body
            elif (
                isinstance(above, cst.BooleanOperation)
                and isinstance(above.operator, cst.And)
                and child is above.right
            ):
                yield above.left, True
            elif isinstance(above, (cst.IndentedBlock, cst.Module)):
                yield from self._exits(above, child)
            if above is until or (until is None and isinstance(above, FUNCTIONS)):
                return
            child = above

    def _exits(
        self, block: cst.IndentedBlock | cst.Module, child: cst.CSTNode
    ) -> Iterator[tuple[cst.BaseExpression, bool]]:
        if block not in self._leaving:
            self._leaving[block] = [
                each
                for each in block.body
                if isinstance(each, cst.If) and each.orelse is None and self.leaves(each.body)
            ]
        order = self.tree.order
        for statement in self._leaving[block]:
            if order[statement] >= order[child]:
                return
            yield statement.test, False

    def leaves(self, suite: cst.BaseSuite) -> bool:
        """Say whether a block always ends in continue, break, return or raise."""
        last: cst.CSTNode | None = suite.body[-1] if suite.body else None
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        return isinstance(last, (cst.Continue, cst.Break, cst.Return, cst.Raise))

    def error_path(self, node: cst.CSTNode) -> bool:
        """Say whether `node` runs only on the way to an exception, or after one.

        That is in a ``raise``, the message of an ``assert``, an ``except`` block, or a block that
        ends in ``raise``.
        """
        return self.tree.climbed(node, self._error_paths, self._leads_to_exception)

    def _leads_to_exception(self, node: cst.CSTNode, above: cst.CSTNode | None) -> bool | Open:
        """Say whether the node above makes another run on an error path alone."""
        if above is None or isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (cst.Raise, cst.ExceptHandler)):
            return True
        if isinstance(above, cst.Assert) and node is above.msg:
            return True
        if isinstance(above, (cst.If, cst.Else)) and node is above.body:
            return True if self._raises(above.body) else OPEN
        return OPEN

    def _raises(self, suite: cst.BaseSuite) -> bool:
        last: cst.CSTNode | None = suite.body[-1] if suite.body else None
        return isinstance(
            last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last, cst.Raise
        )

    def throttled(self, node: cst.CSTNode, until: cst.CSTNode | None) -> bool:
        """Say whether a condition between `node` and `until` makes it run only now and then.

        A step counter tested with ``%``, equality or membership, elapsed time, "last batch", a
        number that is not finite, and a flag that the branch itself turns over throttle. ``rank ==
        0``, ``interval > 0`` and ``verbose`` do not.
        """
        return self.throttle(node, until) is not None

    def throttle(self, node: cst.CSTNode, until: cst.CSTNode | None) -> cst.BaseExpression | None:
        """Return the condition that makes `node` run only now and then inside `until`, see
        `throttled`; else None."""
        rare = next(
            (test for test, needed in self.tests(node, until) if self._rare(test, needed)), None
        )
        return rare if rare is not None else self._once(node, until)

    def _rare(self, test: cst.BaseExpression, needed: bool) -> bool:
        key = (test, needed)
        if key not in self._rarity:
            self._rarity[key] = (
                self.is_interval(test) or self.is_debug(test) or self._not_finite(test, needed)
            )
        return self._rarity[key]

    def _not_finite(self, test: cst.CSTNode, needed: bool) -> bool:
        """Say whether a test is fulfilled only by a NaN or an infinity: ``not isfinite(loss)``,
        ``loss.isnan()``."""
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return self._not_finite(inner, not needed)
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                every, some = (cst.Or, cst.And) if needed else (cst.And, cst.Or)
                sides = (self._not_finite(left, needed), self._not_finite(right, needed))
                return (isinstance(operator, every) and all(sides)) or (
                    isinstance(operator, some) and any(sides)
                )
            case cst.Call(
                func=cst.Attribute(value=inner, attr=cst.Name("item" | "any" | "all")), args=[]
            ):
                return self._not_finite(inner, needed)
            case cst.Call(func=func, args=[cst.Arg(value=inner)]) if _last_name(func) in (
                "any",
                "all",
            ):
                return self._not_finite(inner, needed)
            case cst.Call(func=func):
                return _last_name(func) in (("isnan", "isinf") if needed else ("isfinite",))
        return False

    def _once(self, node: cst.CSTNode, until: cst.CSTNode | None) -> cst.BaseExpression | None:
        """Return the test of a branch around `node` that turns over its own flag: ``if first: first
        = False; ...``."""
        child = node
        for above in self.tree.ancestors(node):
            if isinstance(above, cst.If) and child is above.body:
                flags = dict(self._flags(above.test, True))
                if any(self._turns(line, flags) for line in above.body.body):
                    return above.test
            if above is until or (until is None and isinstance(above, FUNCTIONS)):
                return None
            child = above
        return None

    def _flags(self, test: cst.BaseExpression, needed: bool) -> Iterator[tuple[str, bool]]:
        """Yield the names that a test demands to be true or false."""
        match test:
            case cst.BooleanOperation(operator=cst.And()) if needed:
                yield from self._flags(test.left, needed)
                yield from self._flags(test.right, needed)
            case cst.UnaryOperation(operator=cst.Not()):
                yield from self._flags(test.expression, not needed)
            case cst.Name() | cst.Attribute():
                text = dotted_text(test)
                if text is not None:
                    yield text, needed

    def _turns(self, line: cst.CSTNode, flags: dict[str, bool]) -> bool:
        """Say whether a line gives one of the flags the truth value that it was not tested for."""
        for bound in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match bound:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=target)],
                    value=cst.Name(value="True" | "False" as word),
                ):
                    needed = flags.get(dotted_text(target) or "")
                    if needed is not None and needed is not (word == "True"):
                        return True
        return False

    def is_interval(self, test: cst.CSTNode) -> bool:
        """Say whether a test is true only for some steps."""
        if isinstance(test, cst.BooleanOperation):
            return self.is_interval(test.left) or self.is_interval(test.right)
        if isinstance(test, cst.UnaryOperation):
            return self.is_interval(test.expression)
        for each in self.tree.within(test, cst.BinaryOperation):
            literal = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)
            if isinstance(each.operator, cst.Modulo) and not isinstance(each.left, literal):
                return True
        if any(self.names.name(call.func) in _ELAPSED for call in self.tree.within(test, cst.Call)):
            return True
        if isinstance(test, cst.Comparison):
            return self._counter_comparison(test)
        if isinstance(test, cst.Call):
            return bool(_INTERVAL_NAME.search((dotted_text(test.func) or "").rpartition(".")[2]))
        text = dotted_text(test)
        return text is not None and bool(_INTERVAL_NAME.search(text.rpartition(".")[2]))

    def _counter_comparison(self, test: cst.Comparison) -> bool:
        operators = tuple(type(c.operator) for c in test.comparisons)
        sides = [test.left, *(c.comparator for c in test.comparisons)]
        if not any(self._is_counter(side) for side in sides):
            return False
        if any(op in (cst.Equal, cst.In) for op in operators):
            return True
        # ``step < 10``: only the first steps; ``step > 10`` is most of them.
        return (
            operators == (cst.LessThan,)
            and self._is_counter(test.left)
            and isinstance(sides[1], cst.Integer)
        )

    def _is_counter(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BinaryOperation):
            return self._is_counter(node.left) or self._is_counter(node.right)
        text = dotted_text(node)
        return text is not None and bool(_COUNTER.search(text.rpartition(".")[2]))

    def is_debug(self, test: cst.CSTNode) -> bool:
        """Say whether a test reads a debug or profiling flag."""
        if isinstance(test, cst.BooleanOperation):
            return self.is_debug(test.left) or self.is_debug(test.right)
        return bool(_DEBUG_NAME.search(dotted_text(test) or ""))


def _last_name(func: cst.BaseExpression) -> str:
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


@question(ground=True)
def guards(module: Module) -> Guards:
    """Return the conditions of a file."""
    return Guards(module.tree, module.names)


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


@question(yes="it depends on `{answer}`", no="no condition stands around it", ground=True)
def conditions_around(
    module: Module, node: cst.CSTNode, until: cst.CSTNode | None = None
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield the conditions on which `node` runs inside `until`, with the truth each needs."""
    return guards(module).tests(node, until)


@question(
    yes="it only runs on the way to an exception (a raise, an assert's message, an except block)",
    no="it is not on the way to an exception",
    ground=True,
)
def on_error_path(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` runs only on the way to an exception: in a raise, an assert's message, a
    handler."""
    return guards(module).error_path(node)


@question(
    yes="`{0}` is true only for some steps", no="`{0}` does not select some steps", ground=True
)
def is_interval(module: Module, test: cst.CSTNode) -> bool:
    """Say whether a test is true only for some steps."""
    return guards(module).is_interval(test)


@question(yes="`{0}` reads a debug flag", no="`{0}` reads no debug flag", ground=True)
def is_debug(module: Module, test: cst.CSTNode) -> bool:
    """Say whether a test reads a debug flag."""
    return guards(module).is_debug(test)


@question(
    yes="the block always leaves the loop or function",
    no="the block does not always leave",
    ground=True,
    remember=False,
)
def leaves(module: Module, suite: cst.BaseSuite) -> bool:
    """Say whether a block ends in continue, break, return or raise."""
    return guards(module).leaves(suite)
