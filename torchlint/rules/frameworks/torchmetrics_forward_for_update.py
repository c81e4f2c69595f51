"""Call update() where the metric's value for the batch is not used

## Why
Calling a torchmetrics metric does two things: it adds the batch to the metric's state, and it
computes the value for this batch alone. For the second it computes a whole result, and either
merges two states or updates twice (`full_state_update`; `Metric.forward`, source). Where nobody
reads the value, `update()` does the first alone. The difference is greatest for metrics whose
`compute` is heavy, such as AUROC over stored predictions.

Flagged: a call of a torchmetrics metric or collection as a statement of its own, or bound to a name
that is never read; where nothing in the project reads the metric of an object at all, the finding
says to delete the call. Further `compute()` in each batch of what the same batch adds to and
nothing resets: it iterates over all batches so far, and with several processes gathers their states
each time.

The examples need torchmetrics and are not executed by the tests.

## Setup
```python
import torch
from torch import nn
```

## Bad
```python
def evaluate(model, loader):
    from torchmetrics.classification import MulticlassAUROC

    auroc = MulticlassAUROC(num_classes=10)
    for x, y in loader:
        auroc(model(x), y)
    return auroc.compute()
```

## Good
```python
def evaluate(model, loader):
    from torchmetrics.classification import MulticlassAUROC

    auroc = MulticlassAUROC(num_classes=10)
    for x, y in loader:
        auroc.update(model(x), y)
    return auroc.compute()
```

## Leave alone
The batch's value is read.
```python
from torchmetrics import Accuracy

accuracy = Accuracy(task="multiclass", num_classes=10)


def evaluate(model, loader):
    for x, y in loader:
        value = accuracy(model(x), y)
        print(value)
```

A functional metric has no state; a statement of it is a matter for other linters.
```python
from torchmetrics.functional import accuracy


def evaluate(model, loader):
    for x, y in loader:
        accuracy(model(x), y, task="multiclass", num_classes=10)
```

## Fix safety
Unsafe: the value of the last batch is no longer kept in the metric, which Lightning's `on_step`
logging reads.

## Measure
Not timed: the example needs torchmetrics.
A gain is expected on a CPU and on a GPU: what is saved is one computation of the metric per batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Append,
    Fix,
    Hit,
    Module,
    Rule,
    Safety,
    deletion,
    heat_of,
    keyword_argument,
)
from torchlint.semantic.code.bindings import binds_globally, sole_definition
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.self_attributes import self_assignments
from torchlint.semantic.code.tree import attr_of, is_name
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question

# Metrics that end in another state when they are updated instead of called (torchmetrics 1.9, all
# wrappers tried).
_OTHER_FORWARD = frozenset(("MinMaxMetric", "BootStrapper"))
_NOTE = (
    "The value of the last batch is no longer kept in the metric, which Lightning's on_step "
    "logging reads."
)

_EACH_BATCH = (
    "`{metric}.compute()` goes over all batches so far in each batch; call it once behind the last "
    "one (in Lightning, log the metric itself)."
)

_ASKS = regex(r"\bgetattr\(\s*(?:self|model)\b|\bisinstance\([^)\n]*Metric\b|__dict__")
"""What code says that may read a metric without its name."""
_NEVER_READ = (
    "nothing reads `{metric}`: what it adds up in each batch is lost; delete the call, or log the "
    "metric or its compute()."
)
_DELETED = "What other code makes of the metric, by another name, is not in view."

rule = Rule(
    __name__,
    __doc__,
    code="TL906",
    message=(
        "`{metric}(…)` also computes the batch's value, which is unused; call {metric}.update(…)."
    ),
    severity="info",
    default=True,
    effect="gpu",
    triggers=(b"torchmetrics",),
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not node.args or not _is_unused(module, node):
        return
    made = metric_of(module, node.func)
    if made is None or module.called(made).rpartition(".")[2] in _OTHER_FORWARD:
        return
    if keyword_argument(module, made, "dist_sync_on_step") is not None or _is_logged(
        module, node.func
    ):
        return
    words = {"metric": module.shown(node.func)}
    if _never_read(module, node.func):
        plain = all(isinstance(arg.value, cst.Name) for arg in node.args)
        fix = deletion(module, node, Safety.UNSAFE, _DELETED) if plain else None
        yield Hit(node, words, fix, message=_NEVER_READ)
        return
    fix = Fix((Append(node.func, ".update"),), Safety.UNSAFE, "Call update()", _NOTE)
    yield Hit(node, words, fix)


@rule.method("compute", runs="hot")
def check_compute(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a result over all batches so far that is computed in each batch."""
    metric = node.func.value if isinstance(node.func, cst.Attribute) else None
    if metric is None or metric_of(module, metric) is None:
        return
    uses = _uses_in_iteration(module, node, metric)
    loop = module.loop(node)
    anew = isinstance(metric, cst.Name) and any(
        loop is not None and module.is_within(each, loop)
        for each in writes_of(module, module.tree.owners[node], metric.value)
    )
    if not anew and "reset" not in uses and uses & {"update", "forward", ""}:
        yield Hit(node, {"metric": module.shown(metric)}, message=_EACH_BATCH)


def _uses_in_iteration(module: Module, node: cst.Call, metric: cst.BaseExpression) -> set[str]:
    """Return the methods of a metric that are called in the iteration of `node`, an empty name
    where it is called itself."""
    loop = module.loop(node)
    function = module.function(node)
    iteration = loop.body if loop is not None else function.body if function is not None else node
    names = set()
    for call in module.within(iteration, cst.Call):
        if call.func.deep_equals(metric):
            names.add("")
        elif isinstance(call.func, cst.Attribute) and call.func.value.deep_equals(metric):
            names.add(call.func.attr.value)
    return names


def _is_unused(module: Module, node: cst.Call) -> bool:
    """Say whether a call is a statement, or its value bound to a plain name that is never read."""
    match module.parent(node):
        case cst.Expr():
            return True
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value) if value is node:
            scope = module.function(node)
            return (
                scope is not None
                and not reads_of(module, scope, name)
                and not binds_globally(module, scope, name)
            )
    return False


def _never_read(module: Module, metric: cst.BaseExpression) -> bool:
    """Say whether all that the project does with the metric of an object is to make, reset, update
    and call it, without what that gives: no other file has its name, and no code asks an object
    for attributes by names."""
    cls = module.class_of(metric)
    if not isinstance(metric, cst.Attribute) or cls is None:
        return False
    name = metric.attr.value
    uses = [each for each in module.nodes(cst.Attribute) if each.attr.value == name]
    return all(
        module.is_within(each, cls) and each.deep_equals(metric) and _adds(module, each)
        for each in uses
    ) and not said_somewhere(module, partial(_may_read, name, cls.name.value))


def _may_read(name: str, cls: str, text: str) -> bool:
    """Say whether a file may read an attribute: another one that has its name, or one that asks
    for attributes by what it computes, or for all metrics."""
    return (name in text and f"class {cls}" not in text) or _ASKS.search(text) is not None


def _adds(module: Module, metric: cst.Attribute) -> bool:
    """Say whether a use of a metric makes it, or only adds to it or empties it."""
    above = module.parent(metric)
    if attr_of(above) in ("update", "reset"):
        above = module.parent(above)
    return isinstance(above, (cst.AssignTarget, cst.AnnAssign)) or (
        isinstance(above, cst.Call)
        and module.is_within(metric, above.func)
        and _is_unused(module, above)
    )


def _is_logged(module: Module, metric: cst.BaseExpression) -> bool:
    """Say whether the file hands the metric object on with ``on_step``: then the batch's value is
    read out of it."""
    scope = module.class_of(metric) or module.root
    for same in module.within(scope, type(metric), nested=True):
        arg = module.parent(same)
        if isinstance(arg, cst.DictElement):
            arg = module.parent(module.parent(arg))
        call = module.parent(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call) or not same.deep_equals(metric):
            continue
        step = keyword_argument(module, call, "on_step")
        off = is_name(step, "False")
        # In a training step, self.log is on_step unless it is told otherwise.
        if not off and (step is not None or heat_of(module, call).train):
            return True
    return False


@question(yes="`{0}` is a torchmetrics metric", no="`{0}` is not known to be a torchmetrics metric")
def metric_of(module: Module, node: cst.BaseExpression) -> cst.Call | None:
    """Return the one call of a torchmetrics class that makes what a name or ``self.name`` holds, or
    None."""
    made: list[cst.CSTNode] = []
    if isinstance(node, cst.Name):
        definition = sole_definition(module, node)
        made = [definition] if definition is not None else []
    elif isinstance(node, cst.Attribute) and is_name(node.value, "self"):
        cls = module.class_of(node)
        found = self_assignments(module.tree, cls) if cls is not None else {}
        made = found.get(node.attr.value, [])
    match made:
        case [cst.Call(cst.Attribute(cloned, cst.Name("clone")))]:
            return metric_of(module, cloned)
    call = made[0] if len(made) == 1 else None
    name = module.called(call)
    is_class = name.startswith("torchmetrics.") and name.rpartition(".")[2][:1].isupper()
    return call if isinstance(call, cst.Call) and is_class and ".functional." not in name else None
