"""What goes on around a training step: debug switches, profilers, loops over parameters, compiled
regions.

A part of `Module`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import local_class, method_of
from torchlint.semantic.code.tree import DISPLAYS, LOOPS, callee, components, is_name, method_called
from torchlint.semantic.code.unreached import unreached
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import iteration_count, loop_sources
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.values.inferred import inferred

_INVESTIGATION = regex(
    r"(^|[_/\-.])(debug\w*|repro\w*|issue\w*|minimal|scratch|bench\w*|profil\w*|perf|timing|sanity\w*)([_/\-.0-9]|$)"
    r"|[a-z](Debug|Profil|Bench)|^(Debug|Profil|Bench)",
    re.IGNORECASE,
)
_ALWAYS = regex(
    r"(^|[._])(is_available|(global_|local_)?rank|is_main_process|is_rank_zero)$", re.IGNORECASE
)
_TRAINS = regex(
    r"^(train|fit|run_training|training_loop|train_loop|train_(model|network|epoch|one_epoch))$"
)
_TRAINER = regex(r"(trainer|learner|engine|learn|runner)$", re.IGNORECASE)
_PARAMETERS = regex(r"(^|_)param(eter)?s$")

_DISABLE = frozenset(
    ("torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.skip", "torch.jit.ignore")
)
ANOMALY_SWITCH = frozenset(
    ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
)
ANOMALY_CONTEXT = frozenset(
    ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
)
"""What lets autograd look for NaN in what each operation of a backward pass gives."""
_DEPTH = 3
_PAIRS = ("named_parameters", "items")
_THROUGH = ("builtins.filter", "builtins.list", "builtins.tuple", "itertools.chain")
_TABLES = ("builtins.dict", "collections.OrderedDict")


# -- debug switches --------------------------------------------------------------------------------


def _always_runs(test: cst.BaseExpression) -> bool:
    """Say whether a condition is no choice of anybody: the main guard, a process's rank, whether
    there is a GPU."""
    left = test.left if isinstance(test, cst.Comparison) else test
    text = dotted_text(left.func if isinstance(left, cst.Call) else left) or ""
    return text == "__name__" or bool(_ALWAYS.search(text))


def _is_bounded(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a loop ends after a literal number of rounds, or by a ``break`` of its own."""
    assert isinstance(loop, LOOPS)
    breaks = (b for b in module.within(loop.body, cst.Break) if module.loops(b)[:1] == (loop,))
    return iteration_count(module, loop) is not None or any(True for _ in breaks)


def _starts_training(module: Module, call: cst.Call) -> bool:
    """Say whether a call of unknown code runs a training, by its name; ``model.train()`` only sets
    a mode."""
    func = call.func
    if isinstance(func, cst.Name):
        return bool(_TRAINS.match(func.value)) and not callees_of(module, call)
    if not isinstance(func, cst.Attribute) or not _TRAINS.match(func.attr.value):
        return False
    return bool(_TRAINER.search(dotted_text(func.value) or ""))


# -- parameters ------------------------------------------------------------------------------------


@question(yes="the loop iterates over parameters", no="the loop iterates over no parameters")
def over_parameters(module: Module, loop: cst.For | cst.CompFor) -> str | None:
    """Return the name that a loop over a model's or a group's parameters gives to each of them."""
    return next(iter(parameter_names(module, loop).tensors), None)


@frozen
class ParameterNames:
    """What a loop over parameters binds: names of parameters, names of what goes beside each of
    them, and names of their names."""

    tensors: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


@question()
def parameter_names(module: Module, loop: cst.For | cst.CompFor) -> ParameterNames:
    """Return what a loop over a model's or a group's parameters binds; nothing for other loops."""
    tensors: list[str] = []
    beside: list[str] = []
    keys: list[str] = []
    for goes in loop_sources(module, loop):
        target, iterated = goes.target, _listed(module, goes.iterated)
        pairs = isinstance(iterated, cst.Call) and method_called(iterated) in _PAIRS
        if pairs and isinstance(target, DISPLAYS) and len(target.elements) == 2:
            key, target = target.elements[0].value, target.elements[1].value
            if isinstance(key, cst.Name):
                keys.append(key.value)
        if not isinstance(target, cst.Name):
            continue
        if _keys(module, iterated):
            keys.append(target.value)
        elif _parameters(module, iterated) or _parameters(module, goes.iterated):
            tensors.append(target.value)
        else:
            beside.append(target.value)
    known = tensors or (keys and not beside)
    return ParameterNames(tuple(tensors), tuple(beside), tuple(keys)) if known else ParameterNames()


def _keys(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether going over an expression gives the names of a model's parameters."""
    if (
        isinstance(node, cst.Call)
        and method_called(node) == "keys"
        and isinstance(node.func, cst.Attribute)
    ):
        node = node.func.value
    return _table(module, node) and not (
        isinstance(node, cst.Call) and method_called(node) == "named_parameters"
    )


def _listed(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what is iterated behind ``filter(…)``, ``chain(…)`` and a name bound to such an
    expression."""
    for _ in range(_DEPTH):
        name = module.name(node.func) if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Call) and node.args and name in _THROUGH:
            node = node.args[-1].value
        elif isinstance(node, cst.Name) and isinstance(
            defined := sole_definition(module, node), cst.Call
        ):
            node = defined
        else:
            break
    return node


def _parameters(module: Module, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        if method_called(node) in ("items", "values") and isinstance(node.func, cst.Attribute):
            return _table(module, node.func.value) or _parameters(module, node.func.value)
        return method_called(node) in ("parameters", "named_parameters")
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        return isinstance(key, cst.SimpleString) and key.raw_value == "params"
    return bool(_PARAMETERS.search(last_part(node)))


def _table(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a dictionary holds a model's parameters by name."""
    made = sole_definition(module, node) if isinstance(node, cst.Name) else node
    if isinstance(made, cst.Call) and module.name(made.func) in _TABLES and made.args:
        made = made.args[0].value
    return isinstance(made, cst.Call) and method_called(made) in ("named_parameters", "state_dict")


# -- compiled regions ------------------------------------------------------------------------------


@question(ground=True)
def regions(module: Module) -> dict[cst.FunctionDef, cst.BaseExpression]:
    """Return the functions of this file that go into a graph of ``torch.compile``, with what
    compiles them."""
    found: dict[cst.FunctionDef, cst.BaseExpression] = {}
    todo = [*_compiled(module)]
    while todo:
        function, how = todo.pop(0)
        if function in found or _is_disabled(module, function):
            continue
        found[function] = how
        for call in module.within(function.body, cst.Call):
            todo.extend((callee, how) for callee in _runs(module, call))
    return found


def _compiled(module: Module) -> Iterator[tuple[cst.FunctionDef, cst.BaseExpression]]:
    for decorator in module.nodes(cst.Decorator):
        how, function = decorator.decorator, module.parent(decorator)
        if isinstance(function, cst.FunctionDef) and module.name(callee(how)) == "torch.compile":
            yield function, how
    for call in module.nodes(cst.Call):
        if module.name(call.func) == "torch.compile" and call.args and call.args[0].keyword is None:
            for function in _named(module, call.args[0].value):
                yield function, call
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "compile":
            # ``nn.Module.compile()`` compiles in place; `_named` knows modules from regular
            # expressions.
            for function in _named(module, call.func.value):
                yield function, call


def _named(module: Module, node: cst.BaseExpression) -> Iterator[cst.FunctionDef]:
    """Yield the function that an expression names, or the ``forward`` of the module it is, where in
    this file."""
    if isinstance(node, cst.Attribute) and node.attr.value == "forward":
        node = node.value
    made = inferred(module, node).node
    if isinstance(made, cst.FunctionDef):
        yield made
    elif isinstance(made, cst.ClassDef) and inferred(module, node).kind == "module":
        forward = method_of(module, made, "forward")
        if forward is not None:
            yield forward


def _runs(module: Module, call: cst.Call) -> Iterator[cst.FunctionDef]:
    for target in callees_of(module, call):
        if isinstance(target, cst.FunctionDef):
            yield target
    if inferred(module, call.func).kind == "module":
        yield from _named(module, call.func)
    yield from _forwards_held(module, call.func)


_HOLDERS = ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict")


def _forwards_held(module: Module, func: cst.BaseExpression) -> Iterator[cst.FunctionDef]:
    """Yield the ``forward`` of what a module of modules holds that is called: whole, by an index,
    or as what a loop over it binds."""
    holders = [func.value] if isinstance(func, cst.Subscript) else [func]
    if isinstance(func, cst.Name):
        loops = (made for made in definitions_of(module, func) if isinstance(made, cst.For))
        holders += [goes.iterated for loop in loops for goes in loop_sources(module, loop)]
    for holder in holders:
        made = inferred(module, holder).node
        if not isinstance(made, cst.Call) or module.name(made.func) not in _HOLDERS:
            continue
        for call in module.within(made, cst.Call, nested=True):
            cls = local_class(module, call.func)
            forward = method_of(module, cls, "forward") if cls is not None else None
            if forward is not None:
                yield forward


def _is_disabled(module: Module, function: cst.FunctionDef) -> bool:
    return any(module.name(callee(d.decorator)) in _DISABLE for d in function.decorators)


@question(
    yes="it only runs when somebody asks for it (a flag, a debug or profiling script)",
    no="it runs whether or not somebody asks for it",
)
def on_demand(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` runs only when somebody asks for it, or in code written to investigate
    something."""
    if is_benchmark(module, node) or unreached(module, node):
        return True
    if _INVESTIGATION.search(module.filename.replace("\\", "/").rpartition("/")[2]):
        return True
    if not all(
        _always_runs(part)
        for test, _ in conditions_around(module, node)
        for part in components(test, cst.UnaryOperation, cst.BooleanOperation)
    ):
        return True
    for above in module.ancestors(node):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef)) and _INVESTIGATION.search(
            above.name.value
        ):
            return True
        if isinstance(above, cst.Match):
            return True
    function = module.function(node)
    if function is None:
        return False
    sites = [site for site in call_sites(module, function) if not module.is_within(site, function)]
    return bool(sites) and all(on_demand(module, site) for site in sites)


@question(
    yes="`{0}` switches anomaly detection on", no="`{0}` does not switch anomaly detection on"
)
def detects_anomalies(module: Module, call: cst.Call) -> bool:
    """Say whether a call switches anomaly detection on, here or as a context."""
    name = module.name(call.func)
    if name in ANOMALY_CONTEXT:
        return context_of(module, call) is not None
    return name in ANOMALY_SWITCH and _gives_literal(module, call, "mode", "True")


@question(
    yes="`{answer}` makes each backward pass look for NaN on the host",
    no="nothing is known to make each backward pass look for NaN on the host",
)
def backward_reads(module: Module) -> cst.Call | None:
    """Return what switches anomaly detection on for all that the file does, and is switched off
    nowhere in it: each operation of a backward pass then is asked on the host whether it gave
    NaN."""
    calls = [call for call in module.nodes(cst.Call) if module.name(call.func) in ANOMALY_SWITCH]
    on = all(
        detects_anomalies(module, call) and not _gives_literal(module, call, "check_nan", "False")
        for call in calls
    )
    always = (
        call
        for call in calls
        if module.function(call) is None and not any(True for _ in conditions_around(module, call))
    )
    return next(always, None) if on else None


def _gives_literal(module: Module, call: cst.Call, name: str, word: str) -> bool:
    """Say whether a call that switches anomaly detection gives an argument that is written out."""
    context = module.name(call.func) in ANOMALY_CONTEXT
    callee = f"torch.autograd.{'detect_anomaly' if context else 'set_detect_anomaly'}"
    given = arguments_of(module, call, callee).value(name)
    return is_name(given, word)


@question(yes="`{0}` is the context of a `with`", no="`{0}` is no context of a `with`")
def context_of(module: Module, call: cst.Call) -> cst.With | None:
    """Return the ``with`` statement of which a call is a context."""
    item = module.parent(call)
    around = module.parent(item) if isinstance(item, cst.WithItem) else None
    return around if isinstance(around, cst.With) else None


@question(yes="training runs in there", no="no training step runs in there")
def runs_training(module: Module, place: cst.CSTNode, *, loops_alone: bool = False) -> bool:
    """Say whether code inside `place`, or a function called from there, does training steps.

    With `loops_alone` only loops count that nothing ends after a few steps, not single steps.
    """
    for loop in module.within(place, *LOOPS):
        kind = loop_kind(module, loop)
        if kind is LoopKind.TRAIN and not (loops_alone and _is_bounded(module, loop)):
            return True
        if kind is LoopKind.EPOCH and not loops_alone:
            return True
    calls = list(module.within(place, cst.Call))
    if any(
        (not loops_alone and is_step(module, call)) or _starts_training(module, call)
        for call in calls
    ):
        return True
    callees = [
        f for call in calls for f in callees_of(module, call) if isinstance(f, cst.FunctionDef)
    ]
    return any(runs_training(module, callee.body, loops_alone=loops_alone) for callee in callees)


@question(
    yes="a training loop runs in there",
    no="no training loop of more than a few steps runs in there",
)
def has_training_loop(module: Module, place: cst.CSTNode) -> bool:
    """Say whether code inside `place`, or a function called from there, trains for more than a few
    steps."""
    return runs_training(module, place, loops_alone=True)


@question(
    yes="the function is compiled (`{answer}`)",
    no="no torch.compile of this file reaches the function",
)
def compiled_by(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the ``torch.compile`` of this file into whose graph the code at `node` goes, or
    None."""
    function = module.function(node)
    return regions(module).get(function) if function is not None else None
