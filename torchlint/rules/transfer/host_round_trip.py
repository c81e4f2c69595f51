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

## Fix safety
Unsafe for one NumPy function with an exact counterpart in torch, in one expression or in a
statement whose result the next one alone sends back. Functions of floating numbers may round
differently on a GPU and be float32 where NumPy gives float64, positions of NaN and of equal values
may differ, and what `.cuda()` brought to the current device stays on the tensor's own. Everything
else needs a person.

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
from itertools import pairwise

import libcst as cst

from torchlint.rule import (
    Fix,
    Hit,
    Module,
    NodeEdit,
    Remove,
    Replace,
    Rule,
    Safety,
    Severity,
    inferred,
    one_sentence,
)
from torchlint.rules.transfer._host_round_trip.round_trips import SENDS, RoundTrip, round_trip
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.device.host_reads import host_copy
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.host_needs import needed_at_once, worked_on_by_host

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
ARGUMENTS = {"where": 3, "clip": 3}
HOST_ONLY = frozenset(("scipy", "sklearn", "faiss", "lap", "cv2", "pycocotools", "skimage"))
HOST_KINDS = ("ndarray", "list", "tuple", "tensor")
NOTE = (
    "Results may round differently, order NaN and ties differently, and be float32 where "
    "NumPy gives float64."
)
CURRENT = "The result lies on the tensor's own device, which need not be the current one."


@rule.on(cst.Call, calls=SENDS)
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
    forced = forced or worked_on_by_host(module, trip.copy.node)
    if trip.unknown and not forced:
        return  # What that does on the host, torch may have no word for.
    equivalent = f"torch.{EQUIVALENTS[function]}" if function in EQUIVALENTS else "torch operations"
    yield Hit(
        node if trip.direct else trip.copy.node,
        {
            "expr": module.shown(trip.copy.node),
            "back": module.shown(trip.maker.func),
            "equivalent": equivalent,
        },
        fix=_fix(module, trip),
        severity=Severity.INFO if forced or is_compiled(module, node) else None,
        message=FORCED if forced and function not in EQUIVALENTS else None,
    )


def _fix(module: Module, trip: RoundTrip) -> Fix | None:
    """Return the same call in torch where one NumPy function is called on the copy, and on numbers
    else."""
    device = _device_note(trip)
    maker = trip.maker.func
    if device is None or module.name(maker) != "torch.from_numpy":
        return None
    if not isinstance(maker, cst.Attribute):
        return None
    made = trip.maker.args[0].value
    first = None if trip.direct else _statement_before(module, trip)
    inner = made if first is None else first.value
    if not isinstance(inner, cst.Call) or not _has_counterpart(module, trip, inner):
        return None
    function = EQUIVALENTS[module.called(inner).rpartition(".")[2]]
    args = [arg.with_changes(value=_on_device(module, arg.value)) for arg in inner.args]
    call = cst.Call(cst.Attribute(maker.value, cst.Name(function)), args)
    edits: tuple[NodeEdit, ...] = (Replace(trip.back, call),)
    return Fix(
        edits if first is None else (Remove(first), *edits),
        Safety.UNSAFE,
        f"Use torch.{function} on the device",
        one_sentence((NOTE, device)),
    )


def _has_counterpart(module: Module, trip: RoundTrip, inner: cst.Call) -> bool:
    """Say whether a call is of a NumPy function that torch has too, on the copy and numbers."""
    name = module.called(inner)
    function = name.rpartition(".")[2]
    if (
        name != f"numpy.{function}"
        or function not in EQUIVALENTS
        or len(inner.args) != ARGUMENTS.get(function, 1)
        or not module.is_within(trip.copy.node, inner)
    ):
        return False
    if any(arg.keyword is not None or arg.star for arg in inner.args):
        return False
    if function == "where" and not isinstance(inner.args[0].value, cst.Comparison):
        return False
    beside = [n for n in module.within(inner, cst.Name) if not module.is_within(n, trip.copy.node)]
    return not any(inferred(module, n).kind in HOST_KINDS for n in beside)


def _statement_before(module: Module, trip: RoundTrip) -> cst.Assign | None:
    """Return the assignment right before the statement that sends its value back, where nothing
    else reads that: ``x = np.argwhere(…)``, then ``x = torch.from_numpy(x).to(…)``."""
    held = trip.maker.args[0].value
    if not isinstance(held, cst.Name):
        return None
    match definitions_of(module, held):
        case [cst.Assign([cst.AssignTarget(cst.Name(name))]) as made]:
            pass
        case _:
            return None
    match module.small_statement(trip.back):
        case cst.Assign(value=value) | cst.Return(value) if value is trip.back:
            pass
        case _:
            return None
    alone = readers_of(module, made, name) == [held]
    return made if alone and _follows(module, made, trip.back) else None


def _follows(module: Module, made: cst.Assign, back: cst.Call) -> bool:
    """Say whether the line of one statement is the next one behind that of another."""
    one, other = module.statement(made), module.statement(back)
    match module.parent(one):
        case cst.IndentedBlock(lines) | cst.Module(body=lines):
            return any(a is one and b is other for a, b in pairwise(lines))
    return False


def _device_note(trip: RoundTrip) -> str | None:
    """Return what a reader has to know of the device on which the result lies without the trip:
    nothing for ``.to(x.device)`` of a trip that left from `x`; None where it may be another."""
    match trip.back:
        case cst.Call(
            cst.Attribute(made, cst.Name("to")),
            [cst.Arg(keyword=None, value=target)],
        ) if made is trip.maker:
            match target:
                case cst.Attribute(holder, cst.Name("device")):
                    return "" if holder.deep_equals(trip.copy.tensor) else None
        case cst.Call(cst.Attribute(made, cst.Name("cuda")), []):
            return CURRENT if made is trip.maker else None
    return None


def _on_device(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression with ``x.cpu().numpy()`` replaced by ``x``."""
    match node:
        case cst.Call(cst.Attribute(cst.Call() as copy, cst.Name("numpy"))):
            read = host_copy(module, copy)
            return read.tensor if read is not None else node
        case cst.Comparison(left, rest):
            others = [c.with_changes(comparator=_on_device(module, c.comparator)) for c in rest]
            return node.with_changes(left=_on_device(module, left), comparisons=others)
        case cst.BinaryOperation(left, right=right):
            return node.with_changes(left=_on_device(module, left), right=_on_device(module, right))
        case cst.UnaryOperation(expression=inner):
            return node.with_changes(expression=_on_device(module, inner))
    return node
