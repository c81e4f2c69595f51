"""Give each DDP process its own part of the data

## Why
DistributedDataParallel does not split the input over the processes; its docstring leaves that to
the user, for example with a `DistributedSampler`. Without one every process goes through the whole
dataset: an epoch costs as many times the work as there are processes, and the same samples are
averaged with themselves or, shuffled differently, seen several times per epoch. With the sampler,
`set_epoch()` must be called before each epoch, else every epoch uses the order of the first one
(documentation of `torch.utils.data.distributed.DistributedSampler`).

Flagged: a `DataLoader` over a map-style dataset, with neither `sampler=` nor `batch_sampler=` (or
with a plain `RandomSampler` or `SequentialSampler`), that feeds a training loop in which a model
runs that this file wraps in DDP. As info: a shuffling `DistributedSampler` for several epochs in a
file that never calls `set_epoch()`.

## Setup
```python
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
network = nn.Linear(4, 1)
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loss_fn = nn.MSELoss()


def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
```

## Bad
```python
loader = DataLoader(dataset, batch_size=16, shuffle=True)
for epoch in range(2):
    train(loader)
```

## Good
```python
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=16, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch)
    train(loader)
```

## Leave alone
Validation, which one process may do alone.
```python
@torch.no_grad()
def validate():
    loader = DataLoader(dataset, batch_size=16)
    return sum(loss_fn(network(x), y).item() for x, y in loader)
```

Arguments that are not spelled out may hold the sampler.
```python
def build(**options):
    train(DataLoader(dataset, shuffle=True, **options))
```

Accelerate, Lightning, Ignite and others put the sampler in themselves.
```python
def fit_prepared():
    import accelerate

    loader = accelerate.Accelerator().prepare(DataLoader(dataset, batch_size=16, shuffle=True))
    train(loader)
```

## Fix safety
No fix: which samples a process sees changes, and the loop has to call `set_epoch()`.

## Measure
Not timed: each process is given other samples, and with one process the work is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Hit,
    Module,
    Rule,
    Severity,
    arguments_of,
    conditions_around,
    inferred,
    keyword_argument,
)
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.reaching import assigned_to
from torchlint.semantic.code.scopes import method_of
from torchlint.semantic.code.tree import has_star, is_name
from torchlint.semantic.data.loader_flow import loader_loops
from torchlint.semantic.data.replicas import runs_replica
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.values.inferred import framework_moves_batches

_LOADER = "torch.utils.data.DataLoader"
_SHARDED = (
    "torch.utils.data.DistributedSampler",
    "torch.utils.data.distributed.DistributedSampler",
)
_PLAIN = (
    "torch.utils.data.RandomSampler",
    "torch.utils.data.SequentialSampler",
    "torch.utils.data.sampler.RandomSampler",
    "torch.utils.data.sampler.SequentialSampler",
)
_RANK = regex(
    r"(^|_)(local_?)?(rank|world|world_?size|shards?|num_?replicas|nproc\w*|node)(_|$)",
    re.IGNORECASE,
)
_PROCESSES = regex(
    r"distributed|(^|_)(ddp|rank|world|world_?size|n?gpus?|num_?replicas|parallel)(_|$)",
    re.IGNORECASE,
)
_SEED = regex(r"seed", re.IGNORECASE)
_EPOCH = (
    "set_epoch() is never called on this DistributedSampler: every epoch uses the order of "
    "the first one."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL303",
    message=(
        "DDP training loader has no DistributedSampler: every rank processes the whole dataset."
    ),
    severity="error",
    default=True,
    effect="none",
    triggers=(b"DistributedDataParallel",),
    equivalence="opt-in",
)


@rule.call(_LOADER, *_SHARDED)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if framework_moves_batches(module):
        return
    if module.name(node.func) != _LOADER:
        if _same_order(module, node):
            yield Hit(node, severity=Severity.INFO, message=_EPOCH)
        return
    loops = [
        loop
        for loop in loader_loops(module, node)
        if isinstance(loop, cst.For) and _trains(module, loop)
    ]
    if loops and _gives_all_samples(module, node) and not _own_part(module, node, loops):
        yield Hit(node)


def _trains(module: Module, loop: cst.For) -> bool:
    return (
        loop_kind(module, loop) is LoopKind.TRAIN
        and not is_benchmark(module, loop)
        and runs_replica(module, loop)
    )


def _gives_all_samples(module: Module, node: cst.Call) -> bool:
    """Say whether a loader goes over all samples of a map-style dataset, on every process."""
    bound = arguments_of(module, node, _LOADER)
    sampler, shuffle = bound.value("sampler"), bound.value("shuffle")
    made = [] if sampler is None else assigned_to(module, sampler) or [sampler]
    plain = bool(made) and all(module.called(each) in _PLAIN for each in made)
    if (
        has_star(node)
        or bound.value("batch_sampler") is not None
        or bound.value("generator") is not None
    ):
        return False
    if not (plain or sampler is None or is_name(sampler, "None")):
        return False
    dataset = bound.value("dataset")
    return dataset is not None and (
        plain or is_name(shuffle, "True") or _map_style(module, dataset)
    )


def _what_made(module: Module, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    return sole_definition(module, node) or node


def _map_style(module: Module, dataset: cst.BaseExpression) -> bool:
    name = module.called(_what_made(module, dataset))
    if name.startswith(_LOADER[:17]):
        return name.endswith(("TensorDataset", "Subset", "ConcatDataset"))
    cls = inferred(module, dataset).node
    return isinstance(cls, cst.ClassDef) and method_of(module, cls, "__getitem__") is not None


def _own_part(module: Module, node: cst.Call, loops: list[cst.For]) -> bool:
    """Say whether each process may get a part of its own: of the dataset, by its seed, in a branch,
    of the batches."""
    dataset = arguments_of(module, node, _LOADER).value("dataset")
    cls = inferred(module, dataset).node if dataset is not None else None
    places = [p for p in (dataset, _what_made(module, dataset), cls) if p is not None]
    if any(_speaks(module, place, _RANK) for place in places):
        return True
    if any(_speaks(module, test, _PROCESSES) for test, _ in conditions_around(module, node)):
        return True
    if any(_seeds(module, call) for call in module.nodes(cst.Call)):
        return True
    parts = [
        part
        for loop in loops
        for part in module.within(loop.body, cst.Subscript, cst.BinaryOperation)
    ]
    return any(
        _speaks(module, p, _RANK)
        for p in parts
        if not isinstance(p, cst.BinaryOperation) or isinstance(p.operator, cst.Modulo)
    )


def _speaks(module: Module, node: cst.CSTNode, words: re.Pattern[str]) -> bool:
    return any(words.search(n.value) for n in module.within(node, cst.Name, nested=True))


def _seeds(module: Module, call: cst.CSTNode) -> bool:
    """Say whether a call seeds a random number generator differently on each process."""
    if not isinstance(call, cst.Call) or not any(
        _SEED.search(name) for name in module.names_in(call.func)
    ):
        return False
    return any(_speaks(module, arg.value, _RANK) for arg in call.args)


def _same_order(module: Module, node: cst.Call) -> bool:
    """Say whether a shuffling sampler feeds a training loop of several epochs, and nothing ever
    calls set_epoch."""
    if "set_epoch" in module.text or is_name(keyword_argument(module, node, "shuffle"), "False"):
        return False
    for loader in module.nodes(cst.Call):
        if module.name(loader.func) != _LOADER:
            continue
        sampler = arguments_of(module, loader, _LOADER).value("sampler")
        if sampler is not None and any(
            module.is_within(node, p) for p in (sampler, *assigned_to(module, sampler))
        ):
            loops = [loop for loop in loader_loops(module, loader) if isinstance(loop, cst.For)]
            return any(_trains(module, loop) and _epochs(module, loop) for loop in loops)
    return False


def _epochs(module: Module, loop: cst.For) -> bool:
    function = module.function(loop)
    places = [loop, *(call_sites(module, function) if function is not None else ())]
    return any(
        loop_kind(module, outer) is LoopKind.EPOCH
        for place in places
        for outer in module.loops(place)
    )
