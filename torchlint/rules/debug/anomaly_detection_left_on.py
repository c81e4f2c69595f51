"""Switch autograd's anomaly detection off for normal training

## Why
Anomaly detection records a Python stack trace for every operation of the forward pass and checks
every gradient of the backward pass for NaN, which reads a value from the device each time. The
PyTorch tuning guide names it, with `gradcheck` and `emit_nvtx`, among the debugging APIs to disable
for regular training. `check_nan=False` saves only the second part.

Flagged: `set_detect_anomaly(True)` that runs unconditionally, unless the file is a program that
only evaluates, `detect_anomaly()` or `emit_nvtx()` held around training steps, and `gradcheck`
inside of a training step.

## Setup
```python
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 8) for _ in range(3)]


def train():
    for x in batches:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
```

## Bad
```python
torch.autograd.set_detect_anomaly(True)
train()
```

## Good
```python
train()
```

## Leave alone
Inside of a condition it is on only when somebody asks for it.
```python
def main(args):
    if args.debug:
        torch.autograd.set_detect_anomaly(True)
    train()
```

Switching it off.
```python
torch.autograd.set_detect_anomaly(False)
train()
```

Around code that does not train, for instance one backward pass of a forward check.
```python
with torch.autograd.detect_anomaly():
    print(model(batches[0]).sum())
```

## Fix safety
Unsafe: what is computed stays the same, but a NaN in a gradient no longer raises a RuntimeError. A
context around the training is left to people.

## Measure
Timed is one call of `train()` over ten batches. A gain is expected on a CPU, where stack traces and
the checks of every gradient are saved, and more of it on a GPU, where each check waits for the
device.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4), nn.Sigmoid()).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batches = [torch.randn(16, 64, device=device) for _ in range(10)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Remove, Rule, Safety, keyword_argument
from torchlint.semantic.code.text import in_main_guard
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.step_overhead import (
    ANOMALY_CONTEXT,
    ANOMALY_SWITCH,
    context_of,
    detects_anomalies,
    on_demand,
    runs_training,
)
from torchlint.semantic.values import definitions_behind

_MARKERS = frozenset(
    (
        "torch.autograd.profiler.emit_nvtx",
        "torch.autograd.profiler.emit_itt",
        "torch.cuda.profiler.profile",
    )
)
_GRADCHECK = frozenset(
    (
        "torch.autograd.gradcheck torch.autograd.gradgradcheck torch.autograd.gradcheck.gradcheck "
        "torch.autograd.gradcheck.gradgradcheck"
    ).split()
)
_NOTE = "A NaN in a gradient no longer raises a RuntimeError."
_MARKED = (
    "{name} marks every operation of normal training for an external profiler; switch it "
    "on by a flag."
)
_CHECKED = (
    "{name} in the training loop compares gradients with finite differences every step; "
    "check them once, before."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL801",
    message="autograd anomaly detection is on for normal training.",
    severity="warning",
    default=True,
    effect="none",
    triggers=(
        b"detect_anomaly",
        b"gradcheck",
        b"gradgradcheck",
        b"emit_nvtx",
        b"emit_itt",
        b"torch.cuda.profiler",
    ),
    equivalence="bitwise",
)


@rule.call(*_GRADCHECK, runs="train")
def check_gradcheck(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not on_demand(module, node):
        yield Hit(node, {"name": module.called(node).rpartition(".")[2]}, message=_CHECKED)


@rule.call(*ANOMALY_SWITCH)
def check_switch(node: cst.Call, module: Module) -> Iterator[Hit]:
    around = context_of(module, node)
    if not detects_anomalies(module, node):
        return
    if around is not None:
        yield from _hits_inside(module, node, around)
    elif not (on_demand(module, node) or _off_again(module, node) or _only_evaluates(module, node)):
        yield Hit(node, fix=_removal(module, node))


@rule.call(*ANOMALY_CONTEXT, *_MARKERS)
def check_context(node: cst.Call, module: Module) -> Iterator[Hit]:
    around = context_of(module, node)
    if around is not None and keyword_argument(module, node, "enabled") is None:
        name = module.name(node.func)
        yield from _hits_inside(module, node, around, name if name in _MARKERS else None)


def _hits_inside(
    module: Module, node: cst.Call, around: cst.With, marker: str | None = None
) -> Iterator[Hit]:
    trains = runs_training(module, around.body)
    if trains and not on_demand(module, node):
        if marker is None:
            yield Hit(node)
        else:
            yield Hit(node, {"name": marker.rpartition(".")[2]}, message=_MARKED)


@question(
    yes="the program trains nothing, and runs its networks without a graph",
    no="the program may train",
)
def _only_evaluates(module: Module, node: cst.Call) -> bool:
    """Say whether a switch stands where the file is run as a program that trains nothing, nor does
    any function that it calls, and some of these turn autograd off."""
    if not in_main_guard(module, node) or runs_training(module, module.root):
        return False
    called = [
        (no_grad(where, function.body.body[0]) is True, runs_training(where, function.body))
        for call in module.nodes(cst.Call)
        for where, function in definitions_behind.functions(module, call)
        if isinstance(function, cst.FunctionDef)
    ]
    trains = any(trains for graphless, trains in called if not graphless)
    return not trains and any(graphless for graphless, _ in called)


def _off_again(module: Module, node: cst.Call) -> bool:
    """Say whether the same function sets anomaly detection to something else, later."""
    home = module.scope(node)
    calls = [c for c in module.within(home, cst.Call) if module.before(node, c)]
    return any(
        module.name(c.func) in ANOMALY_SWITCH
        and not detects_anomalies(module, c)
        and context_of(module, c) is None
        for c in calls
    )


def _removal(module: Module, node: cst.Call) -> Fix | None:
    statement = module.small_statement(node)
    if not isinstance(statement, cst.Expr) or statement.value is not node:
        return None
    return Fix((Remove(statement),), Safety.UNSAFE, "Delete the call", _NOTE)
