"""Reduce gradients once per optimizer step, not once per micro-batch

## Why
DistributedDataParallel averages the gradients over all processes inside every `backward()`. Under
gradient accumulation only the average before `optimizer.step()` is needed; the others are traffic
between GPUs, and often between machines, for nothing (performance tuning guide of PyTorch; the
docstring of `DistributedDataParallel.no_sync`). `model.no_sync()` leaves the gradients local until
a backward pass outside of it. The forward pass has to be inside too: DDP decides there whether the
coming backward pass will reduce, so `no_sync()` around `backward()` alone changes nothing.
Accelerate's guide on gradient synchronisation shows both cases measured.

Flagged: the backward pass of a loop that steps only under a condition on the micro-batch (`(i + 1)
% k == 0`), where a model that this file wraps in DDP runs and nothing in the file mentions
`no_sync`; and any `no_sync()` that holds the backward pass but not the forward pass of such a
model, which may be an attribute, run by another method of its object.

## Setup
```python
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(8)]
loss_fn = nn.MSELoss()
k = 4
```

## Bad
```python
for i, (x, y) in enumerate(loader):
    loss = loss_fn(model(x), y) / k
    loss.backward()
    if (i + 1) % k == 0:
        optimizer.step()
        optimizer.zero_grad()
```

## Good
```python
for i, (x, y) in enumerate(loader):
    last = (i + 1) % k == 0
    with contextlib.nullcontext() if last else model.no_sync():
        loss = loss_fn(model(x), y) / k
        loss.backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
```

## Leave alone
A loop that steps for every batch needs every reduction.
```python
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
```

Accelerate's `accumulate()` switches the reduction off itself, as do Lightning, DeepSpeed and the
Hugging Face Trainer.
```python
def train(accelerator):
    for i, (x, y) in enumerate(loader):
        with accelerator.accumulate(model):
            loss_fn(model(x), y).backward()
            if (i + 1) % k == 0:
                optimizer.step()
                optimizer.zero_grad()
```

## Fix safety
No fix: the loop has to know which micro-batch is the last one before its forward pass.

## Measure
Eight micro-batches in a single process. What is saved there is the reducer's own work; with several
processes, the traffic between them comes on top.
```python
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(1024, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.randn(8, 1024), torch.randn(8, 256)) for _ in range(8)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import contexts_around
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.data.replicas import accumulation_in, is_replica, runs_replica
from torchlint.semantic.question import question
from torchlint.semantic.values.inferred import framework_moves_batches

_BACKWARD = frozenset(("backward", "scale", "mean", "sum"))
_ONLY_BACKWARD = (
    "no_sync() without the forward pass inside changes nothing: DDP decides in "
    "forward() whether backward() reduces."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL302",
    message="gradient accumulation all-reduces on every micro-batch; wrap all but the last in "
    "model.no_sync() "
    "(forward included).",
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"DistributedDataParallel",),
)


@rule.on(cst.For, cst.While, runs="once")
def check(node: cst.For | cst.While, module: Module) -> Iterator[Hit]:
    if (
        "no_sync" in module.text
        or "require_backward_grad_sync" in module.text
        or framework_moves_batches(module)
    ):
        return
    found = accumulation_in(module, node)
    if found is None or _steps_every_batch(module, found.period) or not runs_replica(module, node):
        return
    if not any(
        method_called(call) == "accumulate"
        for backward in found.backwards
        for call in contexts_around(module, backward)
    ):
        yield Hit(found.backwards[0])


@rule.on(cst.With)
def check_context(node: cst.With, module: Module) -> Iterator[Hit]:
    found = next(((item, m) for item in node.items for m in _no_sync(module, item.item)), None)
    if found is None or not is_replica(module, found[1]):
        return
    item, model = found
    calls = list(module.within(node.body, cst.Call))
    if not any(method_called(c) == "backward" for c in calls):
        return
    if any(method_called(c) not in _BACKWARD for c in calls):
        return
    scope = module.loop(node) or module.scope(node)
    if any(
        module.before(c, node) and _runs_wrapped(module, c, model)
        for c in module.within(scope, cst.Call)
    ):
        yield Hit(item, message=_ONLY_BACKWARD)


@question()
def _runs_wrapped(module: Module, call: cst.Call, model: cst.BaseExpression) -> bool:
    """Say whether a call runs the model, also inside a method of the same object."""
    if call.func.deep_equals(model):
        return True
    of_self = isinstance(model, cst.Attribute) and (dotted_text(model) or "").startswith("self.")
    return (
        of_self
        and (dotted_text(call.func) or "").startswith("self.")
        and any(
            _runs_wrapped(module, inner, model)
            for callee in callees_of(module, call)
            for inner in module.within(callee.body, cst.Call)
        )
    )


def _steps_every_batch(module: Module, period: cst.BaseExpression | None) -> bool:
    """Say whether the optimizer steps for every batch after all: ``i % 1``."""
    number = sole_definition(module, period) or period
    return isinstance(number, cst.Integer) and number.value == "1"


def _no_sync(module: Module, context: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the model of ``model.no_sync()``, also where another context is used now and then."""
    made = sole_definition(module, context) or context
    for call in module.within(made, cst.Call):
        match call:
            case cst.Call(cst.Attribute(model, cst.Name("no_sync"))):
                yield model
