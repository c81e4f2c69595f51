"""Log per step without waiting: no sync_dist, and a progress bar that refreshes now and then

## Why
`self.log(..., sync_dist=True)` reduces the value over all processes each time; the docs of
`LightningModule.log` warn of "a significant communication overhead". `prog_bar=True` shows the
value in the progress bar, which reads it from the GPU with `.item()` whenever it refreshes, and by
default that is after every batch (`TQDMProgressBar(refresh_rate=1)`, source). A metric that only
goes to the logger is read every `log_every_n_steps` batches.

Flagged: both, as literal True, in code that runs in each `training_step`, unless `on_step=` is
False or not known. The rule is opt-in: in long steps nobody feels it, and many like to see the
loss.

The examples need Lightning and are not executed by the tests.

## Setup
```python
import torch
from torch import nn
```

## Bad
```python
def classifier():
    import lightning.pytorch as pl

    class Classifier(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(32, 10)

        def training_step(self, batch, index):
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss, sync_dist=True, prog_bar=True)
            return loss

    return Classifier()
```

## Good
```python
def classifier():
    import lightning.pytorch as pl

    class Classifier(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(32, 10)

        def training_step(self, batch, index):
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

    return Classifier()
```

## Leave alone
Validation and test steps log once per epoch, and there the processes have to meet.
```python
import lightning.pytorch as pl


class Classifier(pl.LightningModule):
    def validation_step(self, batch, index):
        self.log("val_loss", self.net(batch[0]).mean(), sync_dist=True, prog_bar=True)
```

So does a training step that is told to.
```python
import lightning.pytorch as pl


class Classifier(pl.LightningModule):
    def training_step(self, batch, index):
        loss = self.net(batch[0]).mean()
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True, prog_bar=True)
        return loss
```

## Fix safety
A suggestion: what is seen while training changes.

## Measure
Not timed: the example needs Lightning and several processes. A gain is expected with several
processes or a GPU: what is saved is one reduction and one wait for the device per step.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, keyword_argument
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.data.frameworks import lightning_step
from torchlint.semantic.time.iterations import number_of
from torchlint.semantic.values.accelerator import lightning_trainers

_SYNC = (
    "sync_dist=True makes every training step wait for all processes; log per epoch "
    "(on_step=False), or without it."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL905",
    message=(
        "prog_bar=True makes every training step wait for the GPU; drop it, or use "
        "TQDMProgressBar(refresh_rate=20)."
    ),
    severity="info",
    default=False,
    effect="none",
    triggers=(b"sync_dist", b"prog_bar"),
    equivalence="opt-in",
    runs="hot",
)


@rule.method("log", "log_dict")
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    own = isinstance(node.func, cst.Attribute) and is_name(node.func.value, "self")
    step = keyword_argument(module, node, "on_step")
    if (
        not own
        or lightning_step(module, node) != "training_step"
        or (step is not None and not is_name(step, "True"))
    ):
        return
    bar = keyword_argument(module, node, "prog_bar")
    sync = keyword_argument(module, node, "sync_dist")
    if is_name(bar, "True") and not _calm_bar(module):
        yield Hit(bar, fix=_switched_off(bar, "Leave the progress bar alone"))
    if is_name(sync, "True") and not _is_alone(module) and not _is_monitored(module, node):
        yield Hit(sync, fix=_switched_off(sync, "Reduce once per epoch"), message=_SYNC)


def _switched_off(value: cst.BaseExpression, title: str) -> Fix:
    return Fix((Replace(value, cst.Name("False")),), Safety.SUGGESTION, title)


def _calm_bar(module: Module) -> bool:
    """Say whether the file switches the progress bar off, or gives it a refresh rate."""
    calls = module.nodes(cst.Call)
    off = (
        is_name(keyword_argument(module, call, "enable_progress_bar"), "False") for call in calls
    )
    return any(off) or any(
        keyword_argument(module, call, "refresh_rate") is not None for call in calls
    )


def _is_alone(module: Module) -> bool:
    """Say whether the file's Trainer is given one device."""
    given = {
        number_of(module, keyword_argument(module, call, "devices"))
        for call in lightning_trainers(module)
    }
    return given == {1}


def _is_monitored(module: Module, log: cst.Call) -> bool:
    """Say whether a callback or a scheduler of this file watches a metric that is logged here."""
    names = {str(n.raw_value) for n in module.within(log, cst.SimpleString)}
    watched = [keyword_argument(module, call, "monitor") for call in module.nodes(cst.Call)]
    return any(isinstance(n, cst.SimpleString) and str(n.raw_value) in names for n in watched)
