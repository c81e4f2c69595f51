"""Run evaluation under torch.no_grad()

## Why
Outside of `no_grad` every forward pass records an autograd graph and keeps its intermediate results
for a backward pass that never comes (tuning guide of the PyTorch docs: "Disable gradient
calculation for validation or inference"). `model.eval()` does not change that; it is "completely
orthogonal" to the grad mode (autograd mechanics page). `no_grad` rather than `inference_mode`:
tensors made in inference mode cannot be used in autograd later.

Flagged, where neither the function nor its callers in the file switch autograd off, and nothing
there asks for gradients:

- a model call in a loop over batches without a training step, where the function's name, the
  loader's name or a call of `eval()` says that this is evaluation; or one call in a function of
  such a name that calls `eval()` itself;
- a model call in a training step of whose result only `.detach()` or `.data` is used, where another
  call of that model trains it: a discriminator's step needs no graph of the generator;
- a call of a function that trains behind a flag, with the flag off, `run(model, val, train=False)`:
  its backward pass and its optimizer's step are not made, and nothing that it returns has a use for
  the graph;
- a discriminator's loss that goes back through the generator, whose gradients are cleared before
  its own optimizer steps: `.detach()` what the discriminator takes;
- whatever a function is called: a model, or a method of a network that runs it, whose output is
  followed to the end (through names, containers, helpers, returns) and reaches no gradient, in a
  loop, where a function evaluates, acts or samples, or in a script that calls `eval()` and asks for
  no gradient.

Silent where a script runs the network fewer than sixteen times, as its loops say, outside of
training, and where an end is not known. The fix decorates the function, or puts the loop, or a statement
and its neighbours, into a block; none around a statement that hands the output to other code, or
under autocast.

## Setup
```python
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader([(torch.ones(4), torch.ones(1)) for _ in range(8)], batch_size=2)
```

## Bad
```python
def evaluate(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += loss_fn(model(x), y).item()
    return total


score = evaluate(model, loader)
```

## Good
```python
@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += loss_fn(model(x), y).item()
    return total


score = evaluate(model, loader)
```

## Leave alone
The caller holds `no_grad`.
```python
def validate(model, loader):
    model.eval()
    for x, y in loader:
        print(model(x).mean().item())


def run(model, loader):
    with torch.no_grad():
        return validate(model, loader)
```

A flag decides at run time.
```python
def evaluate(model, loader, train=False):
    with torch.set_grad_enabled(train):
        for x, y in loader:
            print(model(x).mean().item())
```

## Fix safety
Safe in an ordinary program where each output is followed to its end, and that is a number, a
position, an array or something else without a graph; in an evaluation, what a method of an unknown
object gives may leave what is known, as it is taken to have no graph. Unsafe
elsewhere: the outputs no longer have a `grad_fn`, so code that back-propagates them would fail, and a tensor that is printed or saved as it
is shows that it has none. Under autocast it is unsafe as well: the casts of the weights that it
keeps would have no graph.
`.detach()` in a discriminator's step is unsafe: the generator's `.grad` has no part of that loss.
Where a comment at the call speaks of `no_grad`, the fix is only suggested. So it is where a package
hands the outputs to callers that are not in view, as no file of the project calls the function.

## Measure
Timed is one evaluation of eight batches, whose total is read on every batch. What is saved is
recording the graph, on a CPU and on a GPU; that is little next to large products. The larger gain
is memory, which this does not time.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(64, 1)).to(device)
loader = [(torch.randn(16, 64, device=device), torch.randn(16, 1, device=device)) for _ in range(8)]
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod

import libcst as cst

from torchlint.base.regex import regex
from torchlint.fixes.expressions import method_call
from torchlint.rule import (
    Fix,
    Grade,
    Hit,
    Module,
    NeedImport,
    Prepend,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    inferred,
)
from torchlint.rules.training._eval_without_no_grad.critics import vain_backward
from torchlint.rules.training._eval_without_no_grad.fixes import around, without_graph
from torchlint.rules.training._eval_without_no_grad.inference import (
    EVALUATION,
    called_by_framework,
    callers_decide,
    calls_eval,
    decides_on_autograd,
    evaluates_by_name,
    foreign,
    matters,
    may_matter,
    may_run_backward,
    only_evaluated,
    only_tried,
    serves_training,
    still_by_project,
    switched_off_elsewhere,
    trains_nothing,
    volatile,
    works_on_host,
)
from torchlint.rules.training._eval_without_no_grad.passes import (
    calls_trainer,
    passes_without_training,
)
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.text import explained
from torchlint.semantic.code.tree import LOOPS, method_called
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.entry_points import called_out_of_view
from torchlint.semantic.time.grades import Heat
from torchlint.semantic.time.iterations import iteration_count
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.uses.frozen import is_frozen, made_frozen
from torchlint.semantic.uses.gradients import (
    detached_for_nothing,
    differentiates,
    proves_no_grad,
)
from torchlint.semantic.uses.graph_use import GraphOutcome, graph_fate, handed_on
from torchlint.semantic.uses.networks import (
    freezes_itself,
    keeps_what_it_computes,
    may_train_itself,
    records_nothing,
    runs_module_method,
)
from torchlint.semantic.values.classes import in_lightning
from torchlint.semantic.values.inferred import is_model_call
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

_SINGLE = "inference builds an autograd graph; run it under torch.no_grad()."
_DETACHED = (
    "only the detached result is used, so recording the graph is wasted; run it under "
    "torch.no_grad()."
)

_VAIN = (
    "the loss goes back through the model that made `{fake}`, and its gradients are cleared "
    "unused; give `{fake}.detach()`."
)
_VAIN_NOTE = "The model that made it gets no gradients from this loss."
_UNUSED = (
    "no gradient is computed from the result, so recording its graph is wasted; run it under "
    "torch.no_grad()."
)
_PASSES = (
    "`{call}(…)` makes no backward pass here, so recording the graphs is wasted; call it under "
    "torch.no_grad()."
)
_SPOKEN = regex(r"\b(?:no_grad|inference_mode|set_grad_enabled)\b")
_SAID = "A comment there speaks of no_grad, and may say why there is none."
_OTHERS = "A package offers this to others, who may want the graph."
_SEVERAL = 2

_ON_CPU = " It runs on the CPU, where no GPU loses by that."
_OFTEN = 16
"""Forward passes from which on a graph that nobody wants costs anything."""

rule = Rule(
    __name__,
    __doc__,
    code="TL501",
    message="evaluation loop builds an autograd graph; wrap it in torch.no_grad().",
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"model", b"net", b"val", b"test", b"infer", b"predict", b"detach", b".data", b"nn."),
    runs="once",
)


@rule.on(cst.Call, where=may_matter)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not _may_record(module, node) or _runs_few(module, node):
        return
    if _evaluates(module, node) and _is_first(module, node):
        heat = heat_of(module, node)
        fix = _offered(module, node, _fix(module, node, heat))
        message = None if heat.loop is not None else _SINGLE
        yield _graded(module, Hit(node, fix=fix, message=message, cause=heat.loop))
    elif _is_unused(module, node) and _first_unused(module, node):
        fix = around(module, node, partial(_in_vain, module))
        yield _graded(module, Hit(node, message=_UNUSED, fix=_offered(module, node, fix)))


def _runs_few(module: Module, node: cst.Call) -> bool:
    """Say whether a script runs the network a few times, as its loops say, and does not train."""
    loops = module.loops(node)
    times = prod(iteration_count(module, each) or _OFTEN for each in loops)
    trains = any(loop_kind(module, each) in (LoopKind.TRAIN, LoopKind.EPOCH) for each in loops)
    return bool(loops) and times < _OFTEN and not trains and module.function(node) is None


def _graded(module: Module, hit: Hit) -> Hit:
    """Return a hit that is a hint where it takes what was made on the CPU, and runs there: a batch
    that nobody has moved may be an oversight."""
    args = hit.node.args if isinstance(hit.node, cst.Call) else ()
    values = [inferred(module, arg.value) for arg in args]
    made = any(v.tensor and v.device == CPU and v.origin == "factory" for v in values)
    if not made or any(v.device in (CUDA, ACCEL) for v in values):
        return hit
    message = (hit.message or rule.message) + _ON_CPU
    return replace(hit, message=message, severity=Severity.INFO)


def _offered(module: Module, node: cst.Call, fix: Fix | None) -> Fix | None:
    """Return a fix, only suggested where a comment there may say why there is no ``no_grad``, or
    where those who get the result are not in view."""
    if fix is None:
        return None
    if explained(module, node, _SPOKEN):
        return Fix(fix.edits, Safety.SUGGESTION, fix.title, _SAID)
    if called_out_of_view(module, node) and graph_fate(module, node) > GraphOutcome.SHOWN:
        return Fix(fix.edits, Safety.SUGGESTION, fix.title, _OTHERS)
    return fix


@question()
def _evaluates(module: Module, node: cst.Call) -> bool:
    """Say whether a model runs in an evaluation, by its name or its loader's, in which nothing asks
    for gradients."""
    if not _records(module, node) or in_lightning(module, node):
        return False
    heat, home = heat_of(module, node), module.scope(node)
    if heat.grade is not Grade.EVAL and (heat.grade > Grade.EPOCH or not evaluates_by_name(home)):
        return False
    loop = _loop(module, heat, home)
    homes = {home, *(module.scope(w.node) for w in heat.why)}
    if heat.grade is Grade.EVAL and loop is not None:
        homes.add(module.scope(loop))
        wanted = _held_out(module, loop) or any(
            evaluates_by_name(place) or calls_eval(module, place) for place in homes
        )
        places = [loop, *(place for place in homes if not module.is_within(loop, place))]
    else:
        wanted = heat.grade <= Grade.EPOCH and evaluates_by_name(home) and calls_eval(module, home)
        homes, places = {home}, [home]
    if heat.grade is Grade.EVAL and heat.loop is None and not only_evaluated(module, home):
        return False
    if (
        not wanted
        or no_grad(module, node) is not False
        or any(differentiates(module, p) for p in places)
    ):
        return False
    off = is_frozen(module, node.func) or volatile(module, node)
    off = off or _without_graph(module, node) or still_by_project(module, node.func)
    off = off or switched_off_elsewhere(module, node) or decides_on_autograd(module, node)
    off = off or any(proves_no_grad(module, place) for place in homes)
    if off:
        return False
    fate = graph_fate(module, node)
    unknown = fate is GraphOutcome.UNKNOWN
    return fate < GraphOutcome.UNKNOWN or (unknown and not serves_training(module, home))


@rule.on(cst.Call, runs="train")
def check_detached(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a model that records a graph in a training step, of which nothing is used: a GAN's
    generator, a target."""
    if _trainable(module, node) and _only_detached(module, node):
        yield Hit(node, message=_DETACHED, fix=around(module, node, partial(_in_vain, module)))


@rule.on(cst.Call, about=calls_trainer)
def check_passes(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a pass over data that a flag keeps from training: ``run(model, val, train=False)``."""
    if no_grad(module, node) is False and passes_without_training(module, node):
        yield Hit(node, {"call": module.shown(node.func)}, message=_PASSES)


# The gradients of the generator are cleared, and those of the critic.
@rule.on(cst.Call, runs="train", file=lambda module: module.text.count("zero_grad") > 1)
def check_critic(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a critic whose loss goes back through the generator, and whose step alone follows."""
    fake = vain_backward(module, node)
    if fake is not None:
        new = method_call(fake, "detach")
        fix = Fix((Replace(fake, new),), Safety.UNSAFE, "Detach what the model takes", _VAIN_NOTE)
        yield Hit(fake, {"fake": module.shown(fake)}, fix, message=_VAIN)


def _in_vain(module: Module, node: cst.Call) -> bool:
    return _is_unused(module, node) or _only_detached(module, node)


@question()
def _only_detached(module: Module, node: cst.Call) -> bool:
    """Say whether of a model's output in a training step only what is detached is used."""
    if not _trainable(module, node) or not detached_for_nothing(module, node):
        return False
    if no_grad(module, node) is not False:  # callers are asked, in other files too
        return False
    if _is_unused(module, node) or _evaluates(module, node):
        return False
    off = is_frozen(module, node.func) or _without_graph(module, node) or volatile(module, node)
    return not (off or decides_on_autograd(module, node))


def _without_graph(module: Module, node: cst.Call) -> bool:
    """Say whether a call records nothing: the model is frozen where it is made, and what it is
    given carries no graph."""
    return made_frozen(module, node.func) and not any(
        inferred(module, arg.value).grad for arg in node.args
    )


@question()
def _is_unused(module: Module, node: cst.Call) -> bool:
    """Say whether a model runs again and again, or where nothing is trained, and its graph ends
    unused."""
    if not _may_record(module, node):
        return False
    if in_lightning(module, node) or not matters(module, node):
        return False
    quiet = trains_nothing(module, node)
    if not graph_fate(module, node, nothing_trains=quiet).ended:
        return False
    if no_grad(module, node) is not False:  # callers are asked, in other files too
        return False
    model = node.func
    if isinstance(model, cst.Attribute) and inferred(module, model).kind != "module":
        model = model.value  # ``policy.sample(x)``
    frozen = is_frozen(module, node.func) or freezes_itself(module, model)
    frozen = frozen or _without_graph(module, node)
    if frozen or still_by_project(module, model) or called_by_framework(module, node):
        return False
    if callers_decide(module, node) or switched_off_elsewhere(module, node):
        return False
    if only_tried(module, node) and module.function(node) is not None:
        return False
    if decides_on_autograd(module, node) or may_run_backward(module, node):
        return False
    kept = keeps_what_it_computes(module, model)
    return not (kept or volatile(module, node) or foreign(module, model))


def _may_record(module: Module, node: cst.Call) -> bool:
    """Say whether a call runs a network, or gives what one gave."""
    return _records(module, node) or _is_shared(module, node)


def _records(module: Module, node: cst.Call) -> bool:
    """Say whether a call runs a network, by a method of its class too."""
    return _trainable(module, node) or runs_module_method(module, node)


def _is_shared(module: Module, node: cst.Call) -> bool:
    """Say whether a call of a function of this file gives the output of a model, which other calls
    of it train."""
    callees = callees_of(module, node)
    function = callees[0] if len(callees) == 1 else None
    if not isinstance(function, cst.FunctionDef) or len(call_sites(module, function)) < _SEVERAL:
        return False
    return _gives_output(module, function)


@question(yes="it gives what a model gave it", no="it gives no output of a model")
def _gives_output(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether a function returns the output of a model, and what becomes of it differs from
    call to call, or is not known."""
    for call in module.within(function, cst.Call):
        if _records(module, call) and handed_on(module, function, call):
            return no_grad(module, call) is not True and graph_fate(module, call) in (
                GraphOutcome.WANTED,
                GraphOutcome.UNKNOWN,
            )
    return False


def _first_unused(module: Module, node: cst.Call) -> bool:
    """Say whether no earlier call of the same loop, or of the function outside of loops, is
    flagged, to whose block this one may be added: no model runs between them whose graph is
    used."""
    loop, first = module.loop(node), True
    for call in module.within(loop or module.scope(node), cst.Call):
        if call is node:
            break
        if module.loop(call) is not loop:
            continue
        if _evaluates(module, call) or _is_unused(module, call):
            first = False
        elif not first and is_model_call(module, call):
            first = graph_fate(module, call) is GraphOutcome.WANTED
    return first


def _trainable(module: Module, node: cst.Call) -> bool:
    """Say whether the call runs a model that may have parameters, and that does not switch autograd
    off itself."""
    if not is_model_call(module, node) or (method_called(node) == "generate"):
        return False
    func = node.func
    if isinstance(func, cst.Attribute) and func.attr.value == "forward":
        func = func.value
    silent = records_nothing(module, func) or works_on_host(module, node)
    return not (silent or may_train_itself(module, node))


def _loop(module: Module, heat: Heat, home: cst.CSTNode) -> cst.CSTNode | None:
    """Return the loop over batches that makes a place hot: by the evidence, or because it calls the
    function."""
    sites = [loop for site in call_sites(module, home) for loop in module.loops(site)]
    found = [w.node for w in heat.why if isinstance(w.node, LOOPS)]
    return next(iter((*found, *sites)), None)


def _held_out(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a loop goes over data held out from training, by the name of its loader."""
    names = module.within(loop.iter, cst.Name) if isinstance(loop, cst.For) else ()
    return any(EVALUATION.search(n.value) for n in names)


def _is_first(module: Module, node: cst.Call) -> bool:
    """Say whether this is the first model call of its innermost loop, or of its function outside of
    loops."""
    loop = module.loop(node)
    for call in module.within(loop or module.scope(node), cst.Call):
        if module.loop(call) is loop and _records(module, call):
            return call is node
    return True


def _fix(module: Module, node: cst.Call, heat: Heat) -> Fix | None:
    """Decorate the function, or wrap the loop where the function also trains, or has a block of its
    own already."""
    torch = torch_name(module)
    need, function = NeedImport("torch", torch), module.function(node)
    loops = module.within(function or module.root, cst.For, cst.While)
    trains = any(loop_kind(module, loop) in (LoopKind.TRAIN, LoopKind.EPOCH) for loop in loops)
    calls = module.within(function or module.root, cst.Call)
    trains = trains or any(method_called(each) in ("backward", "grad") for each in calls)
    spoken = (
        function is not None
        and _SPOKEN.search(module.text) is not None
        and _SPOKEN.search(module.source_of(function)) is not None
    )
    if (
        function is not None
        and not (trains or spoken)
        and not function.decorators
        and function.asynchronous is None
    ):
        edits = (Prepend(function, f"@{torch}.no_grad()\n"), need)
        title = "Decorate the function with torch.no_grad()"
        return without_graph(module, title, edits, [function], evaluates=True)
    if not isinstance(heat.loop, LOOPS):
        return around(module, node, partial(_in_vain, module)) if spoken else None
    item = cst.WithItem(cst.parse_expression(f"{torch}.no_grad()"))
    wrapped = cst.With([item], cst.IndentedBlock([heat.loop.with_changes(leading_lines=[])]))
    title = "Wrap the loop in torch.no_grad()"
    loop = (Replace(heat.loop, wrapped), need)
    return without_graph(module, title, loop, [heat.loop], evaluates=True)
