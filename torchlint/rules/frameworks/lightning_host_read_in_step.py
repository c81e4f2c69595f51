"""Hand tensors to self.log instead of numbers read from the GPU

## Why
"Don't call `.item()` anywhere in your code", says the performance guide of the Lightning docs: the
read waits until the GPU has done all that is queued. In a LightningModule it costs twice.
`self.log` detaches a tensor itself and keeps it on its device, but makes a Python number into a new
tensor on `self.device` again (`LightningModule.log`, source): so `.item()` is a copy to the host
and a copy back. The metrics are read from the device when a logger wants them, every
`log_every_n_steps` batches.

Flagged: a scalar read (`.item()`, `float()`, `int()`) in a method that Lightning calls for every
batch (`*_step`, `forward`, `on_*_batch_*`) or in what such a method calls, and a copy to the host
(`.cpu()`, `.tolist()`) in training.

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
            x, y = batch
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.log("train_loss", loss.item())
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
            x, y = batch
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.log("train_loss", loss)
            return loss

    return Classifier()
```

## Leave alone
Once per epoch, a read costs nothing that shows.
```python
import lightning.pytorch as pl


class Classifier(pl.LightningModule):
    def on_train_epoch_end(self):
        print(self.trainer.callback_metrics["train_loss"].item())
```

Predictions have to reach the host.
```python
import lightning.pytorch as pl


class Classifier(pl.LightningModule):
    def predict_step(self, batch, index):
        return self.net(batch[0]).mean().item()
```

## Fix safety
Unsafe as the argument of `self.log` or in the dict of `self.log_dict`. For a float32 tensor of one
element the same number is logged, on each step and for the epoch, and so it is in half precision (a
half is made a float before it is summed). But a double, as `precision="64-true"` gives, is logged
as a double where the number became a float, an integer is converted with a warning, and a `log` of
the class's own, in whatever file, is handed a tensor instead of a number. Elsewhere, `.detach()` is
a suggestion: what reads the value later then finds a tensor.

## Measure
Not timed: the example needs Lightning and a Trainer that runs it. A gain is expected only on a GPU:
what is saved is a wait for the device, and a copy of the number back to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Grade, Hit, Module, Replace, Rule, Safety
from torchlint.semantic.data.frameworks import lightning_step, logged_by, read_as_number, steers
from torchlint.semantic.device.host_reads import host_copy, scalar_reads
from torchlint.semantic.time.heat import heat_of

_LOGGED = "`{expr}` in {step}() waits for the GPU and is copied back to it; pass the tensor (self.log detaches it)."
_NOTE = "A double stays one, an integer is converted with a warning, and an own log() is given a tensor."
_READS = frozenset(("item", "float", "int"))

rule = Rule(
    __name__,
    __doc__,
    code="TL901",
    message="`{expr}` in {step}() waits for the GPU on every batch; keep the tensor (detached) on the device.",
    severity="warning",
    default=True,
    triggers=(b"ightning",),
    runs="once",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    tensor = _tensor(module, node)
    step = lightning_step(module, node) if tensor is not None else None
    if tensor is None or step is None or "predict" in step or steers(module, node):
        return
    log = logged_by(module, node)
    fix = _logged(node, tensor) if log is not None else _kept(module, node, tensor)
    words = {"expr": module.code(node), "step": step}
    yield Hit(node, words, fix, message=_LOGGED if log is not None else None)


def _tensor(module: Module, node: cst.Call) -> cst.BaseExpression | None:
    """Return the tensor on the device that a call reads as a number, or copies to the host in training."""
    for read in scalar_reads(module, node):
        return read.tensor if read.how in _READS else None
    copy, above = host_copy(module, node), module.parent(node)
    if copy is None or heat_of(module, node).grade is Grade.EVAL or read_as_number(module, node):
        return None
    taker = module.parent(above) if isinstance(above, cst.Arg) else None
    if isinstance(taker, cst.Call) and (module.name(taker.func) or "").endswith("pack_padded_sequence"):
        return None
    return copy.tensor


def _logged(node: cst.Call, tensor: cst.BaseExpression) -> Fix:
    return Fix((Replace(node, tensor),), Safety.UNSAFE, "Log the tensor", _NOTE)


def _kept(module: Module, node: cst.Call, tensor: cst.BaseExpression) -> Fix | None:
    """Suggest the detached tensor where the number is only put away."""
    above = module.parent(node)
    call = module.parent(above) if isinstance(above, cst.Arg) else None
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name("append"))):
            pass
        case _ if not isinstance(above, (cst.DictElement, cst.AugAssign)):
            return None
    match tensor:
        case cst.Call(func=cst.Attribute(attr=cst.Name("detach"))):
            new: cst.BaseExpression = tensor
        case cst.Name() | cst.Attribute() | cst.Call() | cst.Subscript():
            new = cst.Call(cst.Attribute(tensor, cst.Name("detach")))
        case _:
            return None
    return Fix((Replace(node, new),), Safety.SUGGESTION, "Keep the detached tensor, read it once per epoch")
