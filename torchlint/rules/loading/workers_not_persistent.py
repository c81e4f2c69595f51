"""Keep the workers from one epoch to the next

## Why
A loader that is iterated again starts all of its worker processes anew: each loads its copy of the
dataset (with spawn, it imports every module again), and the first batches of the epoch wait for
that. With `persistent_workers=True` they live as long as the loader (PyTorch docs,
`torch.utils.data.DataLoader`; Lightning docs, "Persistent workers").

Flagged: a `DataLoader` with a number of workers above zero, written there or as the default of an
option, and no `persistent_workers`, over which a loop goes that an outer loop repeats, here, in
another file or where the function is called; that a framework's trainer is given; or that a
LightningModule's or LightningDataModule's `train_dataloader` or `val_dataloader` returns. Silent: a
loader for validation in a project whose trainer validates every few epochs only
(`check_val_every_n_epoch`); a dataset that code changes between epochs, that has a `set_epoch`, or
that counts the samples that it gives.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def step(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
```

## Bad
```python
loader = DataLoader(Rows(torch.ones(8, 4)), batch_size=4, num_workers=1)
for epoch in range(2):
    for x in loader:
        step(x)
```

## Good
```python
loader = DataLoader(
    Rows(torch.ones(8, 4)), batch_size=4, num_workers=1, persistent_workers=True
)
for epoch in range(2):
    for x in loader:
        step(x)
```

## Leave alone
One pass over the data.
```python
for x in DataLoader(Rows(torch.ones(8, 4)), batch_size=4, num_workers=1):
    step(x)
```

The dataset changes between epochs, and persistent workers would keep the old copy.
```python
rows = Rows(torch.ones(8, 4))
loader = DataLoader(rows, batch_size=4, num_workers=1)
for epoch in range(2):
    rows.epoch = epoch
    for x in loader:
        step(x)
```

## Fix safety
Unsafe: the loader seeds its workers once in the place of once an epoch (`DataLoader.__iter__` keeps
its iterator, which draws that seed). From the second epoch on the workers' random numbers go on
where they were, so augmentations differ. The seed comes from the loader's `generator`, else from
the main process's: what is drawn from it later differs as well, first of all the order of a loader
that shuffles. Each worker keeps its memory and its copy of the dataset between epochs.

## Measure
A further epoch of 2 batches: in Bad it starts a worker process, in Good the worker runs already. A
gain can be expected on a CPU, too.
```python
torch.manual_seed(0)
```

```python
for x in loader:
    step(x)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, arguments_of, with_keyword
from torchlint.semantic.code.options import counts_by_default
from torchlint.semantic.data.loader_settings import restarts_workers
from torchlint.semantic.data.samples import worker_count

_NOTE = (
    "From the second epoch on the shuffled order, the workers' random numbers and what the main "
    "process draws on the CPU differ, as the loader seeds its workers once; they keep their memory "
    "between epochs."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL208",
    message=(
        "workers are started anew for each pass over the loader, which counts where passes are "
        "short; set persistent_workers=True."
    ),
    severity="info",
    default=True,
    effect="loader",
    triggers=(b"num_workers", b"DataLoader"),
    equivalence="rng",
)


@rule.call("torch.utils.data.DataLoader")
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    workers = arguments_of(module, node, "torch.utils.data.DataLoader").value("num_workers")
    option = workers is not None and counts_by_default(module, workers)
    if (option or worker_count(module, node)) and restarts_workers(module, node):
        # Without workers torch refuses to keep them.
        kept = f"{module.source_of(workers)} > 0" if option and workers is not None else "True"
        edit = Replace(node, with_keyword(node, "persistent_workers", cst.parse_expression(kept)))
        yield Hit(node, fix=Fix((edit,), Safety.UNSAFE, "Keep the workers", _NOTE))
