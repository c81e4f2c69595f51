"""Draw random numbers on the device that uses them

## Why
NumPy draws its numbers on one CPU core, in float64; to get to the device they become a tensor, are
mostly cast, and are copied from pageable memory, for which the host waits. `torch.randn` and its
kin with `device=` fill the memory of the device with one kernel, without any copy. PyTorch's
performance tuning guide ("Create tensors directly on the target device") names
`torch.rand(size, device="cuda")` as its example.

Flagged: in a step, a forward or a loss, random numbers of NumPy or of `random`, or of a distribution
of torch whose parameters lie on the host, that become a tensor on the device: behind arithmetic,
casts and reshapes, through names, by a move, by `device=` or by an old tensor type of CUDA.

## Setup
```python
import numpy as np
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
np.random.seed(0)
```

## Bad
```python
class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 3)

    def forward(self, x):
        noise = torch.from_numpy(np.random.randn(x.size(0), 8)).float().to(x.device)
        return self.net(x + noise)


painter = Painter().to(device)
out = painter(torch.ones(4, 8, device=device))
```

## Good
```python
class Painter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 3)

    def forward(self, x):
        noise = torch.randn(x.size(0), 8, device=x.device)
        return self.net(x + noise)


painter = Painter().to(device)
out = painter(torch.ones(4, 8, device=device))
```

## Leave alone
Elements that are drawn from the host's own data have to be sent.
```python
class Replay(nn.Module):
    def forward(self, x, rows: np.ndarray):
        drawn = rows[np.random.randint(0, len(rows), 4)]
        return x + torch.from_numpy(np.random.choice(rows, 4)).to(x.device) + torch.from_numpy(drawn).to(x.device)
```

A number for Python itself: which way to go, how much to mix.
```python
class Dropped(nn.Module):
    def forward(self, x):
        return x * np.random.beta(0.2, 0.2) if np.random.rand() < 0.5 else x
```

Once, before the loop.
```python
start = torch.from_numpy(np.random.randn(4, 8)).to(device)
```

## Fix safety
No fix is offered: the numbers come from another generator, with another seed, so that results can no
longer be compared with those of before, and NumPy's later draws are others as well.

## Measure
One call of the module. On a CPU what differs is how fast NumPy and PyTorch draw; on a GPU a copy
over the bus and the wait for it are saved as well.
```python
x = torch.ones(16384, 8, device=device)
```

```python
out = painter(x)
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import (
    Hit,
    Module,
    Rule,
)
from torchlint.semantic.device.transfers import is_cached
from torchlint.semantic.device.uploads import host_data, upload_of

rule = Rule(
    __name__,
    __doc__,
    code="TL114",
    message=(
        "`{data}` draws random numbers on the host, and they are copied to the device each time; "
        "draw them there, with device=."
    ),
    severity="warning",
    default=True,
    effect="upload",
    triggers=(b"random", b"distributions"),
    yields_to=("TL104",),
    equivalence="rng",
    runs="hot",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    upload = upload_of(module, node)
    if upload is None or is_cached(module, node) or host_data(module, upload.data) != "random":
        return
    yield Hit(upload.node, {"data": module.shown(upload.data)})
