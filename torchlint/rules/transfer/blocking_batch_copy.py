"""Copy batches to the GPU without waiting

## Why
`.to(device)` and `.cuda()` always start an asynchronous copy, and without `non_blocking=True` they
then wait until the stream has finished: one wait for each tensor of each batch (PyTorch's tutorial
on `pin_memory` and `non_blocking`). With `non_blocking=True` the host goes on, and from pinned
memory the copy overlaps with kernels. From pageable memory little is gained, so the loader must pin
as well (TL202).

Flagged: `.to` and `.cuda` without `non_blocking` in a loop over batches, of what a loader gives or
a caller hands to the step, and of parts of it. Where the file's own loader does not pin, the
finding is an `info`.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pin = torch.cuda.is_available()
model = nn.Linear(8, 2).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.ones(16, 8), torch.zeros(16, dtype=torch.long))
loader = DataLoader(dataset, batch_size=4, pin_memory=pin)
```

## Bad
```python
for x, y in loader:
    x = x.to(device)
    y = y.to(device)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
```

## Good
```python
for x, y in loader:
    x = x.to(device, non_blocking=True)
    y = y.to(device, non_blocking=True)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
```

## Leave alone
Copies back to the host must be waited for.
```python
outputs = []
with torch.no_grad():
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        outputs.append(model(x).to("cpu"))
```

A host buffer that is written again right after the copy must not change under it.
```python
for x, y in loader:
    x_device = x.to(device)
    x.zero_()
    loss = criterion(model(x_device), y.to(device, non_blocking=True))
    loss.backward()
    optimizer.step()
```

A single batch outside of any loop.
```python
x, y = next(iter(loader))
x = x.to(device)
```

## Fix safety
Safe where the target is CUDA by evidence, and the batch's element is certainly a tensor that
nothing writes afterwards: the file shows that it comes from a `DataLoader` which stacks samples by
itself, or that torch has just made it, and every use of it is known. The stream then orders the
copy before its use. Unsafe for other devices, on which a copy may not have ended when the host goes
on; where the call casts as well, as the cast then runs on the device; where the host's tensor may
be written again, or goes to code that could; and for elements that may be other objects (of a
loader made elsewhere, or by a collate function), whose `.to` may raise a TypeError. Of a whole
batch it is only a suggestion.

## Measure
An epoch of 8 steps, on batches that are pinned beforehand where there is a GPU. On a CPU no gain is
expected: what is saved is the wait for each copy over the bus.
```python
torch.manual_seed(0)
model = nn.Linear(1024, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
dataset = TensorDataset(torch.randn(2048, 1024), torch.randint(2, (2048,)))
loader = list(DataLoader(dataset, batch_size=256, pin_memory=pin))
```
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
    Severity,
    Transfer,
    one_sentence,
    with_keyword,
)
from torchlint.rules.transfer._overlaps import changed_later, may_overlap
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.data.loaders import feeding_loaders, pins_memory
from torchlint.semantic.device.transfers import certainly_tensor, transfer_of
from torchlint.semantic.values.classes import in_lightning
from torchlint.semantic.values.inferred import inferred

_TITLE = "Copy without waiting"
_NOTES = {
    "cast": "The cast then runs on the device instead of on the host.",
    "object": "An object other than a tensor may have a .to() that takes no non_blocking.",
    "device": "On a device other than CUDA the copy may not have ended when the host goes on.",
    "written": "The host's tensor may be written again before the copy has ended.",
}

rule = Rule(
    __name__,
    __doc__,
    code="TL103",
    message=(
        "blocking host-to-device copy of a batch; pass non_blocking=True (and "
        "pin_memory=True in the DataLoader)."
    ),
    severity="warning",
    default=True,
    triggers=(b".to", b".cuda"),
    yields_to=("TL102", "TL104", "TL110", "TL902"),
    equivalence="bitwise",
    runs="batch",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    transfer = transfer_of(module, node)
    if (
        transfer is None
        or "non_blocking" in transfer.given
        or transfer.like
        or not _from_loader(module, transfer)
    ):
        return
    if changed_later(module, transfer.source):
        return
    unpinned = bool(loaders := feeding_loaders(module, node)) and all(
        pins_memory(module, loader) is False for loader in loaders
    )
    severity = Severity.INFO if unpinned else None
    yield Hit(node, fix=_fix(module, transfer), severity=severity)


def _from_loader(module: Module, transfer: Transfer) -> bool:
    """Say whether what is moved is a batch that a loader or a caller hands to this step, or a part
    of one."""
    value = inferred(module, transfer.source)
    if value.device not in (None, "cpu") or in_lightning(module, transfer.call):
        return False
    if value.origin == "batch":
        return value.kind in ("tensor", "batch")
    if value.origin is not None or value.kind not in ("?", "tensor"):
        return False
    # A loss gets what the model made, which is on the device; ``.to(other.device)`` lines two
    # tensors up.
    function = module.function(transfer.call)
    aligned = (
        isinstance(transfer.target, cst.Attribute)
        and inferred(module, transfer.target.value).tensor
    )
    if aligned or (function is not None and "loss" in function.name.value):
        return False
    return _handed_in(module, transfer.source)


def _handed_in(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether a name of unknown origin, or what it is made from, is a parameter or a loop's
    target."""
    while isinstance(source, cst.Subscript):
        source = source.value
    function = module.function(source)
    if not isinstance(source, cst.Name):
        return False
    given = (
        {p.name.value for p in function.params.params if p.name.value != "self"}
        if function is not None
        else set()
    )
    for loop in module.loops(source):
        if isinstance(loop, cst.For):
            given.update(n.value for n in module.within(loop.target, cst.Name))
    if source.value in given:
        return True
    for write in writes_of(module, function or module.root, source.value):
        made = module.small_statement(write)
        match (
            made.value
            if isinstance(made, cst.Assign) and not module.is_within(source, made)
            else None
        ):
            case cst.Call(args=args):
                parts: list[cst.CSTNode] = list(args)
            case cst.Subscript(value=holder):
                parts = [holder]
            case _:
                continue
        names = [n.value for part in parts for n in module.within(part, cst.Name)]
        return bool(given.intersection(names))
    return False


def _fix(module: Module, transfer: Transfer) -> Fix | None:
    if transfer.given & {"copy", "memory_format"}:
        return None
    edits = (Replace(transfer.call, with_keyword(transfer.call, "non_blocking", cst.Name("True"))),)
    if inferred(module, transfer.source).kind != "tensor":
        return Fix(edits, Safety.SUGGESTION, _TITLE, _NOTES["object"])
    overlap = may_overlap(module, transfer)
    reasons = {
        "object": overlap is None or not certainly_tensor(module, transfer.source),
        "cast": transfer.dtype is not None,
        "device": transfer.device != "cuda",
        "written": not overlap,
    }
    note = one_sentence(_NOTES[why] for why, holds in reasons.items() if holds)
    return Fix(edits, Safety.UNSAFE if note else Safety.SAFE, _TITLE, note)
