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
zero.

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

from torchlint.rule import Hit, Module, Rule, Severity
from torchlint.semantic.code.calls import arguments_of, keyword_argument
from torchlint.semantic.code.names import Binding
from torchlint.semantic.data.samples import loaders_running, sample_role, worker_count
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred, is_model_call
from torchlint.semantic.values.place import named_device
from torchlint.semantic.values.value import ACCEL, CUDA

_LOADER = "torch.utils.data.DataLoader"
_PLACES = {
    "sample": "a dataset's __getitem__",
    "stream": "a dataset's __iter__",
    "batch": "collate code",
}
_IN_WORKERS = " that runs in worker processes"
_NO_WORKERS = ", which rules out workers and pinning"

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
    if not _on_device(module, node):
        return
    role = sample_role(module, node)
    if role is None:
        return
    loaders = loaders_running(module, node)
    if loaders and all(_resident(module, loader) for loader in loaders):
        return
    started = any(worker_count(module, loader) for loader in loaders)
    words = {"place": _PLACES[role], "consequence": _IN_WORKERS if started else _NO_WORKERS}
    yield Hit(node, words, severity=Severity.ERROR if started else None)


def _on_device(module: Module, node: cst.Call) -> bool:
    """Say whether a call moves to, creates on or computes on a GPU."""
    moved, name = transfer_of(module, node), module.name(node.func)
    if moved is not None:
        return _cuda(module, moved.device, moved.target)
    if name in ops.FACTORIES or name in ops.DATA_FACTORIES:
        target = keyword_argument(module, node, "device")
        return _cuda(module, named_device(module, target), target)
    return is_model_call(module, node) and inferred(module, node).device == CUDA


def _cuda(module: Module, device: str | None, target: cst.BaseExpression | None) -> bool:
    """Say whether a device is CUDA: by itself, or as the class or else the file that chooses it
    names CUDA."""
    if device != ACCEL:
        return device == CUDA
    chooser: cst.CSTNode | None = None
    match target:
        case cst.Attribute(value=cst.Name(value="self")):
            chooser = module.class_of(target)
        case cst.Attribute():  # A tensor's own device, or one that the caller chooses.
            return False
        case cst.Name():
            _, bindings = module.names.bindings(target.value, target)
            if any(map(_of_samples, bindings)):
                return False
    return "cuda" in module.source(chooser or module.root)


def _of_samples(bound: Binding) -> bool:
    """Say whether a device is that of a tensor, or is left to the caller, who may give none."""
    match bound:
        case Binding(node=cst.Param(default=cst.Name("None"))):
            return True
        case Binding(value=cst.Attribute(value=cst.Name(holder), attr=cst.Name("device"))):
            return holder != "self"
    return False


def _resident(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader fetches whole batches in the main process, as from data that live on the
    GPU."""
    match arguments_of(module, loader, _LOADER).value("batch_size"):
        case cst.Name(value="None"):
            return worker_count(module, loader) == 0
    return False
