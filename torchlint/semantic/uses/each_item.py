"""Whether an expression is made of one item of a loop over many, and of no earlier iteration."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    is_name,
    last_name,
    method_called,
    parameters_of,
    positional,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.spelling import LOADER, called

_HANDFUL = 16
"""Fewer items than this are examples to look at."""
_WRAPS = frozenset("tqdm trange enumerate zip list iter sorted reversed track islice".split())
_GROWS = frozenset("append extend insert appendleft update add".split())
_SEEDS = ("manual_seed", "manual_seed_all", "set_seed")
"""What is drawn for each item alone is another draw in a batch."""
_BATCHES = regex(r"batch|chunk|loader")
_Each = cst.For | cst.CompFor


@question(
    yes="it is made of one item of a loop over many",
    no="`{0}` is not known to be made of one item of a loop over many, and of no earlier iteration",
)
def each_item(module: Module, node: cst.BaseExpression) -> _Each | None:
    """Return the loop over many of whose item an expression is made, in this function or in one
    that calls it with such an item, where nothing in it is of an earlier iteration; else None."""
    found = _Origins(module, node)
    if found.earlier:
        return None
    loops = (loop for loop in found.loops if _over_many(module, loop))
    given = (
        loop
        for function, names in found.parameters.items()
        for each in _given(module, function, names)
        if (loop := each_item(module, each))
    )
    return next(loops, None) or next(given, None)


def _given(
    module: Module, function: cst.FunctionDef, names: set[str]
) -> Iterator[cst.BaseExpression]:
    """Yield what the calls of a function give some of its parameters."""
    for site in call_sites(module, function):
        args = module.bind(function, site)
        yield from (args[name] for name in names if name in args)


def regions_of(
    module: Module,
    node: cst.BaseExpression,
    beside: cst.BaseExpression,
    seen: frozenset[cst.FunctionDef] = frozenset(),
) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Yield the code that runs once for each item of which an expression is made, and what another
    expression beside it is there: a loop's body, and that of a function that is called with it."""
    found = _Origins(module, node)
    yield from ((loop.body, beside) for loop in found.loops if isinstance(loop, cst.For))
    for function in found.parameters.keys() - seen:
        names = found.parameters[function]
        if not any(each_item(module, each) for each in _given(module, function, names)):
            continue
        yield function.body, beside
        for site in call_sites(module, function):
            args = module.bind(function, site)
            inner = beside if dotted_text(beside) in args else _wrapped(module, beside)
            outer = args.get(dotted_text(inner) or "", inner)
            for name in names & args.keys():
                yield from regions_of(module, args[name], outer, seen | {function})


def _wrapped(module: Module, model: cst.BaseExpression) -> cst.BaseExpression:
    """Return the model that another holds: that of ``get_peft_model(base, config)``."""
    made = sole_definition(module, model) or model
    return made.args[0].value if isinstance(made, cst.Call) and made.args else made


class _Origins:
    """What an expression is made of.

    Attributes:
        loops: those whose item it holds.
        parameters: by function, the names of those that it holds.
        earlier: whether it may hold what an earlier iteration of a loop made.
    """

    def __init__(self, module: Module, node: cst.BaseExpression) -> None:
        self.module = module
        self.loops: list[_Each] = []
        self.parameters: dict[cst.FunctionDef, set[str]] = {}
        self.earlier = False
        self._around: set[cst.CSTNode] = {
            part
            for above in module.ancestors(node)
            if isinstance(above, COMPREHENSIONS)
            for part in module.within(above, cst.CompFor)
        }
        self._around.update(module.loops(node))
        self._seen: set[cst.CSTNode] = set()
        self._look_at_names(node)

    def _look_at_names(self, node: cst.CSTNode) -> None:
        """Look at each name that an expression reads."""
        for name in self.module.within(node, cst.Name):
            if name not in self._seen and not self.module.is_label(name):
                self._seen.add(name)
                self._read(name)

    def _read(self, name: cst.Name) -> None:
        made = definitions_of(self.module, name)
        loops = self.module.loops(name)
        for loop in loops:
            inside = [each for each in made if self.module.is_within(each, loop.body)]
            more = self._additions(loop, name.value) if loop not in made else []
            if loop not in made and len(inside) < len(made):
                self.earlier |= bool(inside or more)
            for call in more:
                for arg in call.args:
                    self._look_at_names(arg.value)
        for each in made:
            if isinstance(each, cst.For | cst.CompFor) and each in self._around:
                self.loops.append(each)
            elif isinstance(each, cst.FunctionDef) and each is self.module.function(name):
                self.parameters.setdefault(each, set()).add(name.value)
            elif isinstance(each, (cst.Assign, cst.AugAssign)) and each.value is not None:
                self._look_at_names(each.value)
                if isinstance(each, cst.AugAssign):
                    self._look_at_names(each.target)

    def _additions(self, loop: cst.For | cst.While, name: str) -> list[cst.Call]:
        """Return the calls in a loop that add to what a name holds."""
        return [
            call
            for call in self.module.within(loop.body, cst.Call)
            if method_called(call) in _GROWS
            and isinstance(call.func, cst.Attribute)
            and is_name(call.func.value, name)
        ]


def _over_many(module: Module, loop: _Each) -> bool:
    """Say whether a loop takes single items of what is not known to hold a handful."""
    if isinstance(loop, cst.For) and any(
        last_name(call.func) in _SEEDS for call in module.within(loop.body, cst.Call)
    ):
        return False
    names = module.names_in(loop.target) | module.names_in(loop.iter)
    if any(_BATCHES.search(name.lower()) or called(name, LOADER) for name in names):
        return False
    over = loop.iter
    while isinstance(over, cst.Call) and last_name(over.func) in _WRAPS and positional(over):
        over = positional(over)[0]
    if isinstance(over, cst.Name):
        over = sole_definition(module, over) or over
    match over:
        case cst.List(elements) | cst.Tuple(elements) | cst.Dict(elements):
            return len(elements) >= _HANDFUL
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Slice(upper=cst.Integer(upper)))]):
            return int(upper) >= _HANDFUL
        case cst.Call(cst.Name("range")):
            bounds = positional(over)
            return len(bounds) < 3 and not _is_handful(module, bounds[-1])
    return True


def _is_handful(module: Module, bound: cst.BaseExpression) -> bool:
    """Say whether a bound is written down, or a parameter with a small default."""
    scope = module.function(bound)
    if scope is not None and isinstance(bound, cst.Name):
        params = parameters_of(scope)
        bound = next((p.default for p in params if p.name.value == bound.value), None) or bound
    return isinstance(bound, cst.Integer) and bound.evaluated_value < _HANDFUL


@question(
    yes="`{0}` may hold what an earlier iteration made", no="no earlier iteration goes into `{0}`"
)
def of_earlier(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression may hold what an earlier iteration of a loop around it made."""
    return _Origins(module, node).earlier
