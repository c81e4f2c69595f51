"""Conditions that decide how often a line runs: intervals, last batches, elapsed time, debug
flags."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import string
from torchlint.semantic.code.decided import Decided
from torchlint.semantic.code.fallbacks import counts_marks, differ, is_fallback
from torchlint.semantic.code.flags import Flag, Flags, truth
from torchlint.semantic.code.flow import Flow, flow
from torchlint.semantic.code.memos import differs_by_iteration, lacking, stores
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.scopes import Scopes, scopes
from torchlint.semantic.code.tree import (
    FUNCTIONS,
    LOOPS,
    OPEN,
    Function,
    Open,
    Tree,
    is_name,
    keyword_of,
    last_name,
    method_called,
)
from torchlint.semantic.code.updates import Updates, updates
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import MOVES

_COUNTER = regex(
    r"(^|_)(i|j|it|iter(ation)?s?|itr|step|steps|global_?step|batch(_?(idx|i|id|num|index))?|idx|epoch|epochs|n_?iter|ni|"
    r"cur_?iter|counter|count|num_updates|update_?num|trial|nb|ibatch|bidx|current_step"
    r"|epoch_?(idx|num))$",
    re.IGNORECASE,
)
_INTERVAL_NAME = regex(
    r"(should|need|want|time_to|ready)_|(^|_)do_?(log|print|eval|save|report|plot|vis)"
    r"|is_?(last|first|final|log|print|eval|save)|"
    r"(last|first|final)_?(batch|step|iter|epoch)"
    r"|(log|print|eval|save|report)_(now|step|this|due)|every|periodic|"
    r"(^|_|is)(stop|early_?stop(ping)?|best|improved|new_best)$",
    re.IGNORECASE,
)
_DEBUG_NAME = regex(
    r"(^|[._])(debug\w*|__debug__|dry_run|sanity\w*|profil\w*|benchmark\w*|timings?|timeit"
    r"|(measure|log|print|record|track|enable|show)_(time|times|speed|latency)|time_(it|steps?))"
    r"(_?(enabled|on|mode|active)|\.(enabled?|on|active))?$",
    re.IGNORECASE,
)
_CHECK_NAME = regex(r"[._](validat(e|ion|ing)|check|verify|assert)(_\w+)?$", re.IGNORECASE)
_NOT_FINITE = regex(
    r"^_*((is|has|have|any|found|got|saw)_?)?(nans?|infs?|nan_?or_?inf|non_?finite|not_finite)(_(found|seen|detected))?$"
)
_FINITE = regex(r"^_*((is|all|are)_?)?finite$")
_DRAWS = frozenset(
    """random.random numpy.random.rand numpy.random.random numpy.random.random_sample
    torch.rand""".split()
)
"""Functions that draw numbers between 0 and 1."""
_ENDING = frozenset(
    (
        *(cst.Raise, cst.ExceptHandler, cst.Assert, cst.If, cst.Else),
        *(cst.IfExp, cst.While, cst.BooleanOperation, cst.IndentedBlock),
    )
)
"""The nodes that may keep ordinary runs from what lies in them."""
_DECIDING = frozenset(
    (cst.If, cst.IfExp, cst.BooleanOperation, cst.IndentedBlock, cst.Module, *FUNCTIONS)
)
"""What may decide whether a node below it runs, and where its function begins."""
_RARE = 0.2
"""The share of steps up to which a test by chance is rarely true."""
_EXCEPTION = regex(
    r"(^|_|is)(dones?|terminat\w*|truncat\w*|finish\w*|ended|stop\w*|nans?|infs?|(in|un)valid\w*|bad"
    r"|over\w*|reset\w*|chang\w*|exceed\w*|outliers?|violat\w*|collid\w*|fail\w*|errors?)(_|$)",
    re.IGNORECASE,
)
"""What is marked in a few steps alone."""
_OUT_OF_MEMORY = regex(
    r"^_*((is|was|had|has|hit|got|found|saw)_)?((cuda|gpu)_)?(oom|out_of_memory)$", re.IGNORECASE
)
"""Names of what says that memory ran out."""
_ELAPSED = frozenset(("time.time", "time.perf_counter", "time.monotonic", "datetime.datetime.now"))
_DEVICE = regex(r"^((self|args?|opts?|cfg|config|hparams)\.)?\w*device(_type)?(\.type)?$")
"""The device of a program, not of a tensor."""
_APPLE = ("torch.backends.mps.is_available", "torch.mps.is_available")
_NVIDIA = ("torch.cuda.is_available",)
_EVALUATIONS = frozenset(
    "dev eval evaluate val valid validation test predict inference infer".split()
)
_TRAININGS = frozenset(("train", "training", "loss"))
"""What a parameter named ``mode`` is, as of mmengine's ``forward(inputs, data_samples, mode)``."""
_SIZES = frozenset(("numel", "nelement", "size"))
_FEW_DIGITS = 2
"""``if step > 99: break`` leaves a few steps, ``if step > 100000: break`` a training; a step every
50 rounds is a step, one every 500 is an event."""


_LEAVING = (cst.Continue, cst.Break, cst.Return, cst.Raise)
Demands = frozenset[tuple[str, bool]]
"""The truth that parameters of a function have to have, by name."""
NO_DEMANDS: Demands = frozenset()


class Condition(NamedTuple):
    """What decides whether a node runs: a test, the truth it needs, and the statements that it
    decides about."""

    test: cst.BaseExpression
    needed: bool
    branch: Sequence[cst.CSTNode]


class Guards:
    """Questions about the conditions around a node."""

    def __init__(
        self, text: str, tree: Tree, names: Names, scopes: Scopes, flow: Flow, updates: Updates
    ) -> None:
        self.tree = tree
        self.names = names
        self.flow = flow
        self.scopes = scopes
        self.updates = updates
        self.flags = Flags(
            text, tree, names, scopes, flow, self._rare, self.throttled, self._unfinite
        )
        self._decided = Decided(text, names, self.flags.reaching)
        self._ones: dict[str, bool] | None = None
        self._unreached: dict[cst.CSTNode, bool] = {}
        self._ends: dict[cst.CSTNode, cst.CSTNode] = {}
        self._leaving: dict[cst.CSTNode, list[cst.If]] = {}
        self._rarity: dict[tuple[cst.CSTNode, bool], bool] = {}
        self._asked: set[cst.CSTNode] = set()
        self._last: dict[cst.CSTNode, type[cst.CSTNode] | None] = {}

    def tests(
        self, node: cst.CSTNode, until: cst.CSTNode | None
    ) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """Yield each condition that decides whether `node` runs inside `until`, with the truth it
        needs.

        Counts ``if`` and conditional expressions around it, operands of ``and`` and ``or`` before
        it, and earlier ``if test: continue`` (or break, return, raise) in the same blocks, whose
        truth needed is False.
        """
        for condition in self._conditions(node, until):
            yield condition.test, condition.needed

    def _conditions(self, node: cst.CSTNode, until: cst.CSTNode | None) -> Iterator[Condition]:
        at, parents = node, self.tree.parents
        while at in parents:
            child = at
            at = above = parents[child]
            if type(above) not in _DECIDING and above is not until:
                continue
            if type(above) is cst.IndentedBlock or type(above) is cst.Module:
                yield from self._exits(above, child)
            elif type(above) is cst.If and child is not above.test:
                branch = child.body if isinstance(child, (cst.BaseSuite, cst.Else)) else (child,)
                if isinstance(branch, cst.BaseSuite):
                    branch = branch.body
                yield Condition(above.test, child is above.body, branch)
            elif type(above) is cst.IfExp and child is not above.test:
                yield Condition(above.test, child is above.body, ())
            elif type(above) is cst.BooleanOperation and child is above.right:
                yield Condition(above.left, isinstance(above.operator, cst.And), ())
            if above is until or (until is None and type(above) in FUNCTIONS):
                return

    def _exits(
        self, block: cst.IndentedBlock | cst.Module, child: cst.CSTNode
    ) -> Iterator[Condition]:
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
            rest = [each for each in block.body if order[each] > order[statement]]
            yield Condition(statement.test, False, rest)

    def leaves(self, suite: cst.BaseSuite) -> bool:
        """Say whether a block always ends in continue, break, return or raise."""
        last: cst.CSTNode | None = suite.body[-1] if suite.body else None
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        return isinstance(last, _LEAVING)

    def ends_loop(self, block: cst.CSTNode, node: cst.CSTNode) -> type[cst.CSTNode] | None:
        """Return ``Break`` or ``Return`` where all that follows `node` in a block leads there, so
        that a pass of the loop around the block, once it has come to `node`, is the last one; else
        None."""
        last = self._last_of(block)
        if last not in (cst.Break, cst.Return):
            return None
        order = self.tree.order
        again = (
            each
            for each in self.tree.within(block, cst.Continue)
            if order[each] > order[node]
            and not any(
                isinstance(above, LOOPS) and self.tree.is_within(above, block)
                for above in self.tree.ancestors(each)
            )
        )
        return None if any(True for _ in again) else last

    def _last_of(self, suite: cst.CSTNode) -> type[cst.CSTNode] | None:
        """Return the type of the last small statement of a block, also of one in its ``with``."""
        if suite not in self._last:
            lines = suite.body if isinstance(suite, cst.BaseSuite) else ()
            last: cst.CSTNode | None = lines[-1] if lines else None
            if isinstance(last, cst.With):
                self._last[suite] = self._last_of(last.body)
            elif isinstance(last, cst.SimpleStatementLine):
                self._last[suite] = type(last.body[-1])
            else:
                self._last[suite] = None if last is None else type(last)
        return self._last[suite]

    def most_iterations(self, loop: cst.CSTNode) -> int | None:
        """Return after how many iterations, which it counts, a loop leaves itself, where these are
        a few: ``if i == 5: break``."""
        if not isinstance(loop, (cst.For, cst.While)):
            return None
        for line in loop.body.body:
            match line:
                case cst.If(
                    test=cst.Comparison(
                        left=cst.Name(value=name),
                        comparisons=[
                            cst.ComparisonTarget(
                                operator=cst.Equal() | cst.GreaterThan() | cst.GreaterThanEqual(),
                                comparator=cst.Integer(value=most),
                            )
                        ],
                    ),
                    body=body,
                ) if self._last_of(body) in (cst.Break, cst.Return):
                    if len(most) <= _FEW_DIGITS and self._counts_iterations(loop, name):
                        return int(most) + 1
        return None

    def _counts_iterations(self, loop: cst.For | cst.While, name: str) -> bool:
        """Say whether a name is what ``enumerate`` counts the iterations of a loop by, or a number
        to which each iteration adds 1."""
        writes = self.flow.writes(loop, name)
        match loop:
            case cst.For(
                target=cst.Tuple(elements=[cst.Element(value=cst.Name() as counter), *_]),
                iter=cst.Call(func=func, args=[_]),
            ) if self.names.name(func) == "builtins.enumerate" and writes == [counter]:
                return counter.value == name
        return len(writes) == 1 and any(
            isinstance(line, cst.SimpleStatementLine)
            and isinstance(step := line.body[0], cst.AugAssign)
            and step.target is writes[0]
            and isinstance(step.operator, cst.AddAssign)
            and isinstance(step.value, cst.Integer)
            for line in loop.body.body
        )

    def unreached(self, node: cst.CSTNode) -> bool:
        """Say whether `node` runs only on the way to an exception, or after one, or never.

        That is in a ``raise``, the message of an ``assert``, an ``except`` block, a block that ends
        in ``raise``, or one where the test says that memory ran out; behind a ``return`` of its
        block, or where a constant decides that another branch runs.
        """
        return self.tree.climbed(node, self._unreached, self._is_unreached)

    def _is_unreached(self, node: cst.CSTNode, above: cst.CSTNode | None) -> bool | Open:
        """Say whether the node above lets no ordinary run come to another."""
        kind = type(above)
        if above is None or kind in FUNCTIONS:
            return False
        if kind not in _ENDING:
            return OPEN
        if isinstance(above, (cst.Raise, cst.ExceptHandler)):
            return True
        if isinstance(above, cst.Assert) and node is above.msg:
            return True
        if isinstance(above, (cst.If, cst.Else)) and node is above.body:
            short = isinstance(above, cst.If) and _out_of_memory(above.test)
            if short or self._raises(above.body):
                return True
        return True if self._left_out(node, above) else OPEN

    def _left_out(self, node: cst.CSTNode, above: cst.CSTNode) -> bool:
        """Say whether a part of a node never runs, as a constant decides its test, or as a
        statement before it has left the block."""
        match above:
            case cst.If(test=test) | cst.IfExp(test=test) if node is not test:
                return self._decided.truth(test) is (node is not above.body)
            case cst.While(test=test, body=body) if node is body:
                return self._decided.truth(test) is False
            case cst.BooleanOperation(left=left, operator=joined, right=right) if node is right:
                return self._decided.truth(left) is isinstance(joined, cst.Or)
            case cst.IndentedBlock(body=lines):
                if above not in self._ends:
                    self._ends[above] = next(filter(self._has_left, lines), lines[-1])
                return self.tree.order[self._ends[above]] < self.tree.order[node]
        return False

    def _has_left(self, line: cst.CSTNode) -> bool:
        """Say whether a statement always leaves its block."""
        if isinstance(line, cst.If):
            return self.leaves(line.body) and self._decided.truth(line.test) is True
        if not isinstance(line, cst.SimpleStatementLine):
            return False
        return isinstance(line.body[-1], _LEAVING) or self._fails(line.body[-1])

    def _fails(self, node: cst.CSTNode) -> bool:
        """Say whether a statement is ``assert False``, or of another test that never holds."""
        return isinstance(node, cst.Assert) and self._decided.truth(node.test) is False

    def _raises(self, suite: cst.BaseSuite) -> bool:
        last: cst.CSTNode | None = suite.body[-1] if suite.body else None
        if isinstance(last, cst.If) and isinstance(last.orelse, cst.Else):
            return self._raises(last.body) and self._raises(last.orelse.body)
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        return last is not None and (isinstance(last, cst.Raise) or self._fails(last))

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
        for test, needed, branch in self._conditions(node, until):
            if self._rare(test, needed) and not (
                self._is_step(test, branch) or self._refuses(test, needed)
            ):
                return test
        # The test of a branch around `node` that turns over its own flag, ``if first: first =
        # False; ...``, sets back what it compares, also behind ``if step - last < 100: return``,
        # or has a method build what is missing, or undo what the test finds.
        for condition in self._conditions(node, until):
            flags = dict(self._flags(condition.test, condition.needed))
            turned = any(self._flips(line, flags) for line in condition.branch)
            turned = turned or self._undone(condition, flags)
            if turned or self._sets_back(condition, until) or self._special(condition):
                return condition.test
            if self._rebuilds(condition) or self._fills(condition, until):
                return condition.test
        return None

    def _refuses(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether what a test does not let pass is an error, so that ordinary runs pass: ``if
        width % 8: raise ValueError``."""
        above = self.tree.parents[test]
        return not needed and isinstance(above, cst.If) and self._raises(above.body)

    def _is_step(self, test: cst.BaseExpression, branch: Sequence[cst.CSTNode]) -> bool:
        """Say whether what an interval guards is the training step itself: gradients that pile up,
        a generator's turn. A long interval that the code spells out is rare all the same."""
        if not self.updates.updates(branch):
            return False
        if not self.is_interval(test):
            # Whether a function that the project defines makes a test rare, by what it returns.
            return self._by_flag(test) or any(
                self._call_is_rare(call, needed)
                for call in self.tree.within(test, cst.Call)
                for needed in (True, False)
            )
        return not any(
            isinstance(each.operator, cst.Modulo)
            and isinstance(each.right, cst.Integer)
            and len(each.right.value) > _FEW_DIGITS
            for each in self.tree.within(test, cst.BinaryOperation)
        )

    def _rare(self, test: cst.BaseExpression, needed: bool) -> bool:
        key = (test, needed)
        if key not in self._rarity:
            found = (
                self._rarely_true(test, needed)
                or self.certain(test, needed, self._not_finite)
                or self.certain(test, needed, self._off_the_gpu)
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
        if any(self.is_one(arg.value) for arg in call.args):
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
                return self._rare(function.body, needed)
            returns = list(self.tree.within(function, cst.Return))
            if not needed and self._last_of(function.body) is not cst.Return:
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
            return line.value is not None and self._rare(line.value, needed)
        return value is not needed or self.throttled(line, None)

    def _rarely_true(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a test has a truth value only in some steps, by counters and by names.

        ``if last_step: break`` leaves nearly all steps to what follows.
        """
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return self._rarely_true(inner, not needed)
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                rare = [side for side in (left, right) if self._rarely_true(side, needed)]
                if isinstance(operator, cst.And) is needed:
                    return bool(rare)
                # Of ``log or step % 10 == 0`` the interval is what counts, of an argument neither.
                return len(rare) == 2 or (needed and not all(map(self._is_argument, rare)))
            case cst.Call() if self._call_is_rare(test, needed):
                return True
            case cst.Comparison(
                left=cst.Name() as name,
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.Is() | cst.IsNot() as operator,
                        comparator=cst.Name("None") as other,
                    )
                    | cst.ComparisonTarget(
                        operator=cst.Equal() | cst.NotEqual() as operator,
                        comparator=cst.SimpleString() as other,
                    )
                ],
            ):
                asked = isinstance(operator, (cst.Is, cst.Equal)) is needed
                return self.flags.rarely_same(name, other, asked)
        if self.is_interval(test):
            return self._often_true(test) is not needed
        if self._by_chance(test, needed):
            return True
        if isinstance(test, cst.Name):
            known = truth(test)
            if known is not None:
                return known is not needed
            if self.flags.rarely(test, needed):
                return True
        if needed:
            return self.is_debug(test) or self._check_left_off(test)
        return self._all_but_few(test)

    def _by_chance(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a number between 0 and 1 that is drawn at random decides, and rarely lets
        pass: ``random.random() < 0.1``."""
        match test:
            case cst.Comparison(
                left=drawn,
                comparisons=[
                    cst.ComparisonTarget(operator=operator, comparator=cst.Float() as share)
                ],
            ):
                draws = {self.names.name(c.func) for c in self.tree.within(drawn, cst.Call)}
                below = isinstance(operator, (cst.LessThan, cst.LessThanEqual))
                above = isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual))
                passes = share.evaluated_value if below is needed else 1 - share.evaluated_value
                return bool((below or above) and draws & _DRAWS) and passes <= _RARE
        return False

    def _check_left_off(self, test: cst.BaseExpression) -> bool:
        """Say whether a test asks an object for a check of values that is off by default:
        ``self.validate``, of a constructor with ``validate=False``."""
        text, cls = dotted_text(test) or "", self.tree.class_of(test)
        if cls is None or not text.startswith("self.") or not _CHECK_NAME.search(text):
            return False
        given = list(self.given_to(cls, text[len("self.") :]))
        return bool(given) and all(map(self._off, given))

    def given_to(self, cls: cst.ClassDef, name: str) -> Iterator[cst.BaseExpression]:
        """Yield what a class assigns to an attribute of ``self``, or to a field."""
        for each in self.tree.within(cls, cst.Assign, nested=True):
            if any(dotted_text(target.target) == f"self.{name}" for target in each.targets):
                yield each.value
        for field in self.tree.within(cls, cst.AnnAssign, nested=True):
            if field.value is not None and dotted_text(field.target) in (f"self.{name}", name):
                yield field.value

    def _off(self, node: cst.BaseExpression) -> bool:
        """Say whether a value is False, or a parameter that is False by default."""
        if truth(node) is not None or not isinstance(node, cst.Name):
            return truth(node) is False
        _, bindings = self.names.bindings(node.value, node)
        param = bindings[0].node if len(bindings) == 1 else None
        return isinstance(param, cst.Param) and truth(param.default) is False

    def _often_true(self, test: cst.BaseExpression) -> bool | None:
        """Say whether a test that tells steps apart is true in most of them, None where neither
        truth value is the rule."""
        match test:
            case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=operator)]):
                if isinstance(operator, (cst.NotEqual, cst.NotIn)):
                    return None if self._halves(test) else True
                exact = isinstance(operator, (cst.Equal, cst.In)) or self._counter_comparison(test)
                return False if exact and not self._halves(test) else None
            case cst.BinaryOperation(operator=cst.Modulo()):
                return None if self._halves(test) else True
            case cst.Name() | cst.Attribute() | cst.Call():
                return False
        return None

    def _all_but_few(self, test: cst.BaseExpression) -> bool:
        """Say whether a test is true in all steps but a few: ``step != 0``, ``step > 10``."""
        match test:
            case cst.Comparison(
                left=left,
                comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)],
            ) if self._is_counter(left):
                above = isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual))
                few = isinstance(right, cst.Integer) and len(right.value) <= _FEW_DIGITS
                if above and self._counts_down(left):
                    return False  # ``if to_skip > 0: to_skip -= 1; continue`` ends after a few
                return isinstance(operator, (cst.NotEqual, cst.NotIn)) or (above and few)
        return False

    def _counts_down(self, counter: cst.BaseExpression) -> bool:
        """Say whether the function lowers a counter."""
        name = dotted_text(counter)
        return any(
            isinstance(each.operator, cst.SubtractAssign) and dotted_text(each.target) == name
            for each in self.tree.within(self.tree.owners[counter], cst.AugAssign)
        )

    def _halves(self, test: cst.CSTNode) -> bool:
        """Say whether a test counts modulo two: neither answer is rarer than the other."""
        return any(
            isinstance(each.operator, cst.Modulo)
            and isinstance(each.right, cst.Integer)
            and each.right.value == "2"
            for each in self.tree.within(test, cst.BinaryOperation)
        )

    def certain(
        self,
        test: cst.BaseExpression,
        needed: bool,
        says: Callable[[cst.BaseExpression, bool], bool],
    ) -> bool:
        """Say whether a fact holds wherever a test is true (or false, as needed); `says` tells it
        of the parts that ``not``, ``and`` and ``or`` join."""
        match test:
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return self.certain(inner, not needed, says)
            case cst.BooleanOperation(left=left, operator=operator, right=right):
                sides = (self.certain(each, needed, says) for each in (left, right))
                return (any if isinstance(operator, cst.And) is needed else all)(sides)
        return says(test, needed)

    def condition(
        self,
        node: cst.CSTNode,
        until: cst.CSTNode | None,
        says: Callable[[cst.BaseExpression, bool], bool],
    ) -> cst.BaseExpression | None:
        """Return the condition by which a node runs inside `until` only where a fact holds, of
        which `says` tells as for `certain`."""
        tests = self.tests(node, until)
        return next((test for test, needed in tests if self.certain(test, needed, says)), None)

    def untrained(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the condition by which a node of a method runs only where ``self.training`` is
        false, or a parameter named ``mode`` says so: in an evaluation; not where it is one more
        mode of training: ``elif mode == "train_rl"``."""
        test = self.condition(node, None, _says_untrained)
        trains = test is not None and self.condition(node, None, _says_training) is not None
        return None if trains else test

    def demands(self, node: cst.CSTNode, function: cst.FunctionDef) -> Demands:
        """Return what the tests around a node demand of the parameters of its function."""
        tests = self.tests(node, function)
        return self._of_parameters(
            function, (each for test, needed in tests for each in self._flags(test, needed))
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
            caller, (each for value, needed in given for each in self._flags(value, needed))
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

    def _not_finite(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a test is fulfilled only by a NaN or an infinity: ``not isfinite(loss)``,
        ``loss.isnan()``."""
        match test:
            case cst.Call(
                func=cst.Attribute(value=inner, attr=cst.Name("item" | "any" | "all")), args=[]
            ):
                return self.certain(inner, needed, self._not_finite)
            case cst.Call(func=func, args=[cst.Arg(value=inner)]) if last_name(func) in (
                "any",
                "all",
            ):
                return self.certain(inner, needed, self._not_finite)
            case cst.Call(func=func):
                named = last_name(func) in (("isnan", "isinf") if needed else ("isfinite",))
                return named or self._says_unfinite(test, needed)
            case cst.Name() | cst.Attribute():
                name = (dotted_text(test) or "").rpartition(".")[2]
                return bool((_NOT_FINITE if needed else _FINITE).search(name))
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
        if not needed and self._last_of(function.body) is not cst.Return:
            return False
        wanted = [each for each in returns if truth(each.value) is not (not needed)]
        return bool(wanted) and all(
            self._unfinite(each, function)
            or (each.value is not None and self.certain(each.value, needed, self._not_finite))
            for each in wanted
        )

    def _unfinite(self, node: cst.CSTNode, until: cst.CSTNode | None) -> bool:
        """Say whether a node runs inside `until` only after a NaN or an infinity."""
        return self.condition(node, until, self._not_finite) is not None

    def off_the_gpu(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """Return the condition by which a node runs without a GPU only."""
        return self.condition(node, None, self._off_the_gpu)

    def _off_the_gpu(self, test: cst.BaseExpression, needed: bool) -> bool:
        """Say whether a test holds only where the program runs on the CPU or on Apple's GPU:
        ``device.type == "mps"``, ``not torch.cuda.is_available()``, ``not parameters[0].is_cuda``.
        """
        match test:
            case cst.Call(func=func):
                return self.names.name(func) in (_APPLE if needed else _NVIDIA)
            case cst.Attribute(attr=cst.Name("is_mps")):
                return needed
            case cst.Attribute(value=asked, attr=cst.Name("is_cuda" | "is_cpu" as word)):
                return needed is (word == "is_cpu") and self._stands_for_all(asked)
            case cst.Comparison(
                left=left,
                comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)],
            ):
                types = frozenset(_texts(right))
                if isinstance(operator, (cst.NotEqual, cst.NotIn)):
                    needed = not needed
                elif not isinstance(operator, (cst.Equal, cst.In)):
                    return False
                ours = _DEVICE.search(dotted_text(left) or "") is not None
                ours = ours or self._stands_for_all(left)
                if not needed:
                    return ours and "cuda" in types
                # A tensor on the CPU may be about to be moved.
                return bool(types) and types <= ({"cpu", "mps"} if ours else {"mps"})
        return False

    def _stands_for_all(self, node: cst.BaseExpression) -> bool:
        """Say whether a tensor, or its device, is the first of several and asked for all of them,
        ``parameters[0]``, ``next(model.parameters())``, in a function that moves none."""
        while isinstance(node, cst.Attribute) and node.attr.value in ("device", "type"):
            node = node.value
        match node:
            case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.Integer()))]):
                pass
            case cst.Call(func=func) if self.names.name(func) == "builtins.next":
                pass
            case _:
                return False
        home = self.tree.function(node)
        return home is not None and not any(
            method_called(call) in MOVES for call in self.tree.within(home, cst.Call)
        )

    def _undone(self, condition: Condition, flags: dict[str, bool]) -> bool:
        """Say whether a branch has a method of the same object end the state that the test finds,
        and its function does not begin it again: ``if self.merged: self.unmerge()``."""
        own = {flag: needed for flag, needed in flags.items() if flag.startswith("self.")}
        home = self.tree.function(condition.test)
        if not own or home is None:
            return False
        begun = {flag: not needed for flag, needed in own.items()}
        return not any(self._flips(line, begun) for line in self._lines(home)) and any(
            self._flips(line, own) or self._empties(line, own)
            for call in _method_calls(condition.branch)
            for callee in self.flow.callees(call)
            for line in self._lines(callee)
        )

    def _lines(self, function: cst.CSTNode) -> Iterator[cst.SimpleStatementLine]:
        for line in self.tree.within(function, cst.SimpleStatementLine):
            if isinstance(line, cst.SimpleStatementLine):
                yield line

    def _empties(self, line: cst.CSTNode, flags: dict[str, bool]) -> bool:
        """Say whether a line takes out of the list that is named after a flag which is true as long
        as the list holds something: ``self.merged``, ``self.merged_adapters.pop()``."""
        for call in self.tree.within(line, cst.Call):
            match call:
                case cst.Call(func=cst.Attribute(value=holder, attr=cst.Name("pop" | "clear"))):
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
            and not self._is_counter(key)
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
            if isinstance(each, cst.AssignTarget) and (text := dotted_text(each.target)) in kept
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
            dotted_text(each.target) == place
            for each in self.tree.nodes(cst.AugAssign)
            if isinstance(each, cst.AugAssign)
        ) or any(
            dotted_text(target.target) == place
            and any(
                dotted_text(part) == place
                for part in self.tree.within(each.value, cst.Attribute, cst.Name)
            )
            for each in self.tree.nodes(cst.Assign)
            if isinstance(each, cst.Assign)
            for target in each.targets
        )

    def _special(self, condition: Condition) -> bool:
        """Say whether a branch is for nothing: a tensor or list without elements, or the number 0,
        by which its other side divides: ``s / n if n > 0 else torch.zeros(())``. A branch that
        gives constants alone is so as well where no element is marked, or where tensors differ in
        their dtypes or devices."""
        place = _zero(condition.test, condition.needed)
        if self._falls_back(condition, place):
            return True
        if place is None:
            return False
        if _counts_elements(place):
            return True
        order, around = self.tree.order, self.tree.parents[condition.test]
        if isinstance(around, cst.If):  # What stands behind it may be its other side.
            around = self.tree.parents[around]
        return any(
            isinstance(each.operator, (cst.Divide, cst.FloorDivide))
            and order[each] > order[condition.test]
            and not any(self.tree.is_within(each, line) for line in condition.branch)
            and self._spelled(each.right, place)
            for each in self.tree.within(around, cst.BinaryOperation)
        )

    def _falls_back(self, condition: Condition, place: cst.BaseExpression | None) -> bool:
        """Say whether one side of a test gives constants, where nothing is marked or tensors are
        of two kinds, and the other side computes."""
        around = self.tree.parents[condition.test]
        branch = condition.branch
        other: Sequence[cst.CSTNode] = ()
        if isinstance(around, cst.IfExp):
            sides = ((around.orelse,), (around.body,))
            branch, other = sides[condition.needed], sides[not condition.needed]
        elif isinstance(around, cst.If) and isinstance(around.orelse, cst.Else):
            other = (around.orelse if condition.needed else around).body.body
        if not is_fallback(branch) or is_fallback(other):
            return False
        if isinstance(place, cst.Name):
            _, bindings = self.names.bindings(place.value, place)
            place = bindings[0].value if len(bindings) == 1 else None
        marked = place is not None and counts_marks(place)
        names = self.tree.within(condition.test, cst.Name)
        if marked and not any(_EXCEPTION.search(each.value) for each in names):
            return True
        return self.certain(condition.test, condition.needed, differ)

    def _flags(self, test: cst.BaseExpression, needed: bool) -> Iterator[tuple[str, bool]]:
        """Yield the names that a test demands to be true or false."""
        match test:
            case cst.BooleanOperation(operator=cst.And()) if needed:
                yield from self._flags(test.left, needed)
                yield from self._flags(test.right, needed)
            case cst.UnaryOperation(operator=cst.Not()):
                yield from self._flags(test.expression, not needed)
            case cst.Comparison(
                left=left,
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.Is() | cst.Equal(),
                        comparator=cst.Name("True" | "False" as word),
                    )
                ],
            ) if needed:
                yield from self._flags(left, word == "True")
            case cst.Name() | cst.Attribute():
                text = dotted_text(test)
                if text is not None:
                    yield text, needed

    def _flips(self, line: cst.CSTNode, flags: dict[str, bool]) -> bool:
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
        if not counts or loop is None or any(True for _ in self.tree.within(comparison, cst.Call)):
            return False
        sides = (comparison.left, comparison.comparisons[0].comparator)
        few = any(
            isinstance(side, cst.Integer) and 0 < int(side.value, 0) < 10**_FEW_DIGITS
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
            and self._spelled(each.target, place)
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
            case cst.BooleanOperation(left=left, operator=operator, right=right):
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
            case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract() as operator):
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
            while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
                value = value.func.value
            if isinstance(value, (cst.Attribute, cst.Subscript)):
                yield value

    def _moves(self, line: cst.CSTNode, place: cst.CSTNode, high: bool | None) -> bool:
        """Say whether a line gives a place another value, one that can make the test false: where
        it has to be `high`, a lower one."""
        for bound in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match bound:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Tuple(elements=targets))], value=value
                ):
                    if any(each.value.deep_equals(place) for each in targets):
                        return not self._spelled(value, place)
                case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                    if target.deep_equals(place):
                        return not self._spelled(value, place)
                case cst.AugAssign(
                    target=target, operator=cst.AddAssign() | cst.SubtractAssign() as step
                ) if target.deep_equals(place):
                    return high is not None and isinstance(step, cst.SubtractAssign) == high
        return False

    def _spelled(self, node: cst.CSTNode, place: cst.CSTNode) -> bool:
        return any(each.deep_equals(place) for each in self.tree.within(node, type(place)))

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
        if isinstance(loop, cst.For) and self._spelled(loop.target, place):
            return False
        whole = loop if loop is not None else until
        return whole is not None and not any(
            self._spelled(write, place)
            for write in self.tree.within(whole, cst.AssignTarget)
            if not any(self.tree.is_within(write, line) for line in branch)
        )

    def is_interval(self, test: cst.CSTNode) -> bool:
        """Say whether a test tells a few steps from the others."""
        if isinstance(test, cst.BooleanOperation):
            return self.is_interval(test.left) or self.is_interval(test.right)
        if isinstance(test, cst.UnaryOperation):
            return self.is_interval(test.expression)
        for each in self.tree.within(test, cst.BinaryOperation):
            literal = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)
            if isinstance(each.operator, cst.Modulo) and not isinstance(each.left, literal):
                return not self.is_one(each.right)
        if any(self.names.name(call.func) in _ELAPSED for call in self.tree.within(test, cst.Call)):
            return True
        if isinstance(test, cst.Comparison):
            return self._counter_comparison(test)
        if isinstance(test, cst.Call):
            return bool(_INTERVAL_NAME.search((dotted_text(test.func) or "").rpartition(".")[2]))
        text = dotted_text(test)
        return text is not None and bool(_INTERVAL_NAME.search(text.rpartition(".")[2]))

    def always_due(
        self, node: cst.CSTNode, until: cst.CSTNode | None
    ) -> Iterator[cst.BaseExpression]:
        """Yield the intervals of 1 by which conditions around `node` hold in each pass: the ``1``
        of ``step % 1 == 0``, or the name that it has."""
        for test, _ in self.tests(node, until):
            for each in self.tree.within(test, cst.BinaryOperation):
                if isinstance(each.operator, cst.Modulo) and self.is_one(each.right):
                    yield each.right

    def is_one(self, node: cst.BaseExpression) -> bool:
        """Say whether an interval is 1, written out or as the default of an option: every step."""
        match node:
            case cst.Integer(value="1"):
                return True
            case cst.Name(value=name):
                _, bindings = self.names.bindings(name, node)
                values = [b.value for b in bindings if b.kind == "assign"]
                return len(bindings) == 1 == len(values) and _written_one(values[0])
            case cst.Attribute(value=cst.Name(), attr=cst.Name(value=name)):
                if self._ones is None:
                    self._ones = dict.fromkeys(self._options_of_one(), True)
                if name not in self._ones:
                    self._ones[name] = self._is_one_elsewhere(name)
                return self._ones[name]
        return False

    def _is_one_elsewhere(self, name: str) -> bool:
        """Say whether another file of the project makes an option that is 1 where nobody says
        otherwise, and none says otherwise."""
        say = functools.partial(self.names.outside.others_say, near=False)
        part = max(name.split("_"), key=len)
        return (
            not self._given_anew(name)
            and not any(option == name for option, _ in self._parsed_options())
            and say(functools.partial(_adds_one, part, name)) is True
            and say(functools.partial(_adds_another, part, name)) is False
            and say(functools.partial(_sets_another, name)) is False
        )

    def _options_of_one(self) -> Iterator[str]:
        """Yield the options of the command line and the fields of a dataclass that are 1 where
        nobody says otherwise, and of which nothing in the file says otherwise."""
        defaults: dict[str, list[cst.BaseExpression | None]] = {}
        for name, value in (*self._parsed_options(), *self._fields()):
            defaults.setdefault(name, []).append(value)
        for name, values in defaults.items():
            if all(_written_one(value) for value in values) and not self._given_anew(name):
                yield name

    def _parsed_options(self) -> Iterator[tuple[str, cst.BaseExpression | None]]:
        """Yield the options that ``add_argument`` adds, each with its default."""
        for call in self.tree.nodes(cst.Call):
            if last_name(call.func) != "add_argument":
                continue
            default = [a.value for a in call.args if keyword_of(a) == "default"]
            for flag in (a.value for a in call.args if a.keyword is None):
                if isinstance(flag, cst.SimpleString) and flag.raw_value.startswith("--"):
                    name = str(flag.raw_value)[2:].replace("-", "_")
                    yield name, default[0] if default else None

    def _fields(self) -> Iterator[tuple[str, cst.BaseExpression | None]]:
        """Yield the fields of dataclasses, each with its default."""
        for field in self.tree.nodes(cst.AnnAssign):
            cls = self.tree.class_of(field)
            if cls is None or self.tree.function(field) is not None:
                continue
            match field:
                case cst.AnnAssign(target=cst.Name(value=name), value=value) if any(
                    dotted.rpartition(".")[2] == "dataclass"
                    for _, dotted in self.scopes.decorators(cls)
                ):
                    yield name, value

    def _given_anew(self, name: str) -> bool:
        """Say whether the file gives an option by its name, or sets it on an object."""
        for node in self.tree.named(name):
            match self.tree.parents.get(node):
                case cst.Arg(keyword=keyword, value=value) if keyword is node:
                    if not _written_one(value):
                        return True
                case cst.Attribute(attr=attr) as whole if attr is node:
                    target = self.tree.parents.get(whole)
                    made = self.tree.parents.get(target) if target is not None else None
                    kept = isinstance(made, cst.Assign) and last_name(made.value) == name
                    if isinstance(target, cst.AssignTarget) and not kept:
                        return True
        return False

    def _counter_comparison(self, test: cst.Comparison) -> bool:
        operators = tuple(type(c.operator) for c in test.comparisons)
        sides = [test.left, *(c.comparator for c in test.comparisons)]
        if not any(self._is_counter(side) for side in sides):
            return False
        if any(op in (cst.Equal, cst.In) for op in operators):
            return True
        # ``step < 10``: only the first steps; ``step > 10`` is most of them.
        first, last = sides[0], sides[-1]
        if operators in ((cst.GreaterThan,), (cst.GreaterThanEqual,)):
            first, last = last, first
        elif operators not in ((cst.LessThan,), (cst.LessThanEqual,)):
            return False
        return self._is_counter(first) and isinstance(last, cst.Integer)

    def _is_counter(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BinaryOperation):
            return self._is_counter(node.left) or self._is_counter(node.right)
        text = dotted_text(node)
        return text is not None and bool(_COUNTER.search(text.rpartition(".")[2]))

    def is_debug(self, test: cst.CSTNode) -> bool:
        """Say whether a test reads a debug or profiling flag: ``self.debug``, ``cfg["debug"]``,
        ``getattr(self, "debug", False)``, ``os.environ.get("DEBUG")``."""
        match test:
            case cst.BooleanOperation(left=left, right=right):
                return self.is_debug(left) or self.is_debug(right)
            case (
                cst.Call(func=cst.Name("getattr"), args=[_, cst.Arg(value=key), *_])
                | cst.Call(
                    func=cst.Attribute(attr=cst.Name("get" | "getenv")),
                    args=[cst.Arg(value=key), *_],
                )
                | cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=key))])
            ):
                return bool(_DEBUG_NAME.search(string(key) or ""))
        return bool(_DEBUG_NAME.search(dotted_text(test) or ""))


def _says_untrained(test: cst.BaseExpression, needed: bool) -> bool:
    match test:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name("training")):
            return not needed
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(operator=cst.Is() | cst.Equal(), comparator=cst.Name("False"))
            ],
        ):
            return _says_untrained(left, not needed)
    said = _modes(test)
    if needed:
        return bool(said) and all(each.rpartition("_")[2] in _EVALUATIONS for each in said)
    return any(each in _TRAININGS for each in said)


def _says_training(test: cst.BaseExpression, needed: bool) -> bool:
    said = [each.split("_") for each in (_modes(test) if needed else ())]
    return bool(said) and all(
        not _TRAININGS.isdisjoint(each) and each[-1] not in _EVALUATIONS for each in said
    )


def _modes(test: cst.BaseExpression) -> list[str]:
    """Return the texts with which a test compares what is called a mode, none for another test."""
    match test:
        case cst.Comparison(
            left=cst.Name("mode" | "phase" | "stage" | "split"),
            comparisons=[cst.ComparisonTarget(operator=cst.Equal() | cst.In(), comparator=names)],
        ):
            texts = [names]
            if isinstance(names, (cst.List, cst.Tuple, cst.Set)):
                texts = [each.value for each in names.elements]
            return [string(each) or "" for each in texts]
    return []


def _method_calls(branch: Sequence[cst.CSTNode]) -> list[cst.Call]:
    """Return the calls that are lines of a branch by themselves."""
    return [
        line.body[0].value
        for line in branch
        if type(line) is cst.SimpleStatementLine
        and type(line.body[0]) is cst.Expr
        and isinstance(line.body[0].value, cst.Call)
    ]


def _written_one(node: cst.BaseExpression | None) -> bool:
    return isinstance(node, cst.Integer) and node.value == "1"


def _defaults(name: str, text: str) -> list[str]:
    """Return the defaults with which a text adds an option, empty for none."""
    flag = f"--{name.replace('_', '[-_]')}"
    added = re.findall(rf"{flag}(?<=['\"]{flag})['\"]([^()]*)", text)
    given = [re.search(r"\bdefault\s*=\s*([\w.]+)", each) for each in added]
    return [each[1] if each is not None else "" for each in given]


def _adds_one(_part: str, name: str, text: str) -> bool:
    return "1" in _defaults(name, text)


def _adds_another(_part: str, name: str, text: str) -> bool:
    return any(each != "1" for each in _defaults(name, text))


def _sets_another(name: str, text: str) -> bool:
    """Say whether a text gives an option another value than 1, or than that of an option of its
    name."""
    anew = rf"\b{name}\b['\"\]]*\s*[=:](?!=|\s*(1\b|[\w.]*\.{name}\b))"
    return re.search(anew, text) is not None


def _kept_places(test: cst.BaseExpression) -> Iterator[str | None]:
    """Yield of each alternative of a test the attribute of ``self`` that it finds to be None, or
    less than something; None for what asks anything else."""
    match test:
        case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
            yield from _kept_places(left)
            yield from _kept_places(right)
            return
        case cst.Comparison(
            left=place,
            comparisons=[cst.ComparisonTarget(operator=cst.Is(), comparator=cst.Name("None"))],
        ):
            pass
        case cst.Comparison(
            left=place,
            comparisons=[cst.ComparisonTarget(operator=cst.LessThan() | cst.LessThanEqual())],
        ):
            pass
        case cst.Comparison(
            comparisons=[
                cst.ComparisonTarget(
                    operator=cst.GreaterThan() | cst.GreaterThanEqual(), comparator=place
                )
            ]
        ):
            pass
        case _:
            yield None
            return
    text = dotted_text(place) or ""
    yield text if text.startswith("self.") else None


def _zero(test: cst.BaseExpression, needed: bool) -> cst.BaseExpression | None:
    """Return what is 0 (or less) where a test is as needed."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _zero(inner, not needed)
        case cst.Comparison(
            left=left,
            comparisons=[
                cst.ComparisonTarget(
                    operator=operator, comparator=cst.Integer("0") | cst.Float("0.0" | "0.")
                )
            ],
        ):
            none = (cst.Equal, cst.LessThanEqual) if needed else (cst.NotEqual, cst.GreaterThan)
            return left if isinstance(operator, none) else None
        case cst.Name() | cst.Attribute() | cst.Call():
            return None if needed else test
    return None


def _counts_elements(node: cst.BaseExpression) -> bool:
    """Say whether a number is one of elements, or of a size: ``len(x)``, ``x.numel()``,
    ``x.shape[0]``."""
    match node:
        case cst.Call(func=cst.Name("len")):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))):
            return name in _SIZES
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("shape"))):
            return True
    return False


def _texts(node: cst.BaseExpression) -> Iterator[str]:
    """Yield the texts that are written out, alone or in a tuple, list or set."""
    if isinstance(node, cst.SimpleString):
        yield str(node.raw_value)
    elif isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        for element in node.elements:
            yield from _texts(element.value)


@question(ground=True)
def guards(module: Module) -> Guards:
    """Return the conditions of a file."""
    return Guards(
        module.text, module.tree, module.names, scopes(module), flow(module), updates(module)
    )


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


@question(yes="its interval is 1", no="no interval of 1 is around it", ground=True)
def interval_of_one(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the name of an interval of 1, by which a condition around `node` holds every time."""
    found = guards(module).always_due(node, None)
    return next((each for each in found if not isinstance(each, cst.Integer)), None)


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


def _out_of_memory(test: cst.BaseExpression) -> bool:
    """Say whether a test holds where memory ran out, by a name in it: ``if oom:``, ``oom == 1``."""
    match test:
        case cst.Comparison(
            left=name, comparisons=[cst.ComparisonTarget(operator=cst.Equal() | cst.Is())]
        ):
            test = name
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
            return _out_of_memory(left) or _out_of_memory(right)
    last = (dotted_text(test) or "").rpartition(".")[2]
    return _OUT_OF_MEMORY.search(last) is not None


@question(
    yes="it only runs on the way to an exception (a raise, an assert's message, an except block), "
    "or never: a constant decides a test, or a return stands before it",
    no="an ordinary run comes to it",
    ground=True,
)
def unreached(module: Module, node: cst.CSTNode) -> bool:
    """Say whether no ordinary run comes to `node`: it stands on the way to an exception, behind a
    ``return``, or where a constant decides that another branch runs."""
    return guards(module).unreached(node)


@question(
    yes="`{answer}` holds only without a GPU",
    no="no condition says that there is no GPU",
    ground=True,
)
def off_the_gpu(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the condition by which a node runs only on the CPU, or on Apple's GPU."""
    return guards(module).off_the_gpu(node)


@question(
    yes="`{0}` is true only for some steps", no="`{0}` does not select some steps", ground=True
)
def is_interval(module: Module, test: cst.CSTNode) -> bool:
    """Say whether a test is true only for some steps."""
    return guards(module).is_interval(test)


@question(
    yes="the loop leaves itself after {answer} turns",
    no="the loop counts no few iterations",
    ground=True,
)
def most_iterations(module: Module, loop: cst.CSTNode) -> int | None:
    """Return after how many iterations a loop leaves itself, where these are a few that it
    counts."""
    return guards(module).most_iterations(loop)


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
