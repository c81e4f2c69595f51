"""Let the caching allocator keep its blocks between steps

## Why
`empty_cache()` gives all unused cached blocks back to the driver. It waits for the device to do so,
and the next step has to ask for the same memory again with slow `cudaMalloc` calls. It does not
make more memory available to PyTorch (CUDA notes of the PyTorch docs); Lightning's performance
guide warns that every call makes all GPUs wait, and Hugging Face took it out of the transformers
training loop because it slowed training down. What it buys is headroom: the peak of *reserved*
memory is lower. Where that is needed, call it every N steps, or try
`PYTORCH_ALLOC_CONF=expandable_segments:True` against fragmentation.

Flagged: a call that empties the cache of CUDA, MPS, XPU, NPU or the current accelerator in a loop
over training or evaluation batches, in what such a loop calls, in a `forward`, or in what Lightning
and the transformers Trainer call in each step (`on_step_end` of a `TrainerCallback`,
`on_train_batch_end`), and the setting `torch_empty_cache_steps=1` of that Trainer. Once per epoch
costs next to nothing: that is silent. A hint where each iteration generates text, or has a loop of
its own that runs a network.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 8, device=device) for _ in range(3)]
```

## Bad
```python
for x in batches:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    torch.cuda.empty_cache()
```

## Good
```python
for x in batches:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
```

## Leave alone
Now and then is a fair trade of speed for headroom.
```python
for step, x in enumerate(batches):
    model(x).sum().backward()
    optimizer.step()
    if step % 50 == 0:
        torch.cuda.empty_cache()
```

After running out of memory, emptying the cache is the point.
```python
for x in batches:
    try:
        model(x).sum().backward()
        optimizer.step()
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
```

## Fix safety
Unsafe: without the call the peak of reserved memory can rise, so a run that just fits can run out
of memory.

## Measure
Timed are three steps. On a CPU no gain is expected, for the call does nothing there: what is saved
on a GPU is a wait for the device, and asking the driver again for memory.
```python
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.Sigmoid()).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batches = [torch.randn(64, 256, device=device) for _ in range(3)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, Safety, Severity, Wait, deletion, keyword_argument
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.many_runs import beside_many_waits
from torchlint.semantic.uses.offloads import (
    LITTLE,
    frees_for_offload,
    frees_on_purpose,
)

_CALLS = ops.dotted("empties") | {
    "accelerate.utils.clear_device_cache",
    "accelerate.utils.memory.clear_device_cache",
}
_OFTEN = 3
"""Calls in one function that are no accident."""
_NOTE = (
    "The peak of reserved memory can rise; where memory is short, call it every N steps instead."
)
_SETTING = (
    "torch_empty_cache_steps=1 empties the cache every step, which waits for the device; "
    "use a larger interval."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL701",
    message=(
        "{name}() in every step gives cached blocks back and forces cudaMalloc (and syncs) again."
    ),
    severity="warning",
    default=True,
    effect="memory",
    triggers=(b"empty_cache", b"clear_device_cache"),
    equivalence="bitwise",
    runs="hot",
)


@rule.on(cst.Call, runs="anywhere")
def check_setting(node: cst.Call, module: Module) -> Iterator[Hit]:
    setting = keyword_argument(module, node, "torch_empty_cache_steps")
    if isinstance(setting, cst.Integer) and setting.evaluated_value == 1:
        yield Hit(setting, message=_SETTING)


@rule.call(*_CALLS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not frees_for_offload(module, node):
        safety = Safety.SUGGESTION if _is_budgeted(module, node) else Safety.UNSAFE
        wanted = frees_on_purpose(module, node)
        little = beside_many_waits(module, node, waits=False)
        yield Hit(
            node,
            {"name": module.called(node)},
            None if wanted else deletion(module, node, safety, _NOTE),
            Severity.INFO if wanted or little else None,
            rule.message + LITTLE if little else None,
            cause=Wait(node, node, node),
        )


def _is_budgeted(module: Module, node: cst.Call) -> bool:
    """Say whether a function gives memory back time and again, as one that lives at its limit
    does."""
    function = module.function(node)
    calls = module.within(function.body, cst.Call) if function is not None else ()
    return sum(module.name(call.func) in _CALLS for call in calls) >= _OFTEN
