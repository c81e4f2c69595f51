"""Create tensors on self.device in a LightningModule

## Why
Lightning decides where a module runs. A tensor that is built on the CPU and sent on with `.cuda()`
is made twice and copied on every call (performance guide of the Lightning docs: "Construct tensors
directly on the device"). And `"cuda"` is the current GPU of the process, whatever the module's own
is, so code that names it breaks on a CPU, on another kind of accelerator, and wherever the module
is not on the GPU that happens to be current. Batches need no move: the Trainer has brought them to
`self.device` before it calls a step.

Flagged: `.cuda()`, `.to("cuda…")` and `device="cuda…"` on tensors in the methods of a
LightningModule.

The examples need Lightning and are not executed by the tests.

## Setup
```python
import torch
from torch import nn
```

## Bad
```python
def autoencoder():
    import lightning.pytorch as pl

    class Autoencoder(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(32, 32)

        def training_step(self, batch, index):
            x, y = batch
            eps = torch.randn(8, 32).cuda()
            return nn.functional.mse_loss(self.net(eps), x)

    return Autoencoder()
```

## Good
```python
def autoencoder():
    import lightning.pytorch as pl

    class Autoencoder(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(32, 32)

        def training_step(self, batch, index):
            x, y = batch
            eps = torch.randn(8, 32, device=self.device)
            return nn.functional.mse_loss(self.net(eps), x)

    return Autoencoder()
```

## Leave alone
The module's own device follows Lightning.
```python
import lightning.pytorch as pl


class Classifier(pl.LightningModule):
    def training_step(self, batch, index):
        return self.net(torch.randn(64).to(self.device)).sum()
```

Outside of a LightningModule, `cpu-create-then-move` speaks.
```python
class Net(nn.Module):
    def forward(self, x):
        return x + torch.randn(64).cuda()
```

## Fix safety
Unsafe: random numbers come from the device's generator, and the tensor lies on the module's device,
which need not be the GPU named before.

## Measure
Not timed: the example needs Lightning and a Trainer that runs it.
A gain is expected only on a GPU: what is saved is a copy over the bus and the wait for it.
"""

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
    Transfer,
    inferred,
    keyword_argument,
    with_keyword,
)
from torchlint.semantic.device.factories import factories_of, takes_device
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.values.classes import has_lightning, in_lightning

_BEFORE = frozenset(
    "__init__ configure_model setup transfer_batch_to_device on_before_batch_transfer".split()
)
_MOVED = "`{expr}` in a LightningModule: the Trainer has moved the batch to self.device already."
_NOTE = (
    "The tensor lies on the module's device, and random numbers come from that device's generator."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL902",
    message=(
        "`{expr}` in a LightningModule names a device; create the tensor on self.device (or "
        "register a buffer)."
    ),
    severity="warning",
    default=True,
    effect="upload",
    triggers=(b"cuda",),
    equivalence="rng",
)


@rule.on(cst.Call, about=in_lightning, file=has_lightning)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not _has_self(module, node):
        return
    words = {"expr": module.shown(node)}
    transfer = transfer_of(module, node)
    if transfer is None:
        device = keyword_argument(module, node, "device")
        if (
            device is not None
            and _literal(module, device)
            and factories_of(module, node)[:1] == [node]
        ):
            yield Hit(node, words, _fix(node, with_keyword(node, "device", _own_device())))
        return
    value = inferred(module, transfer.source)
    if transfer.target is not None and not _literal(module, transfer.target):
        return
    if value.origin in ("batch", "forward") and value.device is not None:
        yield Hit(node, words, message=_MOVED)
    elif value.tensor:
        yield Hit(node, words, _fix(node, _on_own_device(module, transfer)))


def _has_self(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` is in a method with ``self.device`` at hand, other than those that run
    before it is set."""
    methods = [above for above in module.ancestors(node) if isinstance(above, cst.FunctionDef)]
    inside = [f for f in methods if module.class_of(f) is module.class_of(node)]
    first = inside[-1].params.params[:1] if inside else ()
    return bool(first) and first[0].name.value == "self" and inside[-1].name.value not in _BEFORE


def _literal(module: Module, device: cst.BaseExpression) -> bool:
    """Say whether an expression names a GPU in the source: ``"cuda:0"``, an index,
    ``torch.device("cuda")``."""
    if isinstance(device, cst.Call) and module.name(device.func) == "torch.device" and device.args:
        device = device.args[0].value
    text = device.raw_value if isinstance(device, cst.SimpleString) else ""
    return isinstance(device, cst.Integer) or str(text).startswith("cuda")


def _own_device() -> cst.Attribute:
    return cst.Attribute(cst.Name("self"), cst.Name("device"))


def _fix(node: cst.Call, new: cst.BaseExpression) -> Fix:
    return Fix((Replace(node, new),), Safety.UNSAFE, "Create the tensor on self.device", _NOTE)


def _on_own_device(module: Module, transfer: Transfer) -> cst.BaseExpression:
    made = factories_of(module, transfer.source)
    if made[:1] == [transfer.source] and takes_device(module, made[0]) and transfer.dtype is None:
        return with_keyword(made[0], "device", _own_device())
    kept = [a for a in transfer.call.args if a.value is not transfer.target]
    return cst.Call(cst.Attribute(transfer.source, cst.Name("to")), [cst.Arg(_own_device()), *kept])
