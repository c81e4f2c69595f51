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
(`.cpu()`, `.tolist()`) in training. What the host needs at once cannot be kept on the device: a
size, what an inner loop copies part by part, and what becomes a text, a file or a message are left
to `sync-scalar-read-in-loop` and `host-copy-in-loop`.

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
the class's own, in whatever file, is handed a tensor instead of a number. What is put
away elsewhere gets no fix: what reads it later would find a tensor.

## Measure
Not timed: the example needs Lightning and a Trainer that runs it. A gain is expected only on a GPU:
what is saved is a wait for the device, and a copy of the number back to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Grade, Hit, Module, Replace, Rule, Safety, heat_of
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.tree import argument_for
from torchlint.semantic.data.frameworks import lightning_step
from torchlint.semantic.device.host_reads import host_copy, scalar_reads
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import inner_loop
from torchlint.semantic.uses.host_needs import needed_at_once, sizes
from torchlint.semantic.values.classes import in_lightning

_LOGGED = (
    "`{expr}` in {step}() waits for the GPU and is copied back to it; pass the tensor "
    "(self.log detaches it)."
)
_NOTE = (
    "A double stays one, an integer is converted with a warning, and an own log() is given a "
    "tensor."
)
_LOGS = {"log": (1, "value"), "log_dict": (0, "dictionary")}
"""Where methods take what they log: the position and the name of the parameter."""
_READS = frozenset(("item", "float", "int"))

rule = Rule(
    __name__,
    __doc__,
    code="TL901",
    message=(
        "`{expr}` in {step}() waits for the GPU on every batch; keep the tensor (detached) "
        "on the device."
    ),
    severity="warning",
    default=True,
    effect="wait",
    triggers=(b"ightning",),
    runs="hot",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    tensor = _tensor(module, node)
    step = lightning_step(module, node) if tensor is not None else None
    if tensor is None or step is None or "predict" in step or steers(module, node):
        return
    log = logged_by(module, node)
    fix = (
        Fix((Replace(node, tensor),), Safety.UNSAFE, "Log the tensor", _NOTE)
        if log is not None
        else None
    )
    words = {"expr": module.shown(node), "step": step}
    yield Hit(node, words, fix, message=_LOGGED if log is not None else None)


def _tensor(module: Module, node: cst.Call) -> cst.BaseExpression | None:
    """Return the tensor on the device that a call reads as a number, or copies to the host in
    training."""
    for read in scalar_reads(module, node):
        return read.tensor if read.how in _READS and not sizes(module, node) else None
    copy = host_copy(module, node)
    if copy is None or heat_of(module, node).grade is Grade.EVAL or read_as_number(module, node):
        return None
    if inner_loop(module, node) is not None or needed_at_once(module, node):
        return None
    packed = module.called(module.taker(node)).endswith("pack_padded_sequence")
    return None if packed else copy.tensor


@question(yes="`{answer}` logs the value", no="self.log is not handed the value")
def logged_by(module: Module, value: cst.BaseExpression) -> cst.Call | None:
    """Return the ``self.log(name, value)`` or ``self.log_dict({name: value})`` that is handed
    `value`, or None."""
    given: cst.CSTNode | None = value
    above, expected = module.parent(value), "log"
    if isinstance(above, cst.DictElement) and above.value is value:
        given, expected = module.parent(above), "log_dict"
    match call := module.taker(given):
        case cst.Call(cst.Attribute(cst.Name("self"), cst.Name(name))) if name == expected:
            taken = argument_for(call, *_LOGS[name])
            return call if taken is given and in_lightning(module, call) else None
    return None


@question(yes="the value chooses what the host does", no="no condition reads the value")
def steers(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a condition reads an expression, itself or by its name: the value chooses what
    the host does."""
    if _in_test(module, node):
        return True
    bound = module.small_statement(node)
    target = bound.targets[0].target if isinstance(bound, cst.Assign) else None
    if not isinstance(target, cst.Name):
        return False
    return any(
        _in_test(module, read) for read in reads_of(module, module.scope(node), target.value)
    )


@question(yes="the copy only serves a scalar read", no="the copy is not for a scalar read")
def read_as_number(module: Module, copy: cst.Call) -> bool:
    """Say whether a copy to the host only serves a scalar read: ``t.cpu().item()``,
    ``float(t.cpu())``."""
    for above in module.ancestors(copy):
        if isinstance(above, cst.Call) and scalar_reads(module, above):
            return True
        if not isinstance(above, (cst.Attribute, cst.Call, cst.Arg)):
            return False
    return False


def _in_test(module: Module, node: cst.CSTNode) -> bool:
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (cst.If, cst.While, cst.IfExp)):
            return child is above.test
        if isinstance(above, cst.BaseStatement):
            return False
        child = above
    return False
