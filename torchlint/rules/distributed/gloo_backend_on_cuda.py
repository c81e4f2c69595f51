"""Reduce gradients of CUDA models with NCCL

## Why
Gloo reduces through host memory; NCCL moves data directly between GPUs, over NVLink and InfiniBand
where there are any. The documentation of `torch.distributed` gives the rule of thumb: NCCL for
distributed training on CUDA GPUs, Gloo for training on CPUs. With `"cpu:gloo,cuda:nccl"` a process
group uses NCCL for CUDA tensors and still takes CPU tensors; torch knows such a pair from 2.0 on.

Flagged: `init_process_group()` with the literal backend `"gloo"` in a file that wraps a model in
DDP and shows that this model is on CUDA: it was moved there, or `device_ids=` names GPUs.

## Setup
```python
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
```

## Bad
```python
def main():
    dist.init_process_group("gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    model = nn.Linear(4, 1).cuda(local_rank)
    return DistributedDataParallel(model, device_ids=[local_rank])
```

## Good
```python
def main():
    dist.init_process_group("cpu:gloo,cuda:nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    model = nn.Linear(4, 1).cuda(local_rank)
    return DistributedDataParallel(model, device_ids=[local_rank])
```

## Leave alone
NCCL for CUDA tensors is there already.
```python
def both(rank):
    dist.init_process_group("cpu:gloo,cuda:nccl")
    return DistributedDataParallel(nn.Linear(4, 1).cuda(rank), device_ids=[rank])
```

A backend that is chosen by what the machine has.
```python
def chosen(rank):
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return DistributedDataParallel(nn.Linear(4, 1).cuda(rank), device_ids=[rank])
```

Training on the CPU.
```python
def on_cpu():
    dist.init_process_group("gloo")
    return DistributedDataParallel(nn.Linear(4, 1), device_ids=[])
```

## Fix safety
Unsafe: needs a build with NCCL and a GPU for each process, and sums in another order, so results
round differently.

## Measure
Not timed: it takes several GPUs and a process for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    arguments_of,
    conditions_around,
    inferred,
)
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.data.replicas import replica_wraps
from torchlint.semantic.values.value import CUDA

_INIT = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
)
_DDP = "torch.nn.parallel.DistributedDataParallel"
_CHOICE = regex(
    r"cuda|nccl|gloo|backend|gpus?|device|platform|win|cpu|available|['\"]nt['\"]", re.IGNORECASE
)
_PAIRS_SINCE = (2, 0)
"""The first torch that takes a backend for each kind of device (its documentation)."""
_NOTE = "Needs NCCL and one GPU per process; sums are taken in another order."

rule = Rule(
    __name__,
    __doc__,
    code="TL305",
    message='backend="gloo" with CUDA tensors; use "nccl".',
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"gloo",),
)


@rule.call(*_INIT)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    backend = arguments_of(module, node, _INIT[0]).value("backend")
    if not isinstance(backend, cst.SimpleString) or backend.raw_value.lower() != "gloo":
        return
    if _is_chosen(module, node) or not any(
        _on_cuda(module, wrap) for wrap in replica_wraps(module)
    ):
        return
    both = module.target_torch >= _PAIRS_SINCE
    name = "cpu:gloo,cuda:nccl" if both else "nccl"
    new = backend.with_changes(value=f"{backend.prefix}{backend.quote}{name}{backend.quote}")
    note = _NOTE if both else f"{_NOTE} NCCL takes no CPU tensors."
    fix = Fix((Replace(backend, new),), Safety.UNSAFE, "Use NCCL for CUDA tensors", note)
    yield Hit(backend, fix=fix)


def _is_chosen(module: Module, node: cst.Call) -> bool:
    """Say whether a condition on the machine, or on a setting, decides that gloo is used."""
    return any(
        _CHOICE.search(word.value)
        for test, _ in conditions_around(module, node)
        for word in module.within(test, cst.Name, cst.SimpleString)
        if isinstance(word, (cst.Name, cst.SimpleString))
    )


def _on_cuda(module: Module, wrap: cst.Call) -> bool:
    """Say whether a wrapped model is certainly on CUDA: ``device_ids`` only makes sense there."""
    if is_benchmark(module, wrap):
        return False
    bound = arguments_of(module, wrap, _DDP)
    model, ids = bound.value("module"), bound.value("device_ids")
    if isinstance(ids, (cst.List, cst.Tuple)) and ids.elements:
        return True
    return model is not None and inferred(module, model).device == CUDA
