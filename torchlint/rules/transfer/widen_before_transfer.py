"""Send the narrow dtype and cast on the device

## Why
A cast on the CPU before the copy makes every element wider on the bus: `x.float().to(device)` sends
four bytes for a pixel of one. `x.to(device, torch.float32)` does the same where the copy blocks, as
conversions of blocking copies are performed on the CPU (aten/src/ATen/native/cuda/Copy.cu). On the
way back it is the other way round: `t.cpu().half()` sends four bytes for each two that are kept.

Flagged: in a step or a forward, a copy to the device whose source is on the CPU by evidence and is
cast right before, or by a blocking copy, from a narrower dtype; and a cast behind a copy to the
host, from a wider one. Both dtypes have to be spelled in the code, or fixed by an operation such as
a comparison.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(16, 8), torch.zeros(16)), batch_size=4)
```

## Bad
```python
for x, y in loader:
    image = (x * 255).to(torch.uint8)
    image = image.float().to(device)
    loss = model(image / 255).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
```

## Good
```python
for x, y in loader:
    image = (x * 255).to(torch.uint8)
    image = image.to(device).float()
    loss = model(image / 255).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
```

## Leave alone
A dtype that is not known may be the wide one already.
```python
for x, y in loader:
    model(x.float().to(device)).sum().backward()
    optimizer.step()
```

Narrow before the copy is right, and so is a cast that keeps the size.
```python
for x, y in loader:
    model(x.to(torch.float16).to(device).float()).sum().backward()
    flags = (x > 0).byte().to(device)
    optimizer.step()
```

## Fix safety
No fix is offered: the values are the same, but for a moment the device holds the narrow tensor and
the wide one.

## Measure
An epoch of 4 steps. On a CPU no gain is expected, as nothing is sent: what is saved is three
quarters of the bytes of a copy over the bus.
```python
torch.manual_seed(0)
model = nn.Linear(1024, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.rand(256, 1024), torch.zeros(256)) for _ in range(4)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, arguments_of, inferred
from torchlint.rules.transfer._widen_before_transfer.exact_dtypes import (
    BYTES,
    cast_target,
    exact_dtype_of,
    named_dtype,
)
from torchlint.semantic.device.host_reads import host_copy
from torchlint.semantic.device.transfers import TRANSFERS, transfer_of

_BACK = (
    "casting to {narrow} behind the copy to the CPU sends {k} times the bytes; cast on the "
    "device, then copy."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL110",
    message=(
        "casting to {wide} on the CPU multiplies the bytes sent by {k}; move first, cast on "
        "the device."
    ),
    severity="info",
    default=True,
    effect="upload",
    triggers=(b".to", b".cuda", b".cpu"),
    yields_to=("TL102", "TL104"),
    equivalence="bitwise",
    runs="hot",
)


@rule.on(cst.Call, calls=TRANSFERS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    transfer = transfer_of(module, node)
    if transfer is None or transfer.like:
        return
    before, wide = transfer.source, named_dtype(module, transfer.dtype)
    cast = transfer.source if transfer.dtype is None else None
    if isinstance(cast, cst.Call) and isinstance(cast.func, cst.Attribute):
        before, wide = cast.func.value, cast_target(module, cast)
    elif "non_blocking" in transfer.given:
        return
    times = _times(module, before, wide)
    if times > 1 and inferred(module, before).device == "cpu":
        words = {"wide": wide or "", "k": str(times)}
        yield Hit(node, words)


@rule.on(cst.Call)
def check_back(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find ``t.cpu().half()`` and ``t.to("cpu", torch.half)`` of a tensor whose dtype is wider."""
    copy = host_copy(module, node)
    if copy is None:
        return
    narrow: str | None = None
    cast: cst.Call | None = node
    if copy.how == "to":
        narrow = named_dtype(module, arguments_of(module, node, "Tensor.to").value("dtype"))
    if narrow is None:
        cast = module.method_call(node)
        narrow = cast_target(module, cast) if cast is not None else None
    wide = exact_dtype_of(module, copy.tensor)
    if cast is not None and narrow is not None and wide is not None and BYTES[wide] > BYTES[narrow]:
        words = {"narrow": narrow, "k": str(BYTES[wide] // BYTES[narrow])}
        yield Hit(cast, words, message=_BACK)


def _times(module: Module, before: cst.BaseExpression, wide: str | None) -> int:
    """Return by what a cast multiplies the bytes of each element; 0 where a dtype is not known."""
    narrow = exact_dtype_of(module, before)
    return BYTES[wide] // BYTES[narrow] if wide is not None and narrow is not None else 0
