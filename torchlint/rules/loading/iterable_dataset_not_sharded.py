"""Share an iterable dataset's stream among the workers

## Why
Each worker of a loader has a replica of the dataset. A map-style dataset is asked for different
indices, but an `IterableDataset` is just iterated, in every worker: the docs of `torch.utils.data`
say that "naive multi-process loading will often result in duplicated data". With two workers each
sample comes twice in an epoch.

Flagged: the `__iter__` of a class derived from `IterableDataset` that a loader of the same file
runs in a literal number of workers above zero (a hint where the number is not a literal), where
neither the class nor the loader's `worker_init_fn` asks for `get_worker_info` or uses a worker's,
rank's or shard's number.

## Setup
```python
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
```

## Bad
```python
class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        for row in self.rows:
            yield row


count = len(list(DataLoader(Stream(torch.ones(8, 4)), batch_size=4, num_workers=2)))
```

## Good
```python
from itertools import islice


class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info is not None else (0, 1)
        yield from islice(self.rows, first, None, step)


count = len(list(DataLoader(Stream(torch.ones(8, 4)), batch_size=4, num_workers=2)))
```

## Leave alone
Without workers nothing is repeated.
```python
class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.ones(8, 4)


count = len(list(DataLoader(Stream(), batch_size=4)))
```

An endless random stream: no sample is meant to come once.
```python
class Noise(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(4)


loader = DataLoader(Noise(), batch_size=4, num_workers=2)
```

## Fix safety
No fix is offered: only the author knows how the stream is best divided, by rows or by files.

## Measure
Not timed: what is at stake is a wrong result, as each sample comes once for every worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, Severity, arguments_of, inferred
from torchlint.semantic.code.scopes import base_names, method_of
from torchlint.semantic.data.samples import loaders_of, worker_count
from torchlint.semantic.torch import ops
from torchlint.semantic.values.classes import family_of

_LOADER = "torch.utils.data.DataLoader"
_BASES = ("torch.utils.data.IterableDataset", "torch.utils.data.dataset.IterableDataset")
_SHARES = regex(
    r"worker|rank|shard|world|split_by|split_dataset|WebDataset|webdataset|wds|datapipe"
    r"|load_dataset|num_parts|"
    r"process_index|num_processes|Queue|queue",
    re.IGNORECASE,
)
_RANDOM = regex(
    rf"\b(rand\w*|random\.\w+|choice|sample|uniform|{'|'.join(sorted(ops.having('random')))})\("
    r"|\bwhile\s+(True|1)\s*:"
)

rule = Rule(
    __name__,
    __doc__,
    code="TL204",
    message="{name} ignores get_worker_info(): {consequence} yields the whole stream.",
    severity="error",
    default=True,
    effect="none",
    triggers=(b"IterableDataset",),
    equivalence="opt-in",
)


@rule.on(cst.FunctionDef)
def check(node: cst.FunctionDef, module: Module) -> Iterator[Hit]:
    if node.name.value != "__iter__":
        return
    classes = [cls for cls in _streams(module, node) if not _shares(module, cls)]
    starting = [
        loader for cls in classes for loader in loaders_of(module, cls) if _starts(module, loader)
    ]
    counts = {worker_count(module, loader) for loader in starting}
    known = [count for count in counts if count]
    if known:
        words = {"name": classes[0].name.value, "consequence": f"each of {max(known)} workers"}
        yield Hit(node.name, words)
    elif None in counts:
        words = {"name": classes[0].name.value, "consequence": "with several workers each"}
        yield Hit(node.name, words, severity=Severity.INFO)


def _streams(module: Module, method: cst.FunctionDef) -> list[cst.ClassDef]:
    """Return the iterable datasets of the file that a method iterates: its class, and those that
    inherit it."""
    return [
        cls
        for cls in module.nodes(cst.ClassDef)
        if method_of(module, cls, "__iter__") is method
        and any(name in _BASES for name in base_names(module, cls))
    ]


def _shares(module: Module, node: cst.ClassDef) -> bool:
    """Say whether a class or its bases in this file know of workers or shards, or yield random
    samples."""
    for each in family_of(module, node):
        text = "\n".join(module.source(part) for part in each.body.body)
        if _SHARES.search(text) or _RANDOM.search(text):
            return True
    return False


def _starts(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader has workers, or may have, which no ``worker_init_fn`` gives their
    parts."""
    bound = arguments_of(module, loader, _LOADER)
    if bound.open:
        return False
    match bound.value("worker_init_fn"):
        case None | cst.Name("None"):
            return True
        case given:
            function = inferred(module, given).node
    return isinstance(function, (cst.FunctionDef, cst.Lambda)) and not re.search(
        "dataset|worker_info", module.source(function)
    )
