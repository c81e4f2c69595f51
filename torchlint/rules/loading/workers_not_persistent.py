"""Keep the workers from one epoch to the next

## Why
A loader that is iterated again starts all of its worker processes anew: each loads its copy of the
dataset (with spawn, it imports every module again), and the first batches of the epoch wait for
that. With `persistent_workers=True` they live as long as the loader (PyTorch docs,
`torch.utils.data.DataLoader`; Lightning docs, "Persistent workers").

Flagged: a `DataLoader` with a literal number of workers above zero and no `persistent_workers`,
over which a loop goes that an outer loop repeats, here or where the function is called; that a
framework's trainer is given; or that a LightningModule's or LightningDataModule's
`train_dataloader` or `val_dataloader` returns.

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
loader = DataLoader(Rows(torch.ones(8, 4)), batch_size=4, num_workers=1, persistent_workers=True)
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
Unsafe: from the second epoch on the workers' random numbers go on where they were in the place of a
new seed, so augmentations differ, and each worker keeps its memory and its copy of the dataset
between epochs.

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

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, with_keyword
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.flow import call_sites, reads_of
from torchlint.semantic.code.scopes import base_names, method_of
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS
from torchlint.semantic.data.loaders import loader_loops
from torchlint.semantic.data.samples import worker_count
from torchlint.semantic.values.inferred import framework_moves_batches, inferred

_LOADER = "torch.utils.data.DataLoader"
_HOOKS = ("train_dataloader", "val_dataloader")
_NOTE = (
    "Workers draw other random numbers from the second epoch on, and keep their memory "
    "between epochs."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL208",
    message="workers are restarted every epoch; set persistent_workers=True.",
    severity="info",
    default=True,
    triggers=(b"num_workers", b"DataLoader"),
    equivalence="rng",
)


@rule.call(_LOADER)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not worker_count(module, node):
        return
    bound = arguments_of(module, node, _LOADER)
    if (
        bound.open
        or bound.value("persistent_workers") is not None
        or "reload_dataloaders_every" in module.text
    ):
        return
    if (
        _many(module, node)
        or not _repeated(module, node)
        or _mutable(module, node, bound.value("dataset"))
    ):
        return
    true = cst.Name("True")
    edit = Replace(node, with_keyword(node, "persistent_workers", true))
    yield Hit(node, fix=Fix((edit,), Safety.UNSAFE, "Keep the workers", _NOTE))


def _many(module: Module, node: cst.Call) -> bool:
    """Say whether a loader is one of many: a loop or a comprehension makes it."""
    return bool(module.loops(node)) or any(
        isinstance(above, COMPREHENSIONS) for above in module.ancestors(node)
    )


def _repeated(module: Module, node: cst.Call) -> bool:
    """Say whether the loader is iterated once per epoch: by loops in this file, or by a
    framework."""
    if any(_again(module, loop, node, 2) for loop in loader_loops(module, node)):
        return True
    function, cls = module.function(node), module.class_of(node)
    if function is not None and cls is not None and function.name.value in _HOOKS:
        return any(
            base.endswith(("LightningModule", "LightningDataModule"))
            for base in base_names(module, cls)
        )
    return any(_is_fit(module, call, node) for call in module.nodes(cst.Call))


def _again(module: Module, place: cst.CSTNode, node: cst.Call, depth: int) -> bool:
    """Say whether a loop that does not make the loader too repeats a place, here or around a call
    of its function."""
    for above in module.ancestors(place):
        if isinstance(above, cst.FunctionDef):
            break
        if isinstance(above, LOOPS) and module.is_within(place, above.body):
            return not module.is_within(node, above)
    function = module.function(place)
    if function is None or depth == 0 or module.is_within(node, function):
        return False
    sites = call_sites(module, function)
    passed = [
        site
        for site in sites
        if any(inferred(module, arg.value).kind == "loader" for arg in site.args)
    ]
    own = [
        site
        for site in passed
        if any(inferred(module, arg.value).node is node for arg in site.args)
    ]
    return any(_again(module, site, node, depth - 1) for site in (own or ([] if passed else sites)))


def _is_fit(module: Module, call: cst.CSTNode, node: cst.Call) -> bool:
    """Say whether a call gives the loader to a framework's trainer."""
    if (
        not framework_moves_batches(module)
        or not isinstance(call, cst.Call)
        or not isinstance(call.func, cst.Attribute)
    ):
        return False
    if call.func.attr.value != "fit":
        return False
    return any(inferred(module, arg.value).node is node for arg in call.args)


def _mutable(module: Module, node: cst.Call, dataset: cst.BaseExpression | None) -> bool:
    """Say whether code may change the dataset between epochs: its attributes, or by a method made
    for that."""
    held = inferred(module, dataset).node if dataset is not None else None
    if isinstance(held, cst.ClassDef) and method_of(module, held, "set_epoch") is not None:
        return True
    places: list[cst.CSTNode] = [
        each for each in module.nodes(cst.Attribute) if each.attr.value == "dataset"
    ]
    if isinstance(dataset, cst.Name):
        places += reads_of(module, module.function(node) or module.root, dataset.value)
    return any(_touched(module, place) for place in places if module.loops(place))


def _touched(module: Module, place: cst.CSTNode) -> bool:
    """Say whether code assigns an attribute or an item of an object, or calls a method of it."""
    part = module.parent(place)
    above = module.parent(part) if part is not None else None
    return isinstance(above, (cst.AssignTarget, cst.AugAssign)) or (
        isinstance(above, cst.Call) and above.func is part
    )
