"""Pin the memory of batches that go to the GPU

## Why
From pageable memory a copy to the GPU goes through a staging buffer and cannot overlap with
kernels. With `pin_memory=True` and workers, a thread of the loader puts each batch into page-locked
memory, from which copies are faster, and asynchronous with `non_blocking=True` (PyTorch's tutorial
on `pin_memory` and `non_blocking`, and the notes on CUDA semantics). Without workers the training
thread itself would have to pin, so this rule leaves those loaders to TL201.

Flagged: a loader with workers (or a number of them that is not a literal) and without `pin_memory`,
whose batches a training or evaluation loop brings to the accelerator, in this file or in another
one that gets the loader; and such a loader whose loops are not known, where its samples cost
something and other loops of the file move their batches, or where the class or function that makes
it makes another one that pins. Where the collate function in view, or a dataset that yields whole
batches, gives what `expand` or the like has made and nothing has copied, the finding says so and
has no fix: `Tensor.pin_memory` raises where several elements are one place in memory. A class that
derives from `DataLoader` is one of them, where no file of the project speaks of pinning and loops
over loaders move their batches. Not where all that the loops move is what they have joined or
computed of the batches on the host, nor where a batch is a graph of dgl, which pinning leaves as it
is, nor in a program whose device is Apple's alone.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dataset = TensorDataset(torch.ones(16, 8), torch.zeros(16, dtype=torch.long))
model = nn.Linear(8, 2).to(device)


def train(loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()
```

## Bad
```python
loader = DataLoader(dataset, batch_size=64, num_workers=2, persistent_workers=True)
loss = train(loader)
```

## Good
```python
loader = DataLoader(
    dataset,
    batch_size=64,
    num_workers=2,
    persistent_workers=True,
    pin_memory=torch.cuda.is_available(),
)
loss = train(loader)
```

## Leave alone
Without workers the training thread would pin, which costs more than it saves.
```python
train(DataLoader(dataset, batch_size=4))
train(DataLoader(dataset, batch_size=4, num_workers=0))
```

Batches that stay on the host.
```python
def train_on_cpu(cpu_model):
    for x, y in DataLoader(dataset, batch_size=4, num_workers=2):
        nn.functional.cross_entropy(cpu_model(x), y).backward()
```

A loop without a model copies no batches for one.
```python
def fill(table):
    for x, y in DataLoader(dataset, batch_size=4, num_workers=2):
        table.append(x.to(device))
```

## Fix safety
Safe: the values are the same. The memory cannot be swapped out, and a thread copies into it; on a
machine without an accelerator `pin_memory=True` would warn, so `torch.cuda.is_available()` decides.
Unsafe where the project has batches of its own kind (graphs, encodings, a class with a `to`).

## Measure
An epoch over 16 batches, with workers that run already. On a CPU no gain is expected, as nothing is
pinned: what is saved is the staging of each copy over the bus.
```python
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(1024, 1024), torch.zeros(1024, dtype=torch.long))
model = nn.Linear(1024, 2).to(device)
```

```python
train(loader)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import (
    Fix,
    Hit,
    Module,
    NeedImport,
    Replace,
    Rule,
    Safety,
    arguments_of,
    with_keyword,
)
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.data.expanded import expanded_in_batch
from torchlint.semantic.data.loader_calls import makes_loader, pins_memory, works_alone
from torchlint.semantic.data.loader_settings import lacks_pinning, pin_word
from torchlint.semantic.uses.assumptions import PINNED

_LOADER = "torch.utils.data.DataLoader"
_EXPANDED = (
    "batches are copied to CUDA from pageable memory, and cannot be pinned while elements of "
    "`{expanded}` share memory; copy that (.contiguous()), and set pin_memory=True."
)
_NOTE = "Each batch takes memory that cannot be swapped out, and the loader runs one more thread."

rule = Rule(
    __name__,
    __doc__,
    code="TL202",
    message=(
        "batches are copied to CUDA from pageable memory; set pin_memory=True (with num_workers>0)."
    ),
    severity="info",
    default=True,
    effect="none",
    triggers=(b"DataLoader", b"utils.data"),
    equivalence="bitwise",
)


@rule.on(cst.Call, about=makes_loader)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if pins_memory(module, node) is not False:
        return
    bound = arguments_of(module, node, _LOADER)
    if bound.value("num_workers") is None or works_alone(module, node):
        return
    if not lacks_pinning(module, node):
        return
    expanded = expanded_in_batch(module, node)
    if expanded is not None:
        yield Hit(node, {"expanded": expanded}, message=_EXPANDED)
    else:
        yield Hit(node, fix=_fix(module, node, bound.value("pin_memory")))


def _fix(module: Module, node: cst.Call, pin: cst.BaseExpression | None) -> Fix:
    value = pin_word(module, node)
    edit = (
        Replace(pin, value)
        if pin is not None
        else Replace(node, with_keyword(node, "pin_memory", value))
    )
    torch = torch_name(module)
    asks = (NeedImport("torch", torch),) if isinstance(value, cst.Call) else ()
    return Fix((edit, *asks), Safety.SAFE, "Pin the batches' memory", assumes={PINNED: _NOTE})
