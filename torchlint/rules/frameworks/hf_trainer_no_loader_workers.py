"""Give the transformers Trainer worker processes for its loader

## Why
`TrainingArguments.dataloader_num_workers` is 0 by default: the training process itself fetches
every sample and collates the batch, and the GPU waits meanwhile (transformers docs, "Data
preloading"). Memory is pinned by default, but that alone prepares nothing. With
`dataloader_persistent_workers=True` the workers live on from epoch to epoch.

Flagged: `TrainingArguments(...)` without `dataloader_num_workers`, or with 0, in a file whose
dataset, `set_transform` or collate function reads files, decodes, tokenises or augments.

The examples need transformers and are not executed by the tests.

## Setup
```python
import torch
from torch.utils.data import Dataset
```

## Bad
```python
class Images(Dataset):
    def __init__(self, paths, transform):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from PIL import Image

        return {"pixel_values": self.transform(Image.open(self.paths[index]))}


def train(model, paths, transform):
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments("out", num_train_epochs=3)
    Trainer(model, args, train_dataset=Images(paths, transform)).train()
```

## Good
```python
class Images(Dataset):
    def __init__(self, paths, transform):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from PIL import Image

        return {"pixel_values": self.transform(Image.open(self.paths[index]))}


def train(model, paths, transform):
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        "out",
        num_train_epochs=3,
        dataloader_num_workers=4,
        dataloader_persistent_workers=True,
    )
    Trainer(model, args, train_dataset=Images(paths, transform)).train()
```

## Leave alone
Rows that are tokenised already only have to be padded, which is cheap.
```python
from datasets import load_from_disk
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments


def train(model, tokenizer):
    rows = load_from_disk("tokenised")
    args = TrainingArguments("out")
    Trainer(model, args, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer)).train()
```

The number of workers has been chosen, here or elsewhere.
```python
from transformers import Trainer, TrainingArguments


def train(model, rows, augment, workers, **options):
    rows.set_transform(augment)
    Trainer(model, TrainingArguments("out", dataloader_num_workers=workers), train_dataset=rows).train()
    Trainer(model, TrainingArguments("out", **options), train_dataset=rows).train()
```

## Fix safety
Unsafe: random augmentation then draws from the workers' generators, and each worker needs memory of
its own.

## Measure
Not timed: the example needs transformers, image files and a model. A gain is expected where reading
the samples takes long and cores are idle, most of all beside a GPU.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    inferred,
    keyword_argument,
    with_keyword,
)
from torchlint.semantic.code.scopes import method_of
from torchlint.semantic.code.tree import has_star, is_name, is_zero, method_called
from torchlint.semantic.data import datasets
from torchlint.semantic.data.frameworks import ARGUMENTS, makes_training_arguments
from torchlint.semantic.data.pickling import sendable
from torchlint.semantic.question import question

_SMOKE = 100
_NOTE = (
    "Random augmentation draws from the workers' generators, and each worker needs memory of "
    "its own."
)
_PICKLED = (
    "Where processes are spawned or come from a fork server (Windows, macOS, Python 3.14) a lambda "
    "or a local function cannot be sent to a worker."
)
_TITLE = "Load with workers; tune their number"

rule = Rule(
    __name__,
    __doc__,
    code="TL907",
    message=(
        "TrainingArguments.dataloader_num_workers is 0: samples are prepared in the training "
        "process."
    ),
    severity="info",
    default=False,
    effect="loader",
    triggers=(b"TrainingArguments",),
    equivalence="rng",
)


@rule.on(cst.Call, about=makes_training_arguments, calls=ARGUMENTS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if has_star(node):
        return
    workers = keyword_argument(module, node, "dataloader_num_workers")
    steps = keyword_argument(module, node, "max_steps")
    if workers is not None and not is_zero(workers):
        return
    if isinstance(steps, cst.Integer) and steps.evaluated_value <= _SMOKE:
        return
    if streams_rows(module) or not costly_for_trainer(module):
        return
    new = with_keyword(node, "dataloader_num_workers", cst.Integer("4"))
    if keyword_argument(module, node, "dataloader_persistent_workers") is None:
        new = with_keyword(new, "dataloader_persistent_workers", cst.Name("True"))
    safety, note = (Safety.SUGGESTION, _PICKLED) if _is_local(module) else (Safety.UNSAFE, _NOTE)
    yield Hit(node, fix=Fix((Replace(node, new),), safety, _TITLE, note))


@question(
    yes="what the Trainer loads holds a lambda or a local function", no="no lambda is known there"
)
def _is_local(module: Module) -> bool:
    """Say whether what workers would get here cannot be pickled."""
    given = [
        keyword_argument(module, call, name)
        for call in module.nodes(cst.Call)
        for name in ("train_dataset", "data_collator")
    ]
    return any(each is not None and sendable(module, each) is False for each in given)


@question(yes="the file streams its dataset", no="the file does not stream its dataset")
def streams_rows(module: Module) -> bool:
    """Whether the file streams a dataset of the datasets library (``streaming=True``)."""
    calls = module.nodes(cst.Call)
    given = (keyword_argument(module, call, "streaming") for call in calls)
    return any(is_name(value, "True") for value in given)


@question(
    yes="what the Trainer loads is costly",
    no="nothing in the file shows that what the Trainer loads is costly",
)
def costly_for_trainer(module: Module) -> bool:
    """Say whether what this file gives a transformers ``Trainer`` to load reads, decodes, tokenises
    or augments."""
    for call in module.nodes(cst.Call):
        if method_called(call) in (
            "set_transform",
            "with_transform",
        ):
            return True
        dataset, collate = (
            keyword_argument(module, call, name) for name in ("train_dataset", "data_collator")
        )
        if dataset is not None and datasets.dataset_cost(module, dataset) is True:
            return True
        made = inferred(module, collate).node if collate is not None else None
        if isinstance(made, cst.ClassDef):
            made = method_of(module, made, "__call__")
        if isinstance(made, (cst.FunctionDef, cst.Lambda)) and datasets.does_work(module, made):
            return True
    return False
