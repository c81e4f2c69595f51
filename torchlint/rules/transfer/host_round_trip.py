"""Stay on the device instead of going through NumPy

## Why
A value that is copied to the host, worked on by NumPy or Python and sent back costs a wait for all
queued kernels, the work on one CPU core, and a second copy; nothing of it overlaps with the GPU. In
PyTorch's own profiler tutorial a `np.argwhere` on a mask in `forward` takes almost all of the CPU
time until it is replaced by a torch operation. NumPy functions raise on a CUDA tensor, so the trip
always shows in the code.

Flagged: a tensor made of host data and moved to the device, in a training step or a forward, where
the data came from the device in the same function. Where the way goes through a library that has no
counterpart on the device, a decomposition by NumPy, or a compiled function, in which NumPy calls
are traced, the finding is an `info`. Silent where the host needs the copy itself: for a text, a
file, a request.

Note that `torch.nonzero` and `torch.argwhere` still wait for the device once, to learn the size of
the result.

## Setup
```python
import numpy as np
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images = torch.randn(2, 3, 8, 8)
np.random.seed(0)
```

## Bad
```python
class Marks(nn.Module):
    def forward(self, mask, threshold):
        return torch.from_numpy(np.argwhere(mask.cpu().numpy() > threshold)).to(mask.device)


marks = Marks()(images.to(device), 0.5)
```

## Good
```python
class Marks(nn.Module):
    def forward(self, mask, threshold):
        return torch.argwhere(mask > threshold)


marks = Marks()(images.to(device), 0.5)
```

## Leave alone
Metrics that end on the host have made no round trip.
```python
class Meter(nn.Module):
    def forward(self, x):
        self.peak = np.max(x.detach().cpu().numpy())
        return x
```

Data that never was on the device only goes there.
```python
class Noisy(nn.Module):
    def forward(self, x):
        noise = np.random.default_rng(0).standard_normal(x.shape[-1])
        return x + torch.from_numpy(noise).to(x.device, x.dtype)
```

What comes back as a CPU tensor has not come back to the device.
```python
class Exported(nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.sqrt(x.detach().cpu().numpy()))
```

## Measure
The positions of the large values in a batch of images. NumPy and PyTorch find them in different
ways, so a CPU shows a difference, too; on a GPU two copies over the bus are saved as well.
```python
torch.manual_seed(0)
images = torch.randn(16, 3, 64, 64, device=device)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import (
    Hit,
    Module,
    Rule,
    Severity,
)
from torchlint.rules.transfer._round_trips import round_trip
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.host_needs import needed_at_once

rule = Rule(
    __name__,
    __doc__,
    code="TL104",
    message=(
        "`{expr}` leaves the GPU for the host and comes back through `{back}`; use "
        "{equivalent} on the device."
    ),
    severity="warning",
    default=True,
    effect="upload",
    triggers=(b"from_numpy", b"tensor", b"Tensor", b"asarray"),
    runs="step",
)
FORCED = (
    "`{expr}` leaves the GPU for a library that knows none, and comes back through `{back}`; do "
    "what torch can on the device, and copy less, or once for the batch."
)
EQUIVALENTS = {
    array: name for name, arrays in ops.values("numpy").items() for array in arrays.split("/")
}
HOST_ONLY = frozenset(("scipy", "sklearn", "faiss", "lap", "cv2", "pycocotools", "skimage"))


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Yield a hit for host data that a call brings back to the device it came from."""
    trip = round_trip(module, node)
    if trip is None or needed_at_once(module, trip.copy.node):
        return
    function = trip.through[0].rpartition(".")[2] if trip.through else ""
    forced = any(
        name.partition(".")[0] in HOST_ONLY or name.startswith("numpy.linalg.")
        for name in trip.through
    )
    equivalent = f"torch.{EQUIVALENTS[function]}" if function in EQUIVALENTS else "torch operations"
    yield Hit(
        node if trip.direct else trip.copy.node,
        {
            "expr": module.shown(trip.copy.node),
            "back": module.shown(trip.maker.func),
            "equivalent": equivalent,
        },
        severity=Severity.INFO if forced or is_compiled(module, node) else None,
        message=FORCED if forced and function not in EQUIVALENTS else None,
    )
