"""Let reference counting free tensors, without a garbage collection per step

## Why
`gc.collect()` walks every container object that Python tracks, and a process that has imported
torch tracks a great many of them; all the while no kernel is launched. Tensors do not need it:
CPython frees an object when its last reference goes, and only objects in reference cycles wait for
the collector (documentation of the `gc` module). A report from PEFT found training a good deal
faster without the call, at the same memory use. To lower the peak, drop the reference itself: `del
loss, output` at the end of the step. Where cycles do hold tensors, collect every N steps.

Flagged: `gc.collect()` in a loop over training or evaluation batches, in what such a loop calls, in
a `forward`, or in what Lightning and the transformers Trainer call in each step (`on_step_end` of a
`TrainerCallback`, `on_train_batch_end`). A hint where each iteration generates text, or has a loop
of its own that runs a network.

## Setup
```python
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 8) for _ in range(3)]
```

## Bad
```python
import gc

for x in batches:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    gc.collect()
```

## Good
```python
for x in batches:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
```

## Leave alone
Once per epoch costs next to nothing.
```python
import gc

for epoch in range(2):
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
    gc.collect()
```

Collecting the youngest objects alone is cheap.
```python
import gc

for x in batches:
    model(x).sum().backward()
    optimizer.step()
    gc.collect(0)
```

## Fix safety
Unsafe: objects in reference cycles, and tensors that they hold, live until Python's own next
collection, so the peak of memory can rise. An import of `gc` that nothing uses any more goes too,
and so does an `empty_cache` right behind the call, where another stands right before it.

## Measure
Timed is one step. A gain is expected on a CPU and on a GPU: what is saved is the collector's walk
over all objects, of which a real program has more than this one.
```python
model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.Sigmoid())
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batches = [torch.randn(32, 128)]
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Remove, Rule, Safety, Severity, deletion
from torchlint.semantic.code.text import explained
from torchlint.semantic.code.tree import literal
from torchlint.semantic.uses.many_runs import beside_many_waits
from torchlint.semantic.uses.offloads import (
    LITTLE,
    frees_for_offload,
    frees_on_purpose,
)

_CYCLES = regex(r"cycl|circular|\bleak", re.IGNORECASE)
_NOTE = (
    "Objects in reference cycles live until Python's next collection; `del` what should go at once."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL702",
    message=(
        "gc.collect() every step walks all Python objects; tensors are freed by reference "
        "counting already."
    ),
    severity="warning",
    default=True,
    effect="host",
    triggers=(b"collect",),
    equivalence="bitwise",
    runs="hot",
)


@rule.call("gc.collect")
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not (
        _young(node)
        or frees_for_offload(module, node)
        or _is_scheduled(module)
        or explained(module, node, _CYCLES)
    ):
        purpose = frees_on_purpose(module, node)
        fix = None if purpose else deletion(module, node, Safety.UNSAFE, _NOTE)
        again = _emptied_again(module, node)
        if fix is not None and again is not None:
            fix = replace(fix, edits=(*fix.edits, Remove(again)))
        little = beside_many_waits(module, node, waits=False)
        severity = Severity.INFO if purpose or little else None
        message = rule.message + LITTLE if little else None
        yield Hit(node, fix=fix, severity=severity, message=message)


def _emptied_again(module: Module, node: cst.Call) -> cst.SimpleStatementLine | None:
    """Return the line behind a call that empties the cache as the one before it does: with nothing
    collected in between it is for nothing."""
    before, behind = module.tree.beside(node)
    match (*before[-1:], *behind[:1]):
        case [
            cst.SimpleStatementLine([cst.Expr(cst.Call(first))]),
            cst.SimpleStatementLine([cst.Expr(cst.Call(last))]) as again,
        ] if {module.name(first), module.name(last)} == {"torch.cuda.empty_cache"}:
            return again
    return None


def _young(node: cst.Call) -> bool:
    """Say whether a call collects only a young generation."""
    return bool(node.args) and literal(node.args[0].value) in (0, 1)


def _is_scheduled(module: Module) -> bool:
    """Say whether the file runs the garbage collector by a schedule of its own."""
    return any(
        module.name(call.func) in ("gc.disable", "gc.freeze") for call in module.nodes(cst.Call)
    )
