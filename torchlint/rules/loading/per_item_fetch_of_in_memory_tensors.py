"""Fetch a batch of in-memory rows by one index operation

## Why
With automatic batching a loader runs `[dataset[i] for i in indices]` and stacks the result, in
Python, once per row. Rows that are already in a tensor can be taken by one index operation: with a
`BatchSampler` as `sampler` and `batch_size=None`, or by a method `__getitems__` (PyTorch docs,
`torch.utils.data`: "Disable automatic batching").

Flagged: a training `DataLoader` of 32 samples or more per batch, without workers and with the
default collate function, over a tensor, a `TensorDataset`, or a dataset whose `__getitem__` does
little but index the tensors and arrays that it holds. Where the data fit, keep them on the GPU as
a whole: `x[torch.randperm(len(x), device=x.device)[:256]]` needs no copies at all.

## Setup
```python
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

x, y = torch.ones(2048, 4), torch.ones(2048)
```

## Bad
```python
loader = DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True)
```

## Good
```python
dataset = TensorDataset(x, y)
loader = DataLoader(dataset, batch_size=None, sampler=BatchSampler(RandomSampler(dataset), 256, False))
```

## Leave alone
Small batches: the loader's own cost per batch outweighs its rows.
```python
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
```

Little data.
```python
loader = DataLoader(TensorDataset(torch.ones(100, 4)), batch_size=64, shuffle=True)
```

A collate function that pads.
```python
def collate(samples):
    return torch.stack([a for a, _ in samples])


loader = DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True, collate_fn=collate)
```

## Fix safety
No fix is offered: the order of a shuffle is the same only if the sampler is seeded alike, and other
code may read the loader's `batch_size`.

## Measure
An epoch over 2048 rows. A gain can be expected on a CPU, too.
```python
torch.manual_seed(0)
x, y = torch.randn(2048, 4), torch.randn(2048)
```

```python
total = torch.zeros(())
for rows, values in loader:
    total += values.sum()
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, arguments_of, inferred
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.tree import has_star, is_name
from torchlint.semantic.data.datasets import cuda_samples, sample_cost
from torchlint.semantic.data.loader_calls import held_out
from torchlint.semantic.data.loaders import loader_feeds
from torchlint.semantic.data.samples import worker_count
from torchlint.semantic.device.factories import factories_of
from torchlint.semantic.time.iterations import number_of
from torchlint.semantic.torch.names import TENSOR_DATASET
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.accelerator import stays_on_host, trains_on_cpu
from torchlint.semantic.values.inferred import class_attribute

_LOADER = "torch.utils.data.DataLoader"
_OWN_WAY = ("sampler", "batch_sampler", "collate_fn")
_ON_DISK = regex(r"mmap|memmap|h5py|zarr|lmdb")
_ARRAYS = ("tensor", "ndarray")
_LARGE = 32
_LITTLE = 1000

rule = Rule(
    __name__,
    __doc__,
    code="TL210",
    message=(
        "samples in memory are fetched one by one and stacked again; index the tensors by a batch "
        "of positions, on the GPU where they fit."
    ),
    severity="info",
    default=True,
    effect="loader",
    triggers=(b"DataLoader", b"utils.data"),
    equivalence="rng",
    yields_to=("TL206",),
)


@rule.call(_LOADER)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    bound = arguments_of(module, node, _LOADER)
    size, dataset = bound.value("batch_size"), bound.value("dataset")
    if has_star(node) or dataset is None or size is None or is_name(size, "None"):
        return
    if (number_of(module, size) or _LARGE) < _LARGE:
        return
    if any(
        given is not None and not is_name(given, "None") for given in map(bound.value, _OWN_WAY)
    ):
        return
    if worker_count(module, node) != 0 or not _trains(module, node, bound.value("shuffle")):
        return
    if sample_cost(module, node) is not False or cuda_samples(module, node):
        return
    made = sole_definition(module, dataset) or dataset
    parts = [arg.value for arg in made.args] if isinstance(made, cst.Call) else [made]
    whole = module.called(made) == TENSOR_DATASET or inferred(module, dataset).kind in _ARRAYS
    if (whole or _gives_rows(module, dataset)) and not any(_little(module, each) for each in parts):
        yield Hit(node)


def _gives_rows(module: Module, dataset: cst.BaseExpression) -> bool:
    """Say whether what a sample is taken from are tensors and arrays that the dataset holds, and
    there is no way to take several."""
    value = inferred(module, dataset)
    found = definitions_behind.method(module, value, "__getitem__")
    cls = found[0].class_of(found[1]) if found is not None else None
    if (
        found is None
        or cls is None
        or definitions_behind.method(module, value, "__getitems__") is not None
        or _ON_DISK.search(found[0].source(cls)) is not None
    ):
        return False
    where, method = found
    held = [
        part.value.attr.value
        for part in where.within(method, cst.Subscript)
        if isinstance(part.value, cst.Attribute) and is_name(part.value.value, "self")
    ]
    return bool(held) and all(class_attribute(where, cls, each).kind in _ARRAYS for each in held)


def _trains(module: Module, loader: cst.Call, shuffled: cst.BaseExpression | None) -> bool:
    """Say whether a loader feeds the training of a program that may use a GPU."""
    feeds = loader_feeds(module, loader)
    train = (feeds == "train" and not held_out(module, loader)) or (
        feeds == "unseen" and is_name(shuffled, "True")
    )
    return train and not stays_on_host(module) and not trains_on_cpu(module)


def _little(module: Module, data: cst.BaseExpression) -> bool:
    """Say whether a tensor has few rows by the literal size of the factory that makes it."""
    for factory in factories_of(module, data, filled=True):
        rows = number_of(module, factory.args[0].value) if factory.args else None
        if rows is not None and rows <= _LITTLE:
            return True
    return False
