"""Load batches in worker processes

## Why
With `num_workers=0`, the default, `next()` on the loader reads, decodes and collates the batch in
the training process, while the GPU has nothing to do. PyTorch's performance tuning guide ("Enable
asynchronous data loading and augmentation") and the profiler's pattern
`SynchronizedDataLoaderPattern` name it. Without `pin_memory` the copy to the GPU cannot be
asynchronous either, whatever `non_blocking` says.

Flagged: a loader without workers whose samples are read, decoded, tokenised or augmented, as a
warning where it feeds a training loop or is shuffled, as a hint elsewhere; samples of unknown cost
are a hint where a training loop moves the batches or Lightning does. A literal number of workers
per GPU is a hint as well.

## Setup
```python
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
root = Path(tempfile.mkdtemp())
for index in range(16):
    np.save(root / f"{index}.npy", np.ones(8, dtype=np.float32))


class Files(Dataset):
    def __init__(self, root):
        self.paths = sorted(root.glob("*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.paths[index]))


def train(loader):
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        x = x.to(device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
```

## Bad
```python
if __name__ == "__main__":
    train(DataLoader(Files(root), batch_size=4, shuffle=True))
```

## Good
```python
if __name__ == "__main__":
    train(DataLoader(Files(root), batch_size=4, shuffle=True, num_workers=4))
```

## Leave alone
Data already in memory: workers only add a copy between processes.
```python
train(DataLoader(TensorDataset(torch.ones(16, 8)), batch_size=4, shuffle=True))
```

The number of workers is the caller's choice.
```python
def make(args, **options):
    first = DataLoader(Files(root), batch_size=4, num_workers=args.workers)
    return first, DataLoader(Files(root), batch_size=4, **options)
```

A loop without a model, such as one that computes statistics once.
```python
total = 0.0
for x in DataLoader(Files(root), batch_size=4, shuffle=True):
    total += float(x.mean())
```

## Fix safety
Unsafe, and offered only for a script with a `__main__` guard: random transforms draw from the
workers' seeds, so samples differ, and memory grows with each worker. The order of a shuffle and the
main generator stay the same. Four workers are a start: measure with more and fewer. Elsewhere the
fix is a suggestion.

## Measure
Not timed: the gain depends on the cost of a sample and of a step, on the storage, and on the number
of cores. In an example that ends quickly, the start of the workers outweighs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, Severity, with_keyword
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.guards import conditions_around, is_debug
from torchlint.semantic.code.text import has_main_guard
from torchlint.semantic.data.datasets import cuda_samples, sample_cost, streams_samples
from torchlint.semantic.data.loaders import (
    loader_loops,
    loader_role,
    makes_loader,
    moves_batches,
    pins_memory,
)
from torchlint.semantic.values.classes import in_lightning

_LOADER = "torch.utils.data.DataLoader"
_TRYOUT = re.compile(r"overfit|debug|sanity|smoke|TYPE_CHECKING", re.IGNORECASE)
_PIN = " It does not pin memory either: with workers, set pin_memory=True too."
_PER_GPU = (
    "workers per GPU is folklore: what helps depends on CPU cores and the cost of a "
    "sample, so measure."
)
_NOTE = (
    "Random transforms draw from the workers' seeds, each worker takes memory, and 4 is only "
    "a start to tune from."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL201",
    message=(
        "{role} loads in the main process (num_workers=0); batches are prepared while the "
        "GPU waits.{pin}"
    ),
    severity="warning",
    default=True,
    triggers=(b"DataLoader", b"utils.data"),
    equivalence="rng",
)


@rule.on(cst.Call, about=makes_loader)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    bound = arguments_of(module, node, _LOADER)
    workers = bound.value("num_workers")
    if _per_gpu(module, workers):
        yield Hit(node, message=_PER_GPU, severity=Severity.INFO)
        return
    if bound.open or not (workers is None or _is_zero(workers)) or _chosen(module, node, workers):
        return
    severity = _severity(module, node)
    if severity is None or _unsharded(module, bound.value("dataset")) or cuda_samples(module, node):
        return
    train = loader_role(module, node) == "train"
    words = {
        "role": "training DataLoader" if train else "DataLoader",
        "pin": _PIN if pins_memory(module, node) is False else "",
    }
    four = cst.Integer("4")
    edit = (
        Replace(workers, four)
        if workers is not None
        else Replace(node, with_keyword(node, "num_workers", four))
    )
    safety = Safety.UNSAFE if has_main_guard(module) else Safety.SUGGESTION
    yield Hit(node, words, Fix((edit,), safety, "Load with worker processes", _NOTE), severity)


def _per_gpu(module: Module, workers: cst.BaseExpression | None) -> bool:
    """Say whether the number of workers is a literal times the number of GPUs."""
    match workers:
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            sides = (left, right)
            counts = [
                s
                for s in sides
                if isinstance(s, cst.Call) and module.name(s.func) == "torch.cuda.device_count"
            ]
            return bool(counts) and any(isinstance(s, cst.Integer) for s in sides)
    return False


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and int(node.value, 0) == 0


def _severity(module: Module, node: cst.Call) -> Severity | None:
    """Return how sure it is that workers help: costly samples in training, elsewhere, or samples of
    unknown cost."""
    cost, role = sample_cost(module, node), loader_role(module, node)
    if cost is False or role == "other":
        return None
    shuffled = arguments_of(module, node, _LOADER).value("shuffle")
    trains = role == "train" or (
        role == "unseen" and isinstance(shuffled, cst.Name) and shuffled.value == "True"
    )
    if cost:
        return Severity.WARNING if trains else Severity.INFO
    moved = any(moves_batches(module, loop) for loop in loader_loops(module, node))
    return Severity.INFO if (role == "train" and moved) or in_lightning(module, node) else None


def _chosen(module: Module, node: cst.Call, workers: cst.BaseExpression | None) -> bool:
    """Say whether the main process is chosen on purpose: for a try-out, or as one branch of a
    condition."""
    tests = [test for test, _ in conditions_around(module, node)]
    if any(is_debug(module, test) or _TRYOUT.search(module.code(test)) for test in tests):
        return True
    function = module.function(node)
    if function is not None and _TRYOUT.search(function.name.value):
        return True
    return workers is not None and bool(tests) and function is not None


def _unsharded(module: Module, dataset: cst.BaseExpression | None) -> bool:
    """Say whether a dataset of the project is iterable: workers would repeat it unless it shards
    itself."""
    return dataset is not None and streams_samples(module, dataset)
