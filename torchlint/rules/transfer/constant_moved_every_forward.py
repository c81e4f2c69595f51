"""Keep constants on the device as buffers

## Why
`module.to(device)` moves parameters and buffers; a tensor in a plain attribute stays where it was
built. A forward that says `self.mean.to(x.device)` then copies it from pageable host memory in
every call, and the host waits for each copy. Lightning's guide to hardware-agnostic code says:
instead of a plain attribute, `register_buffer`. The same waste happens with a global constant, and
with `torch.tensor([...]).to(x.device)` that is built anew each time.

Flagged: in a forward, a loss or a step, a move to the device of an attribute of an `nn.Module` that
only `__init__` assigns, with a tensor that lives on the CPU by evidence; of a tensor that is bound
once at module level; or of a tensor made from a list of numbers, also where another file holds
them. Slices, reshapes and casts on the way are seen through. So is a tensor made of what only
`__init__` has set, and of arrays that NumPy computes of sizes and constants alone (`np.eye(n)`, a
grid of `np.arange`): torch makes these on the device.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
```

## Bad
```python
class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)

    def forward(self, x):
        return x - self.mean.to(x.device)


normalize = Normalize().to(device)
out = normalize(torch.ones(2, 3, 4, 4, device=device))
```

## Good
```python
class Normalize(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer(
            "mean",
            torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1),
            persistent=False,
        )

    def forward(self, x):
        return x - self.mean.to(x.device)


normalize = Normalize().to(device)
out = normalize(torch.ones(2, 3, 4, 4, device=device))
```

## Leave alone
What differs from step to step has to be sent.
```python
class Ragged(nn.Module):
    def forward(self, x, lengths):
        return x * torch.tensor([len(lengths), x.size(0)]).to(x.device)
```

A table that is indexed on the host, so that only the rows of this batch travel.
```python
class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.zeros(1_000_000, 512)

    def forward(self, x, index):
        return x + self.table[index].to(x.device)
```

## Fix safety
A tensor under an attribute that becomes a buffer follows the module to the device, also for code
that expects it on the CPU: unsafe. Nothing is offered for globals, where the assignment binds more
than the attribute or comes before `super().__init__()`, and where the class has the name already,
as `register_buffer` would raise there.

A list that repeats one number, and a range that counts up from 0 with a dtype, are filled on the
device instead: safe, as the bits and the dtype are the same. Unsafe for other ranges, which
`torch.arange` refuses where their end is below their start, for an array of a range that no
`.long()` follows, of which NumPy may make other numbers, and where what is kept may be no number. A
constant that a method builds and binds to a name becomes a buffer where nothing writes into it or
hands it on, with the views and casts behind it that are the same in each call. A move behind them
stays: for a buffer that lies there already it copies nothing. That is safe where nothing in the
project converts a network to another dtype (`.half()`), looks at its buffers or saves the object:
`persistent=False` leaves the keys of `state_dict` as they are, and deepcopy and
DistributedDataParallel copy what does not change. It needs torch 1.6.

## Measure
One call of the module. On a CPU no gain is expected: what is saved is a copy over the bus and the
wait for it.
```python
images = torch.rand(8, 3, 224, 224, device=device)
```

```python
out = normalize(images)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, Severity
from torchlint.rules.transfer._constant_moved_every_forward.constants import (
    HostConstant,
    host_constant_of,
)
from torchlint.rules.transfer._constant_moved_every_forward.fixes import (
    BUFFER,
    filled_there,
    kept_as_buffer,
)
from torchlint.semantic.code.tree import links, method_called
from torchlint.semantic.device.transfers import is_cached, transfer_of
from torchlint.semantic.device.uploads import Upload, host_data, upload_of
from torchlint.semantic.torch import libraries, ops
from torchlint.semantic.uses.lasting_waits import waits_to_copy_up
from torchlint.semantic.uses.packed_lengths import becomes_lengths

_GLOBAL = (
    "`{name}` is a constant on the CPU that is copied to the device in every step; keep a "
    "copy on the device."
)
_LITERAL = (
    "`{expr}` is built from constants and copied in every step; fill it on the device, or "
    "keep a copy there."
)
_COMPUTED = (
    "`{expr}` is computed on the host, of sizes and constants alone, and copied in every step; "
    "compute it on the device with torch."
)

_WAITING = " `{beside}` waits for the device as well: little is gained by this alone."

rule = Rule(
    __name__,
    __doc__,
    code="TL106",
    message=(
        "self.{name} is a plain tensor copied to the device in every forward; register it as "
        "a buffer."
    ),
    severity="warning",
    default=True,
    effect="copy",
    triggers=(b".to", b".cuda", b".type", b"ensor", b".new"),
    runs="hot",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    transfer = transfer_of(module, node)
    constant = host_constant_of(module, transfer.source) if transfer is not None else None
    if transfer is not None and constant is not None:
        if is_cached(module, node) or becomes_lengths(module, node):
            return
        words = {"name": constant.name, "expr": module.shown(transfer.source)}
        message = {"global": _GLOBAL, "literal": _LITERAL}.get(constant.kind)
        fix = _fix(module, constant) or _of_literal(module, _maker_in(module, transfer.source))
        yield _hit(module, node, words, fix, message)
        return
    upload = upload_of(module, node)
    if upload is None or _written_out(module, upload) or is_cached(module, node):
        return
    if becomes_lengths(module, node):
        return
    message = {"constant": _LITERAL, "sizes": _COMPUTED}.get(host_data(module, upload.data) or "")
    if message is not None:
        fix = _of_literal(module, module.taker(upload.data))
        words = {"expr": module.shown(upload.data)}
        yield _hit(module, upload.node, words, fix, message, node)


def _hit(
    module: Module,
    node: cst.BaseExpression,
    words: dict[str, str],
    fix: Fix | None,
    message: str | None,
    copy: cst.BaseExpression | None = None,
) -> Hit:
    """Return the finding of a copy, a hint where the batch that is copied beside it waits too."""
    beside = waits_to_copy_up(module, copy or node)
    if beside is None:
        return Hit(node, words, fix, message=message)
    words = {**words, "beside": module.shown(beside)}
    return Hit(node, words, fix, Severity.INFO, (message or rule.message) + _WAITING)


def _maker_in(module: Module, source: cst.BaseExpression) -> cst.Call | None:
    """Return the call that makes a tensor of a literal, of which an expression is a view."""
    calls = (at for at in links(source) if isinstance(at, cst.Call))
    return next((call for call in calls if module.name(call.func) in ops.DATA_FACTORIES), None)


def _of_literal(module: Module, maker: cst.Call | None) -> Fix | None:
    """Fill the tensor on the device, where it is of one number or a range; keep others as
    buffers."""
    if maker is None or _may_be_parameter(module, maker):
        return None
    return filled_there(module, maker) or kept_as_buffer(module, maker)


def _may_be_parameter(module: Module, maker: cst.Call) -> bool:
    """Say whether a call gives a tensor back with its graph, and what it is given is a number by an
    annotation or a default alone: a caller may pass a parameter."""
    if module.name(maker.func) not in ("torch.as_tensor", "torch.asarray") or not maker.args:
        return False
    data = maker.args[0].value
    return not isinstance(data, (cst.List, cst.Tuple, cst.Call, cst.BaseNumber))


def _written_out(module: Module, upload: Upload) -> bool:
    """Say whether the data are numbers that are written out, or held by a library, which are
    TL112's."""
    if libraries.held(module.name(upload.data) or "") is not None:
        return True
    return isinstance(upload.data, (cst.List, cst.Tuple, cst.BaseNumber, cst.UnaryOperation))


def _fix(module: Module, constant: HostConstant) -> Fix | None:
    """Register the attribute as a buffer in the place of its assignment, which comes after
    ``super().__init__()``."""
    made = constant.made
    function = module.function(made) if made is not None else None
    if (
        constant.kind != "attribute"
        or made is None
        or function is None
        or not _after_super(module, made, function)
    ):
        return None
    call = cst.parse_expression(f'self.register_buffer("{constant.name}", 0, persistent=False)')
    assert isinstance(call, cst.Call)
    new = call.with_changes(
        args=[call.args[0], call.args[1].with_changes(value=made.value), call.args[2]]
    )
    return Fix((Replace(made, cst.Expr(new)),), Safety.UNSAFE, "Register it as a buffer", BUFFER)


def _after_super(module: Module, made: cst.Assign, function: cst.FunctionDef) -> bool:
    for call in module.within(function.body, cst.Call):
        if method_called(call) == "__init__":
            return module.before(call, made)
    return False
