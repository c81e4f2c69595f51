"""Return CPU tensors from datasets and collate functions

## Why
Worker processes that are forked cannot use CUDA once the main process has ("Cannot re-initialize
CUDA in forked subprocess"), and spawned ones would each need a CUDA context. The docs of
`torch.utils.data` say of multi-process loading that it is "generally not recommended to return CUDA
tensors", and such batches cannot be pinned. A copy per sample is also many small blocking copies in
the place of one.

Flagged: a move to the GPU, a factory with a CUDA `device`, or a call of a model on the GPU in
`__getitem__` or `__iter__` of a dataset, in a collate function, or in a function that only these
call. It is an error where a loader of the file runs this code in a literal number of workers above
zero. Also a loader over tensors that lie on the GPU, alone or in a `TensorDataset`: it takes each
row by kernels of its own, and stacks them; batches of `torch.randperm(len(x), device=x.device)`
index all rows at once.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 1).to(device)


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


rows = torch.ones(8, 4)
```

## Bad
```python
class OnDevice(Rows):
    def __getitem__(self, index):
        return self.rows[index].to(device)


for x in DataLoader(OnDevice(rows), batch_size=4):
    model(x).sum().backward()
```

## Good
```python
for x in DataLoader(Rows(rows), batch_size=4):
    model(x.to(device, non_blocking=True)).sum().backward()
```

## Leave alone
The device is the caller's choice, and nothing in the class names CUDA.
```python
class Chosen(Rows):
    def __init__(self, rows, device):
        self.rows, self.device = rows, device

    def __getitem__(self, index):
        return self.rows[index].to(self.device)
```

A change of dtype is no move.
```python
class Doubles(Rows):
    def __getitem__(self, index):
        return self.rows[index].to(torch.float64)
```

Samples that a network makes on the GPU, out of nothing that lies on the host, need no workers.
```python
class Generated(torch.utils.data.IterableDataset):
    def __iter__(self):
        for _ in range(4):
            yield model(torch.randn(4, device=device))


for x in DataLoader(Generated(), batch_size=4):
    print(x.mean(0))
```

## Fix safety
No fix is offered: the move belongs into the loops that use the batches.

## Measure
An epoch of 64 batches of 4 rows, without workers. On a CPU no gain is expected: what is saved is
three of four copies over the bus, and the kernels that put the batch together.
```python
torch.manual_seed(0)
rows = torch.randn(256, 4)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, Severity, arguments_of, inferred
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.data.loader_flow import gives_one_batch
from torchlint.semantic.data.samples import (
    loader_unit,
    loaders_running,
    made_on_gpu,
    uses_gpu,
    worker_count,
)
from torchlint.semantic.time.iterations import number_of
from torchlint.semantic.torch.names import MOVES, TENSOR_DATASET
from torchlint.semantic.torch.spelling import MODEL, called
from torchlint.semantic.values.inferred import is_model_call
from torchlint.semantic.values.value import ACCEL, CUDA

_LOADER = "torch.utils.data.DataLoader"
_PLACES = {
    "sample": "a dataset's __getitem__",
    "stream": "a dataset's __iter__",
    "batch": "collate code",
}
_IN_WORKERS = " that runs in worker processes"
_NO_WORKERS = ", which rules out workers and pinning"

_NETWORK = (
    "a network runs on the GPU in {place}, sample by sample{consequence}; compute what it gives "
    "once and keep that, or run it on whole batches in the loop."
)
_ROWS = (
    "the loader takes each row of tensors on the GPU by kernels of its own, and stacks them; index "
    "them by slices of torch.randperm(n, device=...)."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL206",
    message=(
        "CUDA is used in {place}{consequence}; return CPU tensors and move the batch in the loop."
    ),
    severity="warning",
    default=True,
    effect="loader",
    triggers=(b"Dataset", b"__getitem__", b"ollat"),
    equivalence="bitwise",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not uses_gpu(module, node):
        return
    unit = loader_unit(module, node)
    if unit is None:
        return
    loaders = loaders_running(module, node)
    if loaders and all(_resident(module, loader) for loader in loaders):
        return
    unaided = loaders and all(worker_count(module, loader) == 0 for loader in loaders)
    if unaided and made_on_gpu(module, node):
        return
    started = any(worker_count(module, loader) for loader in loaders)
    words = {"place": _PLACES[unit], "consequence": _IN_WORKERS if started else _NO_WORKERS}
    message = _NETWORK if _runs_network(module, node) else None
    yield Hit(node, words, severity=Severity.ERROR if started else None, message=message)


@rule.call(_LOADER)
def check_rows(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a loader over tensors of the GPU, of which it takes each row by itself."""
    bound = arguments_of(module, node, _LOADER)
    size, dataset = bound.value("batch_size"), bound.value("dataset")
    if dataset is None or size is None or is_name(size, "None") or number_of(module, size) == 1:
        return
    made = sole_definition(module, dataset) or dataset
    if not isinstance(made, cst.Call):
        return  # A parameter may be a dataset of any kind.
    parts = [arg.value for arg in made.args] if module.called(made) == TENSOR_DATASET else [made]
    where = {inferred(module, each).device for each in parts}
    if where & {ACCEL, CUDA} and not gives_one_batch(module, node):
        yield Hit(node, message=_ROWS)


def _runs_network(module: Module, node: cst.Call) -> bool:
    """Say whether a network runs in the code that makes a sample: by its call, or by a method of
    what is called a model, ``self.model.encode_image(image)``."""
    return any(
        is_model_call(module, call)
        or (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value not in MOVES
            and called(last_part(call.func.value), MODEL)
        )
        for call in module.within(module.scope(node), cst.Call)
    )


def _resident(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader fetches whole batches in the main process, as from data that live on the
    GPU."""
    size = arguments_of(module, loader, _LOADER).value("batch_size")
    return is_name(size, "None") and worker_count(module, loader) == 0
