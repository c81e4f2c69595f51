"""Leave pinning to the loader, or to the copy itself

## Why
`tensor.pin_memory()` copies the tensor into page-locked memory on the thread that calls it, and
blocks it. Followed at once by `.to(device)` that is one more copy on the critical path: the
tutorial on pinned memory and `non_blocking` of the PyTorch docs says that
`tensor.pin_memory().to(device, non_blocking=True)` can be slower than a plain `tensor.to(device)`.
Pinning helps where another thread does it ahead of time, as `DataLoader(pin_memory=True)` does.

Flagged: `.pin_memory()` whose result is only moved to the device, in the same expression or under a
name with no other use, in a training step, an evaluation batch, a forward pass or a dataset's
sample. What the step makes itself, from arrays or by drawing, and copies with `non_blocking` is
left alone: no loader could pin it.

## Setup
```python
import threading

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
loader = [torch.randn(4, 8) for _ in range(3)]
```

## Bad
```python
def train(optimizer):
    for x in loader:
        x = x.pin_memory().to(device, non_blocking=True)
        model(x).sum().backward()
        optimizer.step()
```

## Good
```python
def train(optimizer):
    for x in loader:
        x = x.to(device, non_blocking=True)
        model(x).sum().backward()
        optimizer.step()
```

## Leave alone
A buffer that is pinned once and copied many times.
```python
def train(optimizer):
    stage = torch.empty(4, 8).pin_memory()
    for x in loader:
        stage.copy_(x)
        model(stage.to(device, non_blocking=True)).sum().backward()
        optimizer.step()
```

Once at the start.
```python
def setup(weights):
    return weights.pin_memory().to(device)
```

## Fix safety
No fix is offered: values, dtype, device and random numbers of a tensor stay without the call, but a
`pin_memory` of another object's own is no longer called, and without a GPU another exception is
raised.

## Measure
An epoch of 3 steps. Without a GPU nothing can be pinned and no gain is expected: what is saved is a
copy into page-locked memory on the training thread.
```python
torch.manual_seed(0)
model = nn.Linear(1024, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [torch.randn(1024, 1024) for _ in range(3)]
```

```python
train(optimizer)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, inferred
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import contexts_around
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import assignments_of
from torchlint.semantic.code.tree import keyword_of, method_called, receiver
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.torch import ops

_PINS = regex(r"^_*pin(_|$)")
_STREAMS = ops.dotted("on-stream")

rule = Rule(
    __name__,
    __doc__,
    code="TL108",
    message=(
        "`{expr}` pins on the calling thread and copies once more; drop .pin_memory() or let "
        "the DataLoader pin."
    ),
    severity="info",
    default=True,
    effect="upload",
    triggers=(b"pin_memory",),
    equivalence="bitwise",
    runs="sample",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    transfer = transfer_of(module, node)
    pinned = _pinned(module, transfer.source) if transfer is not None else None
    if transfer is None or pinned is None or _is_beside(module, node):
        return
    if "non_blocking" in transfer.given and _made_here(module, pinned):
        return  # No loader could pin it, and unpinned the copy would wait.
    yield Hit(pinned, {"expr": module.shown(pinned)})


def _made_here(module: Module, pinned: cst.BaseExpression) -> bool:
    """Say whether the function that pins a tensor has made it, rather than been given it."""
    made = assignments_of(module, receiver(pinned))
    return bool(made) and not any(inferred(module, each.value).loose for each in made)


def _pinned(module: Module, source: cst.BaseExpression) -> cst.Call | None:
    """Return the call that pins what is moved, where the pinned tensor has no other use."""
    match source:
        case cst.Call(cst.Attribute(attr=cst.Name("pin_memory")), []):
            return source
        case cst.Name(name):
            definition = sole_definition(module, source)
            scope = module.scope(source)
            made = _pinned(module, definition) if isinstance(definition, cst.Call) else None
            return made if len(reads_of(module, scope, name)) == 1 else None
    return None


def _is_beside(module: Module, node: cst.Call) -> bool:
    """Say whether another thread or stream does the work, or a function that exists to pin."""
    if any(module.name(call.func) in _STREAMS for call in contexts_around(module, node)):
        return True
    function = module.function(node)
    if function is None:
        return False
    return _PINS.search(function.name.value) is not None or any(
        function.name.value in module.names_in(arg.value)
        for call in module.nodes(cst.Call)
        for arg in call.args
        if keyword_of(arg) == "target" or method_called(call) == "submit"
    )
