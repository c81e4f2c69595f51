"""Allow tensor cores in training: TF32 or autocast

## Why
Since torch 1.12 matrix products run in full float32 unless told otherwise
(`get_float32_matmul_precision()` is "highest"), so the tensor cores of Ampere and later GPUs idle.
The CUDA notes of the PyTorch docs show a large matrix product on an A100 several times faster with
TF32, and the tuning guide recommends automatic mixed precision. Neither helps where the GPU waits
for the host or for data anyway.

Flagged, once per file: the first training loop of a script (with `if __name__ == "__main__":`) that
names CUDA, and nothing about precision.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(32, 8), batch_size=8)
```

## Bad
```python
def train():
    for x in loader:
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    train()
```

## Good
```python
torch.set_float32_matmul_precision("high")


def train():
    for x in loader:
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    train()
```

## Leave alone
A library leaves the choice to the script that uses it.
```python
def train():
    for x in loader:
        model(x.to(device)).sum().backward()
        optimizer.step()
```

## Fix safety
No edit is offered: results change, and which form fits depends on the GPU (TF32 and bfloat16 need
Ampere or later). Do not mix `allow_tf32` with the newer `fp32_precision` settings of torch 2.9;
reading the old flag then raises an error.

## Measure
Two steps with one large matrix. No gain is expected on a GPU before Ampere, nor on a CPU that does
not multiply in a shorter format than float32.
```python
torch.manual_seed(0)
size = 4096 if device.type == "cuda" else 512
model = nn.Linear(size, size).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [torch.randn(256, size, device=device) for _ in range(2)]
```

```python
train()
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.text import has_main_guard, mentions
from torchlint.semantic.code.tree import LOOPS
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.torch import dtypes
from torchlint.semantic.values.inferred import framework_moves_batches

_NARROW_OR_WIDE = "|".join(dtype.name for dtype in dtypes.of_kind("half", "double"))
_PRECISION = regex(
    rf"autocast|GradScaler|{_NARROW_OR_WIDE}|bf16|fp16|fp32|\bhalf\(|precision|tf32|\bdouble\("
    r"|\b(use_)?amp\b|apex|"
    r"deepspeed|fsdp|quantiz",
    re.IGNORECASE,
)
_CUDA = regex(r"cuda", re.IGNORECASE)

rule = Rule(
    __name__,
    __doc__,
    code="TL407",
    message="CUDA training in plain float32: neither TF32 nor autocast is enabled.",
    severity="info",
    default=False,
    effect="none",
    triggers=(b"__main__",),
    equivalence="opt-in",
)


@rule.on(cst.Module)
def check(node: cst.Module, module: Module) -> Iterator[Hit]:
    if (
        not has_main_guard(module)
        or framework_moves_batches(module)
        or not mentions(module, _CUDA)
        or mentions(module, _PRECISION)
    ):
        return
    for loop in module.nodes(*LOOPS):
        if loop_kind(module, loop) is LoopKind.TRAIN and not is_benchmark(module, loop):
            yield Hit(loop)
            return
