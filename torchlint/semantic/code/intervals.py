"""Tests that tell a few steps from the others: of a counter, of elapsed time, of the last batch."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.conditions import conditions
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.parsed_arguments import options_added
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import LOOPS, last_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

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
_ELAPSED = frozenset(("time.time", "time.perf_counter", "time.monotonic", "datetime.datetime.now"))
FEW_DIGITS = 2
"""``if step > 99: break`` leaves a few steps, ``if step > 100000: break`` a training; a step every
50 rounds is a step, one every 500 is an event."""


class Intervals:
    """Says of the tests in one file which steps they tell from the others."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.tree = module.tree
        self.names = module.names
        self.scopes = scopes(module)
        self.flow = flow(module)
        self.conditions = conditions(module)
        self._ones: dict[str, bool] | None = None

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
        return bool(
            _INTERVAL_NAME.search(last_part(test.func if isinstance(test, cst.Call) else test))
        )

    def often_true(self, test: cst.BaseExpression) -> bool | None:
        """Say whether a test that tells steps apart is true in most of them, None where neither
        truth value is the rule."""
        match test:
            case cst.Comparison(comparisons=[cst.ComparisonTarget(operator)]):
                if isinstance(operator, (cst.NotEqual, cst.NotIn)):
                    return None if self._halves(test) else True
                exact = isinstance(operator, (cst.Equal, cst.In)) or self._counter_comparison(test)
                return False if exact and not self._halves(test) else None
            case cst.BinaryOperation(operator=cst.Modulo()):
                return None if self._halves(test) else True
            case cst.Name() | cst.Attribute() | cst.Call():
                return False
        return None

    def all_but_few(self, test: cst.BaseExpression) -> bool:
        """Say whether a test is true in all steps but a few: ``step != 0``, ``step > 10``."""
        match test:
            case cst.Comparison(
                left,
                [cst.ComparisonTarget(operator, right)],
            ) if is_counter(left):
                above = isinstance(operator, (cst.GreaterThan, cst.GreaterThanEqual))
                few = isinstance(right, cst.Integer) and len(right.value) <= FEW_DIGITS
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

    def _counter_comparison(self, test: cst.Comparison) -> bool:
        operators = tuple(type(c.operator) for c in test.comparisons)
        sides = [test.left, *(c.comparator for c in test.comparisons)]
        if not any(is_counter(side) for side in sides):
            return False
        if any(op in (cst.Equal, cst.In) for op in operators):
            return True
        # ``step < 10``: only the first steps; ``step > 10`` is most of them.
        first, last = sides[0], sides[-1]
        if operators in ((cst.GreaterThan,), (cst.GreaterThanEqual,)):
            first, last = last, first
        elif operators not in ((cst.LessThan,), (cst.LessThanEqual,)):
            return False
        return is_counter(first) and isinstance(last, cst.Integer)

    def most_iterations(self, loop: cst.CSTNode) -> int | None:
        """Return after how many iterations, which it counts, a loop leaves itself, where these are
        a few: ``if i == 5: break``."""
        if not isinstance(loop, LOOPS):
            return None
        for line in loop.body.body:
            match line:
                case cst.If(
                    cst.Comparison(
                        cst.Name(name),
                        [
                            cst.ComparisonTarget(
                                cst.Equal() | cst.GreaterThan() | cst.GreaterThanEqual(),
                                cst.Integer(most),
                            )
                        ],
                    ),
                    body,
                ) if self.conditions.last_of(body) in (cst.Break, cst.Return):
                    if len(most) <= FEW_DIGITS and self._counts_iterations(loop, name):
                        return int(most) + 1
        return None

    def _counts_iterations(self, loop: cst.For | cst.While, name: str) -> bool:
        """Say whether a name is what ``enumerate`` counts the iterations of a loop by, or a number
        to which each iteration adds 1."""
        writes = self.flow.writes(loop, name)
        match loop:
            case cst.For(
                cst.Tuple([cst.Element(cst.Name() as counter), *_]),
                cst.Call(func, [_]),
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

    def always_due(
        self, node: cst.CSTNode, until: cst.CSTNode | None
    ) -> Iterator[cst.BaseExpression]:
        """Yield the intervals of 1 by which conditions around `node` hold in each pass: the ``1``
        of ``step % 1 == 0``, or the name that it has."""
        for test, _ in self.conditions.tests(node, until):
            for each in self.tree.within(test, cst.BinaryOperation):
                if isinstance(each.operator, cst.Modulo) and self.is_one(each.right):
                    yield each.right

    def is_one(self, node: cst.BaseExpression) -> bool:
        """Say whether an interval is 1, written out or as the default of an option: every step."""
        match node:
            case cst.Integer("1"):
                return True
            case cst.Name(name):
                _, bindings = self.names.bindings(name, node)
                values = [b.value for b in bindings if b.kind == "assign"]
                return len(bindings) == 1 == len(values) and _written_one(values[0])
            case cst.Attribute(cst.Name(), cst.Name(name)):
                if self._ones is None:
                    self._ones = dict.fromkeys(self._options_of_one(), True)
                if name not in self._ones:
                    self._ones[name] = self._is_one_elsewhere(name)
                return self._ones[name]
        return False

    def _is_one_elsewhere(self, name: str) -> bool:
        """Say whether another file of the project makes an option that is 1 where nobody says
        otherwise, and none says otherwise."""
        say = self.names.outside.others_say
        part = max(name.split("_"), key=len)
        return (
            not self._given_anew(name)
            and not any(option == name for option, _ in options_added(self.module))
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
        for name, call in options_added(self.module):
            yield name, keyword_argument(self.module, call, "default")

    def _fields(self) -> Iterator[tuple[str, cst.BaseExpression | None]]:
        """Yield the fields of dataclasses, each with its default."""
        for field in self.tree.nodes(cst.AnnAssign):
            cls = self.tree.class_of(field)
            if cls is None or self.tree.function(field) is not None:
                continue
            match field:
                case cst.AnnAssign(cst.Name(name), value=value) if any(
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


def is_counter(node: cst.CSTNode) -> bool:
    """Say whether a number has the name of a counter, or one of those that it is made of."""
    if isinstance(node, cst.BinaryOperation):
        return is_counter(node.left) or is_counter(node.right)
    return bool(_COUNTER.search(last_part(node)))


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


@question(ground=True)
def intervals(module: Module) -> Intervals:
    """Return the tests of a file that tell steps apart."""
    return Intervals(module)


@question(yes="its interval is 1", no="no interval of 1 is around it", ground=True)
def interval_of_one(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the name of an interval of 1, by which a condition around `node` holds every time."""
    found = intervals(module).always_due(node, None)
    return next((each for each in found if not isinstance(each, cst.Integer)), None)


@question(
    yes="`{0}` is true only for some steps", no="`{0}` does not select some steps", ground=True
)
def is_interval(module: Module, test: cst.CSTNode) -> bool:
    """Say whether a test is true only for some steps."""
    return intervals(module).is_interval(test)


@question(
    yes="the loop leaves itself after {answer} iterations",
    no="the loop counts no few iterations",
    ground=True,
)
def most_iterations(module: Module, loop: cst.CSTNode) -> int | None:
    """Return after how many iterations a loop leaves itself, where these are a few that it
    counts."""
    return intervals(module).most_iterations(loop)
