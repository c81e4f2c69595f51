"""How often does a line run, and why do we think so."""

from __future__ import annotations

import enum
import fnmatch
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.demands import NO_DEMANDS, Demands
from torchlint.semantic.code.evaluation import untrained
from torchlint.semantic.code.failures import fails_after
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.guards import guards
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.options import only_with_option, option_left_off
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import name_outside, scopes
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    OPEN,
    SUITES,
    Loop,
    Open,
    attr_of,
    is_name,
    method_called,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.entry_points import broken_import, uncalled, unused
from torchlint.semantic.time.iterations import iteration_count
from torchlint.semantic.time.loops import LoopKind, loops
from torchlint.semantic.time.runs import work_of_loop
from torchlint.semantic.torch.names import HOOKS_OF_A_STEP, MOVES
from torchlint.semantic.torch.spelling import LOADER, MODEL, SHOWING, called
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.params import used_as_tensor
from torchlint.semantic.values.value import Value

_LOSS_NAME = regex(
    r"(^|_)(loss|losses|criterion|grad(ient)?_penalty)(_|$|fn|func)|[a-z]Loss$", re.IGNORECASE
)
_NOT_LOSS = regex(
    r"^(get|build|make|create|set|init|plot|log|print|show|save|load|parse|add|update|record)_",
    re.IGNORECASE,
)
_REPORT = regex(
    r"(^|_)(get|plot|log|print|show|save|check|test|debug|report|inspect|record|visuali[sz]e)(_|$)",
    re.IGNORECASE,
)
_CHECK = regex(r"(^|_)(verify|sanity|check|smoke|debug|diagnose)(_|$)")
_EMPTIES = frozenset(("zero_", "detach_"))
_BATCH_STEP = regex(
    r"^_*((eval(uat\w+)?|valid(at\w+)?|val|test|predict|inference)_(one_)?(step|batch|iteration)|predict_on_batch|"
    r"(step|batch)_(eval|predict|inference|validate)|update_metrics|process_batch)$"
)
_BATCH_HOOK = regex(r"^on_((?P<train>train)|validation|test|predict)_batch_(start|end)$")
_GRADIENT_HOOK = regex(r"^on_(before_zero_grad|(before|after)_backward|before_optimizer_step)$")
"""Hooks of Lightning's modules and callbacks that run in each training step, beside those of a
batch (its page "Hooks")."""
_BACKWARD_HOOKS = frozenset(
    ("register_full_backward_hook", "register_backward_hook", "register_hook", "retain_grad")
)
_CALLBACK_HOOK = regex(
    r"^on_((?P<train>step_begin|step_end|substep_end|pre_optimizer_step|optimizer_step)"
    r"|prediction_step)$"
)
"""What the Trainer of transformers calls on a ``TrainerCallback`` for each step or batch (its page
"Callbacks")."""
_MODULE_METHOD = regex(
    r"^_*(predict\w*|full_sort_predict|decode|encode|forward_\w+|\w+_forward|forward\w*)$"
)
_METRIC = regex(r"(Metric|Meter|Accuracy|Evaluator|Average|Averager|Tracker)s?$")
_MOVING_AVERAGE = regex(r"(^|[a-z_])(EMA|Ema)([A-Z_]|$)|MovingAverage|ModelEma|^(Model)?Ema")
_TENSOR_METHOD = regex(
    r"^_*(neg_log\w*|nll\w*|log_(prob|likelihood)\w*|viterbi\w*|p_sample|q_sample|denoise\w*"
    r"|reparam\w*|sample(_from)?_?(posterior|latent|z|noise|action)?|act|evaluate_actions"
    r"|get_action\w*|embed\w*|infer(ence)?|translate|reconstruct\w*)$"
)
"""What a module does with tensors for each batch, besides what `_MODULE_METHOD` says."""
_MANY = 8
"""From how many runs of a model on what is done once before them costs next to nothing."""
_ALL_DATA = regex(r"Data(Loader|Set|Frame|Module)", re.IGNORECASE)
_COLLATE = regex(r"(^|_)collate", re.IGNORECASE)
_STEP_ROLE = regex(
    r"^_*(?P<train>train(ing)?|fit)?(val(id(ation)?)?|eval(uation)?|test|predict(ion)?)?_(one_)?(step|batch|minibatch)$"
)

_NO_USE = regex(r"^[ \t]*(#|import\b|from\b[^(\n]*$).*$", re.MULTILINE)
"""Lines that use no name."""

_NAMES = (_LOSS_NAME, _BATCH_STEP, _MODULE_METHOD, _TENSOR_METHOD, _STEP_ROLE)
"""Names that say how often a function runs where its callers do not."""


class Grade(enum.IntEnum):
    """How hot a line is; higher is hotter."""

    COLD = 0
    EPOCH = 1
    SAMPLE = 2
    FORWARD = 3
    EVAL = 4
    TRAIN = 5


@frozen
class Link:
    """One link in the chain of evidence that lies in another file, whose analysis may be gone."""

    text: str
    path: str
    row: int


@frozen
class Why:
    """One link in the chain of evidence.

    Args:
        text: what it says.
        node: the place in the file under analysis that it speaks of.
        elsewhere: the place in another file of the project, where it is one: that file's `Module`,
            and the node there, or its row.
    """

    text: str
    node: cst.CSTNode
    elsewhere: tuple[Module, cst.CSTNode] | Link | None = None


@question(ground=True)
def not_used(module: Module, node: cst.CSTNode) -> tuple[Why, ...]:
    """Return, as evidence, that the file of a node cannot be imported, that what follows it ends in
    an error, or that nothing in the program uses what it stands in, with a file that would and
    fails; nothing where it may be used."""
    if fails := cannot_run(module, node):
        return fails
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
    who = "only the self-test of its file" if tested else "nothing in this program"
    return Why(f"{who} uses `{name}`", next(homes, node))


@frozen
class Heat:
    """How often a line runs.

    Args:
        grade: how hot it is.
        why: the evidence.
        loop: the hot loop in its own function, if the heat comes from one.
        untrained: whether it is an evaluation's only because ``self.training`` is false there, or
            a mode says so.
        optional: whether it takes an option that is off by default to run that often, or somebody
            who uses what nothing uses here.
    """

    grade: Grade
    why: tuple[Why, ...] = ()
    loop: cst.CSTNode | None = None
    untrained: bool = False
    optional: bool = False

    @property
    def order(self) -> tuple[float, Grade]:
        """Where it stands among the heats of all that calls a function: what each forward pass
        calls as well is no evaluation's alone, nor an option's."""
        if self.hot and (self.untrained or self.optional):
            return Grade.FORWARD - (0.6 if self.optional else 0.3), self.grade
        return self.grade, self.grade

    @property
    def hot(self) -> bool:
        """Runs every training step, evaluation batch or forward pass."""
        return self.grade >= Grade.FORWARD

    @property
    def train(self) -> bool:
        """Runs every training step."""
        return self.grade is Grade.TRAIN

    @property
    def step(self) -> bool:
        """Runs every step that trains, or every forward pass (which training calls)."""
        return self.grade in (Grade.TRAIN, Grade.FORWARD)


@frozen
class Caller:
    """A place in another file that calls a method on ``self``: how often, and whether autograd is
    off there."""

    heat: Heat
    no_grad: bool | None
    call: cst.Call
    module: Module


COLD = Heat(Grade.COLD)
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
        place = self._place(node)
        if place not in self._heats:
            self._heats[place] = self._heat(place, depth)
        return self._heats[place]

    def _place(self, node: cst.CSTNode) -> cst.CSTNode:
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
                isinstance(loop, (cst.For, cst.While))
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
        yields = any(True for _ in self.tree.within(loop, cst.Yield))
        sampled = yields and self.scopes.is_dataset(self.tree.class_of(loop))
        return yields and not sampled and self._moves(loop)

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
        a block that ends in ``break`` or ``return`` runs once, however often the loop turns."""
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
        for entrance, way in self._ways_to(function, demands).items():
            found = COLD if self._kept(entrance) else called_elsewhere(self.module, entrance)
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
        return self._ways_to(first, self.guards.demands.around(node, first))

    def _ways_to(
        self, first: cst.FunctionDef, demands: Demands
    ) -> dict[cst.FunctionDef, tuple[Why, ...]]:
        found: dict[cst.FunctionDef, tuple[Why, ...]] = {first: ()}
        demanded = {first: demands}
        level = [first]
        for _ in range(_DEPTH):
            above: list[cst.FunctionDef] = []
            for function in level:
                spared = self.guards.demands.spared_calls(function, demanded[function])
                for site in self._sites(function):
                    caller = self.tree.function(site)
                    if caller is None or site in spared or self._rarely(site, caller):
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
        return found

    def _sites(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Return the calls in the file that may reach a function, of a constructor those that make
        an object."""
        cls = self.tree.class_of(function)
        if cls is None or function.name.value != "__init__":
            return self.flow.sites(function)
        return [] if self._kept(function) else self.loops.values.constructions(cls)

    def _kept(self, function: cst.FunctionDef) -> bool:
        """Say whether a function is the constructor of a network or a dataset, which is there for
        many steps, whatever the loop around is taken for."""
        cls = self.tree.class_of(function) if function.name.value == "__init__" else None
        return cls is not None and (self.scopes.is_module(cls) or self.scopes.is_dataset(cls))

    def _rarely(self, site: cst.Call, caller: cst.FunctionDef) -> bool:
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
        best = self._role(function)
        alone = best.hot and self._by_itself_alone(function)
        if alone and (self._rarely_called(function) or (spared and self._all_in_view(function))):
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
                case cst.Arg(value=cst.Attribute(value=cst.Name("self")) as given) as arg:
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
        cls = self.scopes.tree.class_of(function) if self.scopes.is_method(function) else None
        bases = self.scopes.base_names(cls) if cls is not None else ()
        return (
            name != "forward"
            and all(base.startswith("torch.") for base in bases)
            and not any(fnmatch.fnmatchcase(name, pattern) for pattern in self.module.assume_hot)
            and (
                any(pattern.search(name) for pattern in _NAMES)
                or self.loops.is_step_function(function)
                or self._reads_gradients(function)
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

    def _role(self, function: cst.FunctionDef) -> Heat:
        name = function.name.value
        cls = self.scopes.tree.class_of(function) if self.scopes.is_method(function) else None
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.module.assume_hot):
            return Heat(Grade.TRAIN, (Why(f"{name}() matches assume-hot", function),))
        if cls is not None:
            found = self._method_role(cls, function)
            if found is not None:
                return found
        if (
            self.loops.is_step_function(function)
            and (self.flow.sites(function) or not self.loops.updates.is_whole(function))
            and not self._checks(function)
            and not self._attributes(function)
        ):
            return Heat(Grade.TRAIN, (Why(f"{name}() is one training step", function),))
        step = _STEP_ROLE.match(name)
        if (
            step is not None
            and name.lstrip("_") not in ("step", "batch", "one_step", "one_batch", "minibatch")
            and not self._fits(function)
        ):
            grade = Grade.TRAIN if step["train"] else Grade.EVAL
            return Heat(grade, (Why(f"{name}() runs for every batch", function),))
        if _COLLATE.search(name):
            return Heat(
                Grade.SAMPLE, (Why(f"{name}() runs for every batch in the loader", function),)
            )
        if self._is_loss(function):
            return Heat(Grade.FORWARD, (Why(f"{name}() is a loss function", function),))
        if self._reads_gradients(function):
            text = f"{name}() reads gradients, which the backward() of each step makes"
            return Heat(Grade.TRAIN, (Why(text, function),))
        return COLD

    def _checks(self, function: cst.FunctionDef) -> bool:
        """Say whether a function, or one around it, tries a step to see whether training works."""
        around = (function, *self.tree.ancestors(function))
        names = (each.name.value for each in around if isinstance(each, cst.FunctionDef))
        return any(map(_CHECK.search, names))

    def _attributes(self, function: cst.FunctionDef) -> bool:
        """Say whether nothing in the file learns, and the backward passes of a function only tell
        what a prediction is due to: they start at one class of what a model gives, or hooks keep
        their gradients."""
        updates, calls = self.loops.updates, self.tree.nodes(cst.Call)
        if any(method_called(call) == "step" and updates.is_step(call) for call in calls):
            return False
        steps = updates.steps(function)
        hooked = any(method_called(call) in _BACKWARD_HOOKS for call in calls)
        return bool(steps) and all(
            method_called(step) == "backward" and (hooked or self._of_one_class(step.func))
            for step in steps
        )

    def _of_one_class(self, node: cst.BaseExpression) -> bool:
        """Say whether a backward pass starts at elements of a tensor: ``scores[0, label]``,
        ``scores[:, label].sum()``."""
        while isinstance(node, (cst.Attribute, cst.Call)):
            node = node.func if isinstance(node, cst.Call) else node.value
        if isinstance(node, cst.Name):
            made = [getattr(each, "value", None) for each in definitions_of(self.module, node)]
            return bool(made) and all(
                isinstance(each, (cst.Subscript, cst.Call)) and self._of_one_class(each)
                for each in made
            )
        return isinstance(node, cst.Subscript) and values(self.module).value(node.value).tensor

    def _fits(self, function: cst.FunctionDef) -> bool:
        """Say whether all steps of a function stand in loops of its own, or it goes over all
        batches, whatever its name says."""
        return not self.loops.updates.is_step_function(function) and any(
            self.loops.over_batches(loop)
            or (
                self.loops.kind(loop) is LoopKind.TRAIN
                and any(attr_of(step.func) == "step" for step in self.loops.updates.steps(loop))
            )
            for loop in self.tree.within(function, cst.For, cst.While)
        )

    def _reads_gradients(self, function: cst.FunctionDef) -> bool:
        """Say whether a function goes over parameters and computes with their gradients, and has no
        backward pass of its own; a report of them is made when somebody wants it."""
        if _REPORT.search(function.name.value):
            return False
        reads = any(
            is_name(grad.value, *(name.value for name in self.tree.within(loop.target, cst.Name)))
            and grad.attr.value == "grad"
            and self._computes(grad)
            for loop in self.tree.within(function, cst.For)
            for grad in self.tree.within(loop.body, cst.Attribute)
        )
        calls = self.tree.within(function, cst.Call) if reads else ()
        return reads and not any(map(self.loops.updates.is_step, calls))

    def _computes(self, grad: cst.Attribute) -> bool:
        """Say whether a gradient enters a computation: it is not only emptied, asked for, or
        handed to a board."""
        at: cst.CSTNode = grad
        above = self.tree.parents[at]
        while isinstance(above, cst.Attribute) or (
            isinstance(above, cst.Call) and above.func is at
        ):
            if attr_of(above) in _EMPTIES:
                return False
            at, above = above, self.tree.parents[above]
        taker = self.tree.parents[above] if isinstance(above, cst.Arg) else None
        if isinstance(taker, cst.Call) and called(attr_of(taker.func) or "", SHOWING):
            return False
        asked = isinstance(above, cst.Comparison) and at is not grad
        return asked or isinstance(above, (cst.Arg, cst.BinaryOperation))

    def _is_loss(self, function: cst.FunctionDef) -> bool:
        """Say whether a function computes a loss, by its name; what trains by itself does not."""
        name = function.name.value
        if not _LOSS_NAME.search(name) or _NOT_LOSS.search(name):
            return False
        if self.scopes.lexical_no_grad(function.body) is True:
            return False  # Nothing trains on what has no graph.
        returns = [each.value for each in self.tree.within(function, cst.Return)]
        off = any(
            self.scopes.lexical_no_grad(each.body) is True
            for each in self.tree.within(function, cst.With)
        )
        if off and returns and all(map(_is_read, returns)):
            return False  # Nor on a number of the host.
        if returns and all(map(_is_detached, returns)):
            return False
        calls = self.tree.within(function, cst.Call)
        trains = any(self.loops.updates.is_step(call) for call in calls)
        return not trains and _takes_tensors(self.module, function)

    def _method_role(self, cls: cst.ClassDef, function: cst.FunctionDef) -> Heat | None:
        name = function.name.value
        if name == "training_step":
            return Heat(Grade.TRAIN, (Why("training_step() runs every step", function),))
        if name in ("validation_step", "test_step", "predict_step"):
            return Heat(Grade.EVAL, (Why(f"{name}() runs for every batch", function),))
        hook = self._hook_role(cls, function)
        if hook is not None:
            return hook
        if _BATCH_STEP.match(name) and not self._fits(function):
            return Heat(Grade.EVAL, (Why(f"{name}() runs for every batch", function),))
        if name in ("update", "__call__", "add_batch") and self._is_metric(cls, function):
            return Heat(Grade.EVAL, (Why(f"{name}() of a metric runs for every batch", function),))
        if name == "compute_loss" and any(
            base.endswith("Trainer") for base in self.scopes.base_names(cls)
        ):
            return Heat(
                Grade.TRAIN, (Why("the Trainer calls compute_loss() every step", function),)
            )
        found = self._class_role(cls, function)
        if found is not None:
            return found
        if name == "forward" and self.scopes.is_module(cls) and not _takes_all(function):
            return Heat(Grade.FORWARD, (Why("forward() runs every step", function),))
        # ``predict(inputs, batch_size)`` or ``predict(loader: DataLoader)``: its body runs once for
        # all batches.
        given = {
            param.name.value for param in (*function.params.params, *function.params.kwonly_params)
        }
        batched = name.startswith("predict") and ("batch_size" in given or _takes_all(function))
        if (
            _MODULE_METHOD.match(name)
            and not batched
            and self.scopes.is_module(cls)
            and _takes_tensors(self.module, function)
        ):
            return Heat(
                Grade.FORWARD, (Why(f"{name}() of a module runs for every batch", function),)
            )
        if name in ("forward", "backward") and any(
            base in ("torch.autograd.Function", "torch.autograd.function.Function")
            for base in self.scopes.base_names(cls)
        ):
            return Heat(
                Grade.FORWARD, (Why(f"{name}() of an autograd function runs every step", function),)
            )
        if name in ("__getitem__", "__getitems__", "__iter__") and self.scopes.is_dataset(cls):
            return Heat(Grade.SAMPLE, (Why(f"{name}() runs for every sample", function),))
        return None

    def _hook_role(self, cls: cst.ClassDef, function: cst.FunctionDef) -> Heat | None:
        """Return how often Lightning, the Trainer of transformers, or the loop of another framework
        calls a hook."""
        name = function.name.value
        hook = _BATCH_HOOK.match(name)
        if hook is not None:
            grade = Grade.TRAIN if hook["train"] else Grade.EVAL
            return Heat(grade, (Why(f"Lightning calls {name}() for every batch", function),))
        if _GRADIENT_HOOK.match(name):
            return Heat(Grade.TRAIN, (Why(f"Lightning calls {name}() every step", function),))
        called_back = _CALLBACK_HOOK.match(name)
        if called_back is not None and self._is_trainer_callback(cls):
            grade = Grade.TRAIN if called_back["train"] else Grade.EVAL
            return Heat(grade, (Why(f"the Trainer calls {name}() every step", function),))
        for base in self.scopes.base_names(cls):
            package = base.partition(".")[0]
            for grade, hooks in zip(
                (Grade.TRAIN, Grade.EVAL), HOOKS_OF_A_STEP.get(package, ()), strict=False
            ):
                if name in hooks.split():
                    why = Why(f"{package} calls {name}() for every batch", function)
                    return Heat(grade, (why,))
        return None

    def _is_trainer_callback(self, cls: cst.ClassDef) -> bool:
        """Say whether the Trainer of transformers calls the methods of a class."""
        return any(
            base.endswith("TrainerCallback")
            or (base.startswith("transformers.") and base.endswith("Callback"))
            for base in self.scopes.base_names(cls)
        )

    def _class_role(self, cls: cst.ClassDef, function: cst.FunctionDef) -> Heat | None:
        """Return how often a method runs because of what its class is: a loss, an optimizer, a
        moving average, an iterator over batches, a module."""
        name = function.name.value
        calls = name in ("__call__", "forward") and self.scopes.is_loss(cls)
        if calls and _takes_tensors(self.module, function):
            return Heat(Grade.FORWARD, (Why(f"{name}() of a loss runs every step", function),))
        if name == "step" and self.scopes.is_optimizer(cls):
            return Heat(Grade.TRAIN, (Why("step() of an optimizer runs every step", function),))
        if name in ("update", "update_parameters", "step") and any(
            _MOVING_AVERAGE.search(each) for each in self._class_names(cls)
        ):
            text = f"{name}() of a moving average runs every step"
            return Heat(Grade.TRAIN, (Why(text, function),))
        if (
            name == "__next__"
            and not self.scopes.is_dataset(cls)
            and any(map(self._moves, self._with_helpers(cls, function)))
        ):
            return Heat(Grade.FORWARD, (Why("__next__() runs for every batch", function),))
        if (
            _TENSOR_METHOD.match(name)
            and self.scopes.is_module(cls)
            and _given_tensors(self.module, function)
        ):
            text = f"{name}() of a module runs for every batch"
            return Heat(Grade.FORWARD, (Why(text, function),))
        return None

    def _class_names(self, cls: cst.ClassDef) -> list[str]:
        """Return the names of a class and of what it derives from."""
        return [
            cls.name.value,
            *self.scopes.base_names(cls),
            *(c.name.value for c in self.scopes.lineage(cls)),
        ]

    def _moves(self, code: cst.CSTNode) -> bool:
        """Say whether code brings something to a device: batches, where it hands them on."""
        return any(method_called(call) in MOVES for call in self.tree.within(code, cst.Call))

    def _with_helpers(
        self, cls: cst.ClassDef, function: cst.FunctionDef
    ) -> Iterator[cst.BaseSuite]:
        """Yield the body of a method, and of the methods of its class that it calls."""
        yield function.body
        for call in self.tree.within(function.body, cst.Call):
            helper = self.scopes.method(cls, method_called(call) or "")
            if helper is not None and helper is not function:
                yield helper.body

    def _is_metric(self, cls: cst.ClassDef, function: cst.FunctionDef) -> bool:
        """Say whether a method is what a metric does for each batch; one that gets a model goes
        over a data set."""
        params = [
            param.name.value for param in (*function.params.params, *function.params.kwonly_params)
        ]
        if any(called(name, MODEL) for name in params) or not _takes_tensors(self.module, function):
            return False
        return any(_METRIC.search(name) for name in self._class_names(cls))

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


def _takes_all(function: cst.FunctionDef) -> bool:
    """Say whether a parameter is annotated as a whole data set, not as a batch of it, or called a
    loader."""
    if any(called(param.name.value, LOADER) for param in function.params.params):
        return True
    hints = [
        param.annotation.annotation
        for param in function.params.params
        if param.annotation is not None
    ]
    return any(_ALL_DATA.search(cst.Module([]).code_for_node(hint)) for hint in hints)


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
    return module.outside.others_say(handed_on, near=False) is False


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


def _given_tensors(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether the uses of a function's parameters, or their annotations, are a tensor's."""
    first = [p for p in function.params.params if p.name.value not in ("self", "cls")]
    used = used_as_tensor(values(module), function)
    return any(
        param.name.value in used
        or (
            param.annotation is not None
            and values(module).annotation(param.annotation.annotation).tensor
        )
        for param in first
    )


def _is_detached(node: cst.BaseExpression | None) -> bool:
    """Say whether an expression is a chain of methods, one of which leaves the graph behind."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value == "detach":
            return True
        node = node.func.value
    return False


def _is_read(node: cst.BaseExpression | None) -> bool:
    return method_called(node) == "item"


def _takes_tensors(module: Module, function: cst.FunctionDef) -> bool:
    first = [p.name.value for p in function.params.params if p.name.value not in ("self", "cls")]
    return any(
        values(module).name_evidence(function, name, Value()).tensor for name in first
    ) or any(
        name is not None and name.startswith("torch.")
        for call in module.within(function.body, cst.Call)
        for name in (module.name(call.func) or _forward_of(call),)
    )


def _forward_of(call: cst.Call) -> str | None:
    """Return a name of torch for ``self.part.forward(x)``."""
    func = call.func
    runs = attr_of(func) == "forward" and bool(call.args)
    return "torch.nn.Module.forward" if runs else None


@question(ground=True)
def callers_outside(module: Module, function: cst.FunctionDef) -> tuple[Caller, ...]:
    """Return the places in other files of the project where a base class calls this method on
    ``self``."""
    cls = module.class_of(function) if scopes(module).is_method(function) else None
    family = scopes(module).family_outside(cls) if cls is not None else []
    return tuple(module.outside.callers(family, function.name.value))
