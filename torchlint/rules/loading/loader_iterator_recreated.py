"""Keep one iterator over a loader, and one loader over the data

## Why
`iter(loader)` starts all worker processes and lets them prefetch `2 * num_workers` batches;
`next(iter(loader))` takes the first of them and throws the rest away. A shuffle starts again each
time as well, so such a loop never gets through an epoch (PyTorch docs, `torch.utils.data`: "Single-
and Multi-process Data Loading").

Flagged: `next(iter(loader))` in the body of a loop that does not bind the loader, or in code that
runs every step; an iterator that each pass of a loop makes and takes one batch from; a `DataLoader`
built in every step or forward pass; and a `DataLoader` with workers that each epoch builds anew
from the same arguments. Once per epoch, and without workers, it is a hint only. So is a pass over
all data that only counts the batches, `len(list(loader))`, outside of epochs; in each of them it
costs as much as the epoch's reading.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.ones(8, 4), torch.ones(8, 1))
loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, y):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
```

## Bad
```python
for index in range(2):
    x, y = next(iter(loader))
    step(x, y)
```

## Good
```python
batches = iter(loader)
for index in range(2):
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader)
        x, y = next(batches)
    step(x, y)
```

## Leave alone
One batch outside of loops, to look at shapes.
```python
x, y = next(iter(loader))
print(x.shape)
```

Without workers a loader per epoch costs next to nothing.
```python
for epoch in range(2):
    for x, y in DataLoader(dataset, batch_size=4):
        step(x, y)
```

A condition that lets it happen now and then.
```python
for index in range(4):
    if index % 100 == 0:
        x, y = next(iter(loader))
```

## Fix safety
Unsafe: `len(list(loader))` becomes `len(loader)`, which draws no random numbers. For the rest no
fix is offered: the loop that is meant goes through the data, the loop that is written samples first
batches.

## Measure
Two steps, each of which starts a worker process in Bad; Good starts one for both. A gain can be
expected on a CPU, too, and it grows with the number of steps and of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from torchlint.rule import (
    Fix,
    Grade,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    Severity,
    conditions_around,
    heat_of,
    inferred,
)
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.tree import has_star, last_small
from torchlint.semantic.data.loader_flow import loader_loops
from torchlint.semantic.data.samples import is_fixed, worker_count
from torchlint.semantic.time.loops import LoopKind, loop_kind

_LOADER = "torch.utils.data.DataLoader"
_BUILT = "a DataLoader is built {when}; build it once and iterate it again{workers}."
_LISTS = ("builtins.list", "builtins.tuple")
_COUNTED = (
    "`{count}` reads all data once more to count the batches; len({loader}) knows their number, or "
    "count them in the loop that reads them."
)
_NOT_READ = (
    "The pass over the data drew random numbers, which are others then; a loader without a length "
    "raises."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL203",
    message=(
        "a new DataLoader iterator{workers} is started {when}, for one batch; keep one iterator."
    ),
    severity="warning",
    default=True,
    effect="host",
    triggers=(b"iter(", b"next(enumerate(", b"DataLoader", b"len(list(", b"len(tuple("),
    equivalence="opt-in",
)


@rule.call("builtins.iter", "builtins.enumerate", runs="once")
def check_iterated(node: cst.Call, module: Module) -> Iterator[Hit]:
    loader = node.args[0].value if len(node.args) == 1 else None
    if loader is None or inferred(module, loader).kind != "loader":
        return
    loops = module.loops(node)
    if not _takes_one(module, node) or (not loops and not heat_of(module, node).hot):
        return
    if loops and (
        not is_fixed(module, loader, loops[0])
        or throttled(module, node, loops[0])
        or _ends(module, node, loops[0])
    ):
        return
    made = inferred(module, loader).node
    workers = worker_count(module, made) if isinstance(made, cst.Call) else None
    epoch = bool(loops) and loop_kind(module, loops[0]) is LoopKind.EPOCH
    words = {
        "workers": " (and its workers)" if workers else "",
        "when": "every epoch" if epoch else "in every pass of this loop" if loops else "every step",
    }
    yield Hit(node, words, severity=Severity.INFO if epoch or workers == 0 else None)


@rule.call("builtins.len", runs="once")
def check_counted(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a pass over all data that only counts the batches."""
    match node.args:
        case [cst.Arg(cst.Call(func, [cst.Arg(loader, star="")]))]:
            counted = module.name(func) in _LISTS and inferred(module, loader).kind == "loader"
        case _:
            counted = False
    if counted and not any(isinstance(a, cst.Assert) for a in module.ancestors(node)):
        words = {"count": module.shown(node), "loader": module.shown(loader)}
        again = heat_of(module, node).grade is not Grade.COLD
        edit = Replace(node.args[0].value, loader)
        fix = Fix((edit,), Safety.UNSAFE, "Ask the loader for its length", _NOT_READ)
        severity = None if again else Severity.INFO
        yield Hit(node, words, fix, severity, message=_COUNTED)


def _takes_one(module: Module, node: cst.Call) -> bool:
    """Say whether one batch is all that is taken from an iterator: ``next(iter(l))``, or by its
    name in this pass."""
    arg = module.parent(node)
    outer = module.taker(node)
    if isinstance(outer, cst.Call):
        return module.name(outer.func) == "builtins.next" and outer.args[0] is arg
    statement, loops = module.small_statement(node), module.loops(node)
    if (
        not isinstance(statement, cst.Assign)
        or statement.value is not node
        or len(statement.targets) > 1
    ):
        return False
    target = statement.targets[0].target
    scope: cst.CSTNode = module.scope(node)
    if not isinstance(target, cst.Name) or len(writes_of(module, scope, target.value)) > 1:
        return False
    reads = reads_of(module, scope, target.value)
    return (
        len(reads) == 1
        and module.loops(reads[0])[:1] == loops[:1]
        and module.called(module.taker(reads[0])) == "builtins.next"
    )


def _ends(module: Module, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Say whether the pass of the loop that makes the iterator is its last: the block leaves it."""
    return any(
        isinstance(above, cst.IndentedBlock)
        and isinstance(last_small(above), (cst.Return, cst.Break, cst.Raise))
        for above in takewhile(lambda above: above is not loop, module.ancestors(node))
    )


@rule.call(_LOADER, runs="hot")
def check_built_in_step(node: cst.Call, module: Module) -> Iterator[Hit]:
    if _repeating(module, node) is not None:
        yield Hit(node, {"when": "in every step", "workers": ""}, message=_BUILT)


@rule.call(_LOADER)
def check_built(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find loaders that a forward pass builds, or a loop over epochs."""
    if _in_forward(module, node):
        if not any(conditions_around(module, node)):
            yield Hit(node, {"when": "in every forward pass", "workers": ""}, message=_BUILT)
        return
    loop = _repeating(module, node)
    if loop is None or heat_of(module, node).hot or loop_kind(module, loop) is not LoopKind.EPOCH:
        return
    if any(module.is_within(each, loop) for each in loader_loops(module, node)):
        yield Hit(
            node,
            {"when": "in every epoch", "workers": ", with persistent_workers=True"},
            message=_BUILT,
        )


def _in_forward(module: Module, node: cst.Call) -> bool:
    function = module.function(node)
    return (
        function is not None
        and function.name.value.endswith("forward")
        and module.class_of(function) is not None
    )


def _repeating(module: Module, node: cst.Call) -> cst.CSTNode | None:
    """Return the loop around a loader with workers that builds the same one again in each pass."""
    loop = module.loop(node)
    if (
        loop is None
        or throttled(module, node, loop)
        or _ends(module, node, loop)
        or not worker_count(module, node)
    ):
        return None
    same = all(is_fixed(module, arg.value, loop) for arg in node.args) and not has_star(node)
    return None if not same or _in_forward(module, node) or _new_run(module, loop) else loop


def _new_run(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether each pass of a loop makes a model or an optimizer: it is a run, not an epoch."""
    return any(
        isinstance(assign.value, cst.Call)
        and inferred(module, assign.value).kind in ("module", "optimizer")
        for assign in module.within(loop, cst.Assign)
    )
