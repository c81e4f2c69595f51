"""How often does a line run, and why do we think so."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.demands import NO_DEMANDS, Demands
from torchlint.semantic.code.evaluation import untrained
from torchlint.semantic.code.failures import fails_after
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.guards import guards
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.options import only_with_option, option_left_off
from torchlint.semantic.code.scopes import name_outside, scopes
from torchlint.semantic.code.tree import COMPREHENSIONS, FUNCTIONS, LOOPS, OPEN, SUITES, Loop, Open
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.entry_points import broken_import, shows_module, uncalled, unused
from torchlint.semantic.time.grades import COLD, Caller, Grade, Heat, Why
from torchlint.semantic.time.iterations import iteration_count
from torchlint.semantic.time.loops import LoopKind, loops
from torchlint.semantic.time.roles import NAMES, Roles, moves
from torchlint.semantic.time.runs import work_of_loop

_MANY = 8
"""From how many runs of a model on what is done once before them costs next to nothing."""

_NO_USE = regex(r"^[ \t]*(#|import\b|from\b[^(\n]*$).*$", re.MULTILINE)
"""Lines that use no name."""


@question(ground=True)
def not_used(module: Module, node: cst.CSTNode) -> tuple[Why, ...]:
    """Return, as evidence, that the file of a node cannot be imported, that what follows it ends in
    an error, or that nothing in the program uses what it stands in, with a file that would and
    fails; nothing where it may be used."""
    if fails := cannot_run(module, node):
        return fails
    if "__main__" in module.text and shows_module(module, node):
        return (Why("it only shows, when the file is run, what others import of it", node),)
    name = unused(module, node)
    if name is None:
        return ()
    why, failing = _no_use(module, name, node), module.outside.failing_user(name)
    return (Why(f"{why.text}, as {failing}", why.node) if failing is not None else why,)


def cannot_run(module: Module, node: cst.CSTNode) -> tuple[Why, ...]:
    """Return, as evidence, that the file of a node cannot be imported, or that what follows it ends
    in an error; nothing where it may run."""
    if (broken := broken_import(module)) is not None:
        return (Why(f"this file fails at import: {broken[1]}", broken[0]),)
    if (failure := fails_after(module, node)) is not None:
        return (Why(f"each run of it ends in an error: {failure[1]}", failure[0]),)
    return ()


def _no_use(module: Module, name: str, node: cst.CSTNode) -> Why:
    """Return that nothing uses what has a name, at its definition around a node."""
    last = name.rpartition(".")[2]
    homes = (
        each
        for each in (node, *module.ancestors(node))
        if isinstance(each, (cst.FunctionDef, cst.ClassDef)) and each.name.value == last
    )
    tested = module.outside.self_tested(name)
    who = "only the self-test of its file" if tested else "nothing that runs in this program"
    return Why(f"{who} uses `{name}`", next(homes, node))


REMEMBERS = ("functools.lru_cache", "functools.cache", "functools.cached_property")
"""Decorators of functions whose results are kept."""
_DECIDING = (
    cst.BaseStatement,
    cst.BaseSmallStatement,
    cst.BaseSuite,
    cst.Module,
    cst.Lambda,
    cst.IfExp,
)
"""What may run another number of times than what lies in it."""
_APPLYING = ("builtins.map", "builtins.filter")
_DEPTH = 4
"""Calls up which heat is looked for."""


class HeatMap:
    """Answers `heat(node)` for one file; results are remembered."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.tree = module.tree
        self.scopes = scopes(module)
        self.flow = flow(module)
        self.guards = guards(module)
        self.loops = loops(module)
        self.roles = Roles(module)
        self._functions: dict[tuple[cst.CSTNode, int, Demands], Heat] = {}
        self._from_elsewhere: dict[tuple[cst.CSTNode, Demands], Heat] = {}
        self._some: dict[cst.CSTNode, bool] = {}
        self._heats: dict[cst.CSTNode, Heat] = {}
        self._places: dict[cst.CSTNode, cst.CSTNode] = {}
        self._pending = 0

    def _maybe_elsewhere(self, function: cst.FunctionDef) -> bool:
        """Say whether another file may call a function often; nothing is analysed for it."""
        return self.module.outside.may_run_often(name_outside(self.module, function))

    def heat(self, node: cst.CSTNode, depth: int = _DEPTH) -> Heat:
        """Return how often `node` runs. Throttled places are cold."""
        if depth != _DEPTH or self._pending:
            # Of a function that is being judged, this is not the last word.
            return self._heat(node, depth)
        place = self._widest_alike(node)
        if place not in self._heats:
            self._heats[place] = self._heat(place, depth)
        return self._heats[place]

    def _widest_alike(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the largest part of a statement around `node` that runs as often, as nothing in it
        is conditional."""

        def largest(at: cst.CSTNode, above: cst.CSTNode | None) -> cst.CSTNode | Open:
            if above is None or isinstance(above, _DECIDING):
                return at
            return at if isinstance(above, cst.BooleanOperation) and at is above.right else OPEN

        return self.tree.climbed(node, self._places, largest)

    def _heat(self, node: cst.CSTNode, depth: int, handed: Demands = NO_DEMANDS) -> Heat:
        """Return how often `node` runs; a call, as often as parameters that it hands on are what
        `handed` demands."""
        found = self._in_any_mode(node, depth, handed)
        test = untrained(self.guards.conditions, node) if found.step else None
        if test is not None:
            attributes = self.tree.within(test, cst.Attribute)
            flag = any(each.attr.value == "training" for each in attributes)
            mode = "`self.training` is false" if flag else "the mode is one of evaluation"
            why = Why(f"only where {mode}: for every evaluation batch", test)
            found = replace(found, grade=Grade.EVAL, why=(why, *found.why), untrained=True)
        if found.hot and not found.optional:
            option = option_left_off(self.module, node, found.loop) or only_with_option(
                self.module, self.module.function(node)
            )
            if option is not None:
                why = Why("only where an option is on that nothing turns on", option)
                found = replace(found, why=(why, *found.why), optional=True)
        if found.hot and not found.optional and (evidence := not_used(self.module, node)):
            found = replace(found, why=(*evidence, *found.why), optional=True)
        return found

    def _in_any_mode(self, node: cst.CSTNode, depth: int, handed: Demands) -> Heat:
        function = self.scopes.tree.function(node)
        if function is not None and self.flow.shadowed(function):
            return COLD
        epoch: Heat | None = None
        others: list[Loop] = []
        repeating = list(self._repeating(node))
        for above in repeating:
            kind = self.loops.kind(above)
            alone = kind is LoopKind.EVAL or above is repeating[-1]
            if alone and self.guards.intervals.most_iterations(above) is not None:
                continue
            if kind in (LoopKind.TRAIN, LoopKind.EVAL):
                found = self._loop_heat(above, kind, node)
                within = others if found is COLD and kind is LoopKind.TRAIN else ()
                return self._run_heat(node, within) or found
            if kind is LoopKind.EPOCH:
                epoch = Heat(Grade.EPOCH, (Why("every epoch", above),), above)
                break
            others.append(above)
        found = COLD
        if function is not None and not self.guards.throttled(node, function):
            found = self.function_heat(function, depth)
            if found.hot and (demands := handed | self.guards.demands.around(node, function)):
                found = self.function_heat(function, depth, demands)
            if found.grade is Grade.FORWARD and not repeating and self._generates(function, node):
                found = COLD
            if found.hot:
                found = replace(found, why=(*self._always_due(node, function), *found.why))
        if epoch is not None and found.grade <= Grade.EPOCH:
            found = epoch
        return found if found.grade > Grade.EPOCH else self._run_heat(node, others) or found

    def _generates(self, function: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Say whether a function, in which autograd is off, always goes on from a place to a loop
        that runs a model in each iteration, as samplers do: what runs once for all of them costs
        next to nothing."""
        return (
            isinstance(function, cst.FunctionDef)
            and isinstance(function.body, cst.IndentedBlock)
            and self.scopes.lexical_no_grad(function.body) is True
            and any(
                isinstance(loop, LOOPS)
                and self.tree.order[node] < self.tree.order[loop]
                and (iteration_count(self.module, loop) or _MANY) >= _MANY
                and self.loops.has_model_call(loop.body)
                for loop in function.body.body
            )
        )

    def _run_heat(self, node: cst.CSTNode, others: Sequence[Loop]) -> Heat | None:
        """Return how often `node` runs where each pass of a loop around it hands on batches, or
        works on data."""
        for loop in others:
            hands_on = self._hands_on(loop)
            does = "hands on batches" if hands_on else work_of_loop(self.module, loop)
            if does:
                if self.guards.throttled(node, loop):
                    return COLD
                text = f"every pass of the loop, which {does}"
                grade = Grade.FORWARD if hands_on else Grade.EVAL
                return Heat(grade, (*self._always_due(node, loop), Why(text, loop)), loop)
        return None

    @remembered
    def _hands_on(self, loop: cst.CSTNode) -> bool:
        """Say whether each pass of a loop brings something to a device and yields: its function is
        a loader, written by hand. A dataset's own loop runs for each sample."""
        yields = self.tree.contains(loop, cst.Yield)
        sampled = yields and self.scopes.is_dataset(self.tree.class_of(loop))
        return yields and not sampled and moves(self.module, loop)

    def may_be_hot(self, node: cst.CSTNode) -> bool:
        """Say whether anything in the function around `node`, or at the file's top level, may be
        hot; a cheap bound."""
        owner = self.scopes.tree.function(node) or self.tree.root
        if owner not in self._some:
            self._some[owner] = (
                (isinstance(owner, cst.FunctionDef) and self._in_file(owner, _DEPTH).hot)
                or any(
                    self.loops.kind(loop) in (LoopKind.TRAIN, LoopKind.EVAL)
                    or self._hands_on(loop)
                    or work_of_loop(self.module, loop)
                    for loop in self.tree.within(owner, *LOOPS)
                )
                or (
                    isinstance(owner, cst.FunctionDef)
                    and any(map(self._maybe_elsewhere, self.entrances(owner)))
                )
            )
        return self._some[owner]

    def _repeating(self, node: cst.CSTNode) -> Iterator[Loop]:
        """Yield the loops of the same function that repeat a node, innermost first; what stands in
        a block that ends in ``break`` or ``return`` runs once, however often the loop repeats."""
        child = node
        last: type[cst.CSTNode] | None = None
        for above in self.tree.ancestors(node):
            kind = type(above)
            if kind in FUNCTIONS and not self._applied_there(above):
                return
            if kind in LOOPS and self._repeats(above, child):
                if last is None:
                    yield cast(Loop, above)
                elif last is cst.Break:
                    last = None
            elif kind in SUITES and last is not cst.Return:
                last = self.guards.conditions.ends_loop(above, node) or last
            child = above

    def _applied_there(self, function: cst.CSTNode) -> bool:
        """Say whether a lambda is applied to each element where it stands: ``map(lambda t:
        t.to(device), batch)``."""
        arg = self.tree.parents.get(function) if type(function) is cst.Lambda else None
        call = self.tree.parents.get(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call) or call.args[0] is not arg:
            return False
        return self.loops.names.name(call.func) in _APPLYING

    def _repeats(self, loop: cst.CSTNode, child: cst.CSTNode) -> bool:
        if isinstance(loop, cst.For):
            return child is loop.body
        return isinstance(loop, cst.While) and child in (loop.body, loop.test)

    def _loop_heat(self, loop: cst.CSTNode, kind: LoopKind, node: cst.CSTNode) -> Heat:
        if self.guards.throttled(node, loop):
            return COLD
        due = self._always_due(node, loop)
        if kind is LoopKind.TRAIN:
            return Heat(Grade.TRAIN, (*due, Why("every training step of the loop", loop)), loop)
        batch = "evaluation batch" if self.loops.evaluates(loop) else "batch"
        return Heat(Grade.EVAL, (*due, Why(f"every {batch} of the loop", loop)), loop)

    def _always_due(self, node: cst.CSTNode, until: cst.CSTNode) -> tuple[Why, ...]:
        """Return what is to be said of conditions around a node whose interval is 1."""
        return tuple(
            Why(
                "the condition holds every time: "
                + (f"`{name}` is 1" if (name := dotted_text(one)) else "its interval is 1")
                + (" unless it is set otherwise" if isinstance(one, cst.Attribute) else ""),
                one,
            )
            for one in self.guards.intervals.always_due(node, until)
        )

    def function_heat(
        self, function: cst.FunctionDef, depth: int = _DEPTH, demands: Demands = NO_DEMANDS
    ) -> Heat:
        """Return how often a function's body runs, by its role and by who calls it, those calls
        apart that give its parameters what is demanded now and then only; where its results are
        remembered, it runs once for each."""
        if any(name in REMEMBERS for _, name in self.scopes.decorators(function)):
            return COLD
        found = self._in_file(function, depth, demands)
        if depth < _DEPTH or self._pending or found.grade >= Grade.SAMPLE:
            return found
        key = function, demands
        if key not in self._from_elsewhere:
            self._from_elsewhere[key] = self._called_elsewhere(function, demands)
        return max((found, self._from_elsewhere[key]), key=lambda heat: heat.order)

    def _called_elsewhere(self, function: cst.FunctionDef, demands: Demands) -> Heat:
        """Return how often other files run a function, also through its callers in this one."""
        best = COLD
        for entrance, (way, demanded) in self._ways_to(function, demands).items():
            found = (
                COLD
                if self._is_constructor_kept(entrance)
                or self.guards.demands.flags.spared_elsewhere(entrance, demanded)
                else called_elsewhere(self.module, entrance)
            )
            if found.order > best.order:
                best = replace(found, why=(*way, *found.why))
            if best.hot and not best.optional:
                break
        return best

    def entrances(self, node: cst.CSTNode) -> dict[cst.FunctionDef, tuple[Why, ...]]:
        """Return the functions that, once called, come to `node` without a throttle, with the calls
        on the way; of a function itself, itself first."""
        first = node if isinstance(node, cst.FunctionDef) else self.tree.function(node)
        if first is None or (first is not node and self.guards.throttled(node, first)):
            return {}
        ways = self._ways_to(first, self.guards.demands.around(node, first))
        return {function: way for function, (way, _) in ways.items()}

    def _ways_to(
        self, first: cst.FunctionDef, demands: Demands
    ) -> dict[cst.FunctionDef, tuple[tuple[Why, ...], Demands]]:
        """Return the functions that, once called, come to the first one, each with the calls on the
        way and what is demanded of its parameters."""
        found: dict[cst.FunctionDef, tuple[Why, ...]] = {first: ()}
        demanded = {first: demands}
        level = [first]
        for _ in range(_DEPTH):
            above: list[cst.FunctionDef] = []
            for function in level:
                spared = self.guards.demands.spared_calls(function, demanded[function])
                given = (self.tree.parents[arg] for arg in self._handed_on(function))
                for site in (*self._sites(function), *cast(Iterator[cst.Call], given)):
                    caller = self.tree.function(site)
                    if caller is None or site in spared or self._is_rare(site, caller):
                        continue
                    handed = self.guards.demands.handed_on(site, function, demanded[function])
                    if caller in found and demanded[caller] <= handed:
                        continue
                    # What two calls come to is demanded of both.
                    demanded[caller] = demanded.get(caller, handed) & handed
                    called = Why(f"{function.name.value}() is called", site)
                    found.setdefault(caller, (*found[function], called))
                    above.append(caller)
            level = above
        return {function: (way, demanded[function]) for function, way in found.items()}

    def _sites(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Return the calls in the file that may reach a function, of a constructor those that make
        an object."""
        cls = self.tree.class_of(function)
        if cls is None or function.name.value != "__init__":
            return self.flow.sites(function)
        return [] if self._is_constructor_kept(function) else self.loops.values.constructions(cls)

    def _is_constructor_kept(self, function: cst.FunctionDef) -> bool:
        """Say whether a function is the constructor of a network or a dataset, which is there for
        many steps, whatever the loop around is taken for."""
        cls = self.tree.class_of(function) if function.name.value == "__init__" else None
        return cls is not None and (self.scopes.is_module(cls) or self.scopes.is_dataset(cls))

    def _is_rare(self, site: cst.Call, caller: cst.FunctionDef) -> bool:
        return self.guards.reached.unreached(site) or self.guards.throttled(site, caller)

    def _in_file(
        self, function: cst.FunctionDef, depth: int, demands: Demands = NO_DEMANDS
    ) -> Heat:
        """Return how often a function's body runs by its role and by who calls it in this file."""
        key = function, depth, demands
        if key not in self._functions:
            self._functions[key] = COLD  # A recursive call adds nothing to a function's heat.
            self._pending += 1
            self._functions[key] = self._function_heat(function, depth, demands)
            self._pending -= 1
        return self._functions[key]

    def _function_heat(self, function: cst.FunctionDef, depth: int, demands: Demands) -> Heat:
        spared = self.guards.demands.spared_calls(function, demands)
        best = self.roles.role(function)
        if (
            best.hot
            and self._by_itself_alone(function)
            and (
                self._rarely_called(function)
                or (spared and self._all_in_view(function))
                or self.guards.demands.flags.spared_elsewhere(function, demands)
            )
        ):
            best = COLD
        if best is not COLD and uncalled(self.module, function) is not None:
            best = COLD  # Its name says what it was written for, and nobody calls it.
        if depth == 0:
            return best
        for site in self._sites(function):
            if self.scopes.tree.function(site) is function or self.guards.reached.unreached(site):
                continue
            if site in spared:
                continue
            handed = self.guards.demands.handed_on(site, function, demands)
            found = self._heat(site, depth - 1, handed) if handed else self.heat(site, depth - 1)
            if found.order > best.order:
                called = Why(f"{function.name.value}() is called", site)
                best = replace(found, why=(called, *found.why), loop=None)
        best = max((best, *self._from_base_classes(function)), key=lambda heat: heat.order)
        for place in self._handed_on(function):
            found = self.heat(place, depth - 1)
            if found.order > best.order:
                passed = Why(f"{function.name.value}() is handed on", place)
                best = replace(found, why=(passed, *found.why), loop=None)
        owner = self.scopes.tree.function(function)
        if owner is not None and not self.flow.sites(function) and self.flow.escapes(function):
            found = self.heat(function, depth - 1)
            if found.order > best.order:
                passed = Why(f"{function.name.value}() is passed on", function)
                best = replace(found, why=(passed, *found.why), loop=None)
        return best

    def _handed_on(self, function: cst.FunctionDef) -> Iterator[cst.Arg]:
        """Yield where a method that no call of this file names is handed to code out of view, which
        may run it: ``checkpoint(self._forward, x)``."""
        if self.tree.class_of(function) is None or self.flow.sites(function):
            return
        for name in self.tree.named(function.name.value):
            method = self.tree.parents[name]
            match self.tree.parents.get(method):
                case cst.Arg(cst.Attribute(cst.Name("self")) as given) as arg:
                    call = self.tree.parents[arg]
                    if (
                        given is method
                        and isinstance(call, cst.Call)
                        and not self.flow.callees(call)
                    ):
                        yield arg

    def _by_itself_alone(self, function: cst.FunctionDef) -> bool:
        """Say whether nothing but a function's name, or a step in it, says that it runs often: no
        library calls it."""
        name = function.name.value
        cls = self.scopes.tree.class_of(function) if self.scopes.tree.is_method(function) else None
        bases = self.scopes.base_names(cls) if cls is not None else ()
        return (
            name != "forward"
            and all(base.startswith("torch.") for base in bases)
            and not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.module.assume_hot)
            and (
                any(pattern.search(name) for pattern in NAMES)
                or self.loops.is_step_function(function)
                or self.roles.reads_gradients(function)
            )
        )

    def _all_in_view(self, function: cst.FunctionDef) -> bool:
        """Say whether all uses of a function are calls in this file, or in another one where they
        run once."""
        called = {site.func for site in self.flow.sites(function)}
        return (
            not self._maybe_elsewhere(function)
            and all(
                use is function.name or use in called or self.tree.parents[use] in called
                for use in self.tree.named(function.name.value)
            )
            and (bool(called) or once_elsewhere(self.module, function))
        )

    def _rarely_called(self, function: cst.FunctionDef, depth: int = _DEPTH) -> bool:
        """Say whether all uses of a function are calls in view, each behind an interval or outside
        of loops but those over epochs."""
        return (
            depth > 0
            and self._all_in_view(function)
            and all(self._rare_site(site, depth) for site in self.flow.sites(function))
        )

    def _rare_site(self, site: cst.Call, depth: int) -> bool:
        caller = self.tree.function(site)
        if self.guards.throttled(site, caller):
            return True
        if any(self.loops.kind(loop) is not LoopKind.EPOCH for loop in self._repeating(site)):
            return False
        around = itertools.takewhile(lambda at: at is not caller, self.tree.ancestors(site))
        if any(isinstance(above, (cst.Lambda, *COMPREHENSIONS)) for above in around):
            return False
        return caller is None or self._rarely_called(caller, depth - 1)

    def _from_base_classes(self, function: cst.FunctionDef) -> Iterator[Heat]:
        """Yield the heat of the places where a base class in another file calls this method."""
        for caller in callers_outside(self.module, function):
            links = (
                Why(why.text, function, why.elsewhere or (caller.module, why.node))
                for why in caller.heat.why
            )
            called = Why(
                f"{function.name.value}() is called by a base class",
                function,
                (caller.module, caller.call),
            )
            yield Heat(caller.heat.grade, (called, *links))

    def inner_loop(self, node: cst.CSTNode, heat: Heat) -> cst.CSTNode | None:
        """Return the innermost loop or comprehension between `node` and its hot loop or function,
        if any."""
        function = self.scopes.tree.function(node)
        repeating = next(self._repeating(node), None)
        child = node
        for above in self.tree.ancestors(node):
            if above is heat.loop or above is function:
                return None
            if above is repeating:
                return repeating
            if isinstance(above, COMPREHENSIONS) and not isinstance(child, cst.CompFor):
                return above
            child = above
        return None


@question(ground=True)
def heat_map(module: Module) -> HeatMap:
    """Return how often the code of a file runs."""
    return HeatMap(module)


@question(ground=True)
def called_elsewhere(module: Module, function: cst.FunctionDef) -> Heat:
    """Return how often other files of the project call a function of this one, through any
    callers of callers there."""
    found = module.outside.hottest_call(name_outside(module, function))
    if found is None:
        return COLD
    why = tuple(Why(link.text, function, link) for link in found.why)
    return Heat(found.grade, why, optional=found.optional)


@question(ground=True)
def once_elsewhere(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether other files of the project call a function, each call runs once, and none of them
    hands it on."""
    calls = module.outside.calls(name_outside(module, function))
    if not calls or not all(call.once for call in calls):
        return False
    handed_on = functools.partial(_handed_on, function.name.value)
    return module.outside.others_say(handed_on) is False


def _handed_on(name: str, text: str) -> bool:
    """Say whether a file says a name elsewhere than in an import, a definition, a call or a
    comment."""
    if name not in text:
        return False
    return re.search(rf"\b{name}\b(?!\s*\()", _NO_USE.sub("", text)) is not None


@question(ground=True, remember=False)
def entrances(module: Module, node: cst.CSTNode) -> dict[cst.FunctionDef, tuple[Why, ...]]:
    """Return the functions of this file that, once called, come to `node` without a throttle, with
    the calls on the way."""
    return heat_map(module).entrances(node)


@question(yes="the line runs often", no="the line rarely runs", ground=True)
def heat_of(module: Module, node: cst.CSTNode) -> Heat:
    """Return how often `node` runs; throttled places are cold."""
    return heat_map(module).heat(node)


@question(yes="the line runs often", no="the line rarely runs", ground=True)
def may_be_hot(module: Module, node: cst.CSTNode) -> bool:
    """Say whether anything in the function around `node` may be hot: False is certain, and cheaper
    than `heat`."""
    return heat_map(module).may_be_hot(node)


@question(ground=True)
def hot_nodes(module: Module, kind: type[cst.CSTNode]) -> Sequence[cst.CSTNode]:
    """Return the nodes of a type of which `may_be_hot` says that they may."""
    owners = module.tree.owners
    hot: dict[cst.CSTNode, bool] = {}
    for node in module.nodes(kind):
        if owners[node] not in hot:
            hot[owners[node]] = heat_map(module).may_be_hot(node)
    return [node for node in module.nodes(kind) if hot[owners[node]]]


@question(yes="the line runs often", no="the line rarely runs", ground=True, remember=False)
def function_heat(module: Module, function: cst.FunctionDef) -> Heat:
    """Return how often a function's body runs."""
    return heat_map(module).function_heat(function)


@question(yes="the loop is in sight whose steps hold it", no="no loop is in sight around it")
def loop_in_sight(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the loop is known in whose steps a node runs: a ``forward`` may have none."""
    return any(
        isinstance(why.node, LOOPS) or why.elsewhere is not None
        for why in heat_of(module, node).why
    )


@question(yes="a loop within the step repeats it", no="no loop within the step repeats it")
def inner_loop(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the loop or comprehension that repeats `node` within one hot step, or None."""
    return heat_map(module).inner_loop(node, heat_of(module, node))


@question(ground=True)
def callers_outside(module: Module, function: cst.FunctionDef) -> tuple[Caller, ...]:
    """Return the places in other files of the project where a base class calls this method on
    ``self``."""
    cls = module.class_of(function) if module.is_method(function) else None
    family = scopes(module).family_outside(cls) if cls is not None else []
    return tuple(module.outside.callers(family, function.name.value))
