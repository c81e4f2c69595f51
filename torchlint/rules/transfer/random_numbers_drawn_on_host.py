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
Unsafe: the numbers come from another generator, with another seed, so that results can no longer be
compared with those of before, and NumPy's later draws are others as well. The shape and the dtype
stay. Where a comment above or behind a draw of the function names NumPy, which may be why it draws,
the fix is only suggested. Rewritten are plain draws (`rand`, `randn`, `random`, `randint`,
`permutation`) that are converted, cast and moved in one expression; all others are left to people.

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

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    NeedImport,
    Replace,
    Rule,
    Safety,
    Transfer,
    inferred,
    with_keyword,
)
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.text import explained
from torchlint.semantic.code.tree import attr_of, has_star, method_called
from torchlint.semantic.device.transfers import is_cached, transfer_of
from torchlint.semantic.device.uploads import Upload, host_data, upload_of
from torchlint.semantic.torch import dtypes, ops

_NOTE = (
    "The numbers come from the device's generator: they differ from those of before, and so do "
    "NumPy's later draws."
)
_REASON = "A comment there says why NumPy draws the numbers."
_NUMPY = regex(r"\b(?:numpy|np)\b", re.IGNORECASE)
_CASTS = ops.values("dtype", "method")
_DRAWS = {"rand": "rand", "randn": "randn", "random": "rand", "random_sample": "rand"}

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
    fix = _fix(module, upload)
    if fix is not None and any(_is_explained(module, at) for at in (upload.data, upload.node)):
        fix = Fix(fix.edits, Safety.SUGGESTION, fix.title, _REASON)
    yield Hit(upload.node, {"data": module.shown(upload.data)}, fix)


def _is_explained(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a comment at what a statement makes of NumPy's numbers names NumPy.

    That is also one at the statement that made what the name stands for, or at another draw of the
    same function."""
    made = definitions_of(module, node) if isinstance(node, cst.Name) else []
    draws = [
        call
        for call in module.within(module.scope(node), cst.Call)
        if module.called(call).startswith("numpy.random.")
    ]
    return any(explained(module, each, _NUMPY) for each in (node, *made, *draws))


def _fix(module: Module, upload: Upload) -> Fix | None:
    """Return the fix that draws on the device what is drawn, converted, cast and moved in one
    expression."""
    drawn, move = upload.data, upload.node
    transfer = transfer_of(module, move) if isinstance(move, cst.Call) else None
    dtype = _final_dtype(module, drawn, move) if transfer is not None else None
    if transfer is None or dtype is None or transfer.dtype or not isinstance(drawn, cst.Call):
        return None
    func = transfer.call.func
    named = attr_of(func) in ("to", "type_as")
    if transfer.given - {"device", "other", "non_blocking"} or not named:
        return None
    torch = name_for_module(module, "torch", "torch")
    new = _draw(module, drawn, torch)
    if new is None:
        return None
    place: cst.BaseExpression = transfer.call
    if transfer.like:
        further = _cast_behind(module, transfer.call)
        if further is not None:
            place, dtype = further
    return _drawn(new, dtype, transfer, torch, place)


def _drawn(
    new: cst.Call, dtype: str, transfer: Transfer, torch: str, place: cst.BaseExpression
) -> Fix | None:
    target = transfer.target
    if target is None or (transfer.like and not isinstance(target, cst.Name)):
        return None
    usual = "int64" if method_called(new) in ("randperm", "randint") else "float32"
    if transfer.like and place is transfer.call:
        new = with_keyword(new, "dtype", cst.Attribute(target, cst.Name("dtype")))
    elif dtype != usual:
        new = with_keyword(new, "dtype", cst.parse_expression(f"{torch}.{dtype}"))
    device = cst.Attribute(target, cst.Name("device")) if transfer.like else target
    new = with_keyword(new, "device", device)
    edits = (Replace(place, new), NeedImport("torch", torch))
    return Fix(edits, Safety.UNSAFE, "Draw on the device", _NOTE)


def _draw(module: Module, drawn: cst.Call, torch: str) -> cst.Call | None:
    """Return the call of torch that draws from the same distribution."""
    name = module.called(drawn).removeprefix("numpy.random.")
    if has_star(drawn):
        return None
    keywords = {arg.keyword.value for arg in drawn.args if arg.keyword is not None}
    values = [arg.value for arg in drawn.args]
    if name in _DRAWS and not keywords - {"size"} and values:
        func, args = _DRAWS[name], [arg.with_changes(keyword=None) for arg in drawn.args]
        args = [arg.with_changes(equal=cst.MaybeSentinel.DEFAULT) for arg in args]
    elif name == "permutation" and len(values) == 1 and not keywords:
        if inferred(module, values[0]).kind != "number":
            return None
        func, args = "randperm", list(drawn.args)
    elif name == "randint" and len(values) == 3 and not keywords - {"size"}:
        if not all(inferred(module, each).kind == "number" for each in values[:2]):
            return None
        size = values[2]
        if not isinstance(size, cst.Tuple):
            if inferred(module, size).kind != "number":
                return None
            one = cst.Element(size, comma=cst.Comma())
            size = cst.Tuple([one])
        last = cst.Arg(size)
        func, args = "randint", [*drawn.args[:2], last]
    else:
        return None
    made = cst.parse_expression(f"{torch}.{func}()")
    assert isinstance(made, cst.Call)
    return made.with_changes(args=args)


def _final_dtype(module: Module, drawn: cst.CSTNode, move: cst.CSTNode) -> str | None:
    """Return the dtype with which the numbers arrive; None where more is done on the way than to
    make a tensor of them and to cast it."""
    maker = module.taker(drawn)
    if not isinstance(maker, cst.Call) or len(maker.args) != 1:
        return None
    name = module.called(maker)
    if name not in ops.DATA_FACTORIES:
        return None
    called = (module.name(getattr(drawn, "func", None)) or "").rpartition(".")[2]
    dtype = "float64" if called in _DRAWS else "int64"
    last = name.rpartition(".")[2]
    dtype = "float32" if last == "Tensor" else dtypes.LEGACY.get(last, dtype)
    at: cst.CSTNode = maker
    while True:
        call = module.method_call(at)
        if call is None:
            return None
        if call is move:
            return dtype
        if call.args or method_called(call) not in _CASTS:
            return None
        dtype, at = _CASTS[method_called(call)], call


def _cast_behind(module: Module, move: cst.Call) -> tuple[cst.BaseExpression, str] | None:
    """Return the cast right behind a move, with its dtype."""
    call = module.method_call(move)
    dtype = _CASTS.get(method_called(call))
    return (call, dtype) if call is not None and not call.args and dtype is not None else None
