"""What looks at a number in each iteration of the loop that reads it: a log, a record that is
written, a plot. Then no read after the loop will do."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.guards import throttle
from torchlint.semantic.data.per_step_use import logging_call
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.uses.host_needs import asks_value, host_needs, needed_by

_RECORDS = frozenset("json pickle csv".split())
_PLOTS = ("matplotlib", "seaborn")
_WRITES = frozenset("write writerow writerows writelines".split())
_DRAWS = regex(r"^(plot|scatter|hist|bar|line|loglog|semilog[xy])$")
_AXES = regex(r"^(ax|axs|axes|vis|viz|visdom)(_|\d|$)")
_GROWS = frozenset(("append", "extend", "insert"))


@frozen
class Taker:
    """What takes a value in each iteration of a loop.

    Args:
        node: the call, or the test.
        kept: whether the program writes a record with it, plots it or decides by it; else it logs.
    """

    node: cst.BaseExpression
    kept: bool


@question(
    yes="`{answer}` looks at it in each iteration of the loop",
    no="nothing is known to look at it in each iteration of the loop",
)
def taken_per_iteration(module: Module, node: cst.BaseExpression) -> Taker | None:
    """Return what logs, writes, plots or asks a number in each iteration of the loop that reads it:
    by itself, in a row of numbers, or in the list that it is appended to. What does so on a
    condition of its own is none."""
    takers = (
        _taker(module, place)
        for each in (node, *_reads_of_list(module, node))
        for place in needed_by(module, each, _takes_each)
        if _is_unconditional(module, node, place)
    )
    return next(takers, None)


@question(
    yes="code of the host takes `{0}` in each iteration of the loop: a picture, a text, a file",
    no="no code of the host is known to take `{0}` in each iteration of the loop",
)
def host_takes_per_iteration(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a library of the host works on a number, or a text, a file or a request is made
    of it, in each iteration of the loop that reads it."""
    places = needed_by(module, node, host_needs)
    return any(_is_unconditional(module, node, place) for place in places)


@question(
    yes="the loop reads the list that keeps `{0}` only where `{answer}`",
    no="no list that the loop reads now and then alone is known to keep `{0}`",
)
def kept_until(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the condition under which alone a loop reads the list that a value is appended to:
    ``if step % 10 == 0: print(mean(losses)); losses = []``."""
    tests = {
        throttle(module, each, module.loop(node))
        for each in _reads_of_list(module, node)
        if not any(isinstance(above, cst.AssignTarget) for above in module.ancestors(each))
    }
    return tests.pop() if len(tests) == 1 else None


def _is_unconditional(module: Module, node: cst.BaseExpression, place: cst.CSTNode) -> bool:
    """Say whether a place that a value comes to has no condition of its own, nor have all calls in
    the loop of the function around it."""
    own = {test for test, _ in conditions_around(module, node)}
    loop, function = module.loop(node), module.function(place)
    places: list[cst.CSTNode] = [place]
    if loop is not None and function is not None and function is not module.function(node):
        places += [each for each in call_sites(module, function) if module.is_within(each, loop)]
    around = [conditions_around(module, each, module.loop(each)) for each in places]
    free = [{test for test, _ in conditions} <= own for conditions in around]
    return free[0] and (len(free) == 1 or any(free[1:]))


def _takes_each(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    if isinstance(place, (cst.If, cst.While)):
        return asks_value(module, place)
    if not isinstance(place, cst.Call) or not isinstance(part, cst.Arg):
        return False
    sink = logging_call(module, place)
    return _records(module, place) or (sink is not None and sink.kind != "meter")


def _records(module: Module, call: cst.Call) -> bool:
    """Say whether a call writes a record, or plots."""
    if module.called(call).partition(".")[0] in (*_RECORDS, *_PLOTS):
        return True
    match call.func:
        case cst.Attribute(attr=cst.Name(method)) if method in _WRITES:
            return True
        case cst.Attribute(holder, cst.Name(method)) if _DRAWS.match(method):
            return any(_AXES.match(each) for each in module.names_in(holder))
    return False


def _taker(module: Module, place: cst.CSTNode) -> Taker:
    if isinstance(place, (cst.If, cst.While)):
        return Taker(place.test, kept=True)
    assert isinstance(place, cst.Call)
    line = module.small_statement(place)
    whole = line.value if isinstance(line, cst.Expr) else place
    return Taker(whole, _records(module, place))


def _reads_of_list(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the reads, in the iteration of the loop, of the list that a value is appended to."""
    loop, line = module.loop(node), module.small_statement(node)
    match line:
        case cst.Expr(cst.Call(cst.Attribute(kept, cst.Name(method)))) if (
            loop is not None and method in _GROWS
        ):
            pass
        case _:
            return
    for each in module.within(loop.body, type(kept)):
        above = module.parent(each)
        grown = isinstance(above, cst.Attribute) and above.value is each
        if not grown and each.deep_equals(kept):
            yield each
