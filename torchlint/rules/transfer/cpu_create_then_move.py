"""Create tensors on the device that uses them

## Why
A factory without `device=` allocates and fills host memory; the `.to(device)` or `.cuda()` behind
it then copies from pageable memory, for which the host waits. With `device=` one kernel fills the
memory in place. PyTorch's performance tuning guide ("Create tensors directly on the target device")
and the profiler's own pattern `ExtraCUDACopyPattern` name the same waste.

Flagged: a move to the device of what a factory that takes `device=` has made on the CPU, in the
same expression or under a name, also through a helper, and a CPU tensor of a factory that indexes a
tensor on the device or exchanges values with it. In steps and forwards also a list of numbers, a
range, an array or a CPU tensor as index of a tensor on the device: it is made into a tensor and
copied, and the host waits for that. Outside of steps and forwards only the direct form is reported,
as an `info`.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
```

## Bad
```python
class Padded(nn.Module):
    def forward(self, x):
        pad = torch.zeros(x.size(0), 8).to(x.device)
        return torch.cat([x, pad], dim=1)


padded = Padded()
out = padded(torch.ones(4, 8, device=device))
```

## Good
```python
class Padded(nn.Module):
    def forward(self, x):
        pad = torch.zeros(x.size(0), 8, device=x.device)
        return torch.cat([x, pad], dim=1)


padded = Padded()
out = padded(torch.ones(4, 8, device=device))
```

## Leave alone
`torch.tensor(list)` builds on the CPU with `device=` as well, so nothing is gained.
```python
class Weighted(nn.Module):
    def forward(self, x):
        return x * torch.tensor([0.5, 2.0]).to(x.device)
```

Elements that Python writes are cheaper to write on the CPU.
```python
class Ragged(nn.Module):
    def forward(self, x, lengths):
        mask = torch.zeros(len(lengths), x.size(1))
        for row, length in enumerate(lengths):
            mask[row, :length] = 1
        return x * mask.to(x.device)
```

## Fix safety
Safe for zeros, ones, empty, eye, a full of a literal and ranges of integers: the same bits, dtype
and strides. Unsafe for random numbers, as the CPU's generator is no longer advanced: the values
change, and so do later draws on the CPU, the next shuffle of a DataLoader among them. Unsafe for
inexact ranges, for `requires_grad=True`, for `.cuda(n)` of a variable that may be None, where
`.to(other)` evaluates more than a name or is given what may be no tensor, and where `.to` casts to
a dtype that is not spelled out: None keeps the factory's. Unsafe where the device is computed by
code that may do more, as that runs earlier, and where code replaces or watches functions of torch.

## Measure
One call of the module. On a CPU no gain is expected, as `.to` returns the same tensor: what is
saved is the filling of host memory, a copy over the bus, and the wait for it.
```python
x = torch.ones(65536, 8, device=device)
```

```python
out = padded(x)
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
from torchlint.rules.transfer._host_indices import host_index
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.device.factories import (
    any_dtype,
    device_effect,
    factories_of,
    factory_elsewhere,
    is_sized_type,
    takes_device,
)
from torchlint.semantic.device.transfers import certainly_tensor, is_cached, transfer_of
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.uses.observers import (
    defaults_to_meta,
    free_of_effects,
    hooks_operations,
    replaced,
)
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU

_CASTS = frozenset(("long", "float", "bool"))
_STEPS = (
    _CASTS | {"repeat"} | ops.having("method", "view") - ops.having("part") - ops.having("spreads")
)
_REAL_DTYPES = dtypes.spelled(dtypes.FULL)
_EYE_DTYPES = _REAL_DTYPES | dtypes.spelled(dtypes.of_kind("complex"))
"""Dtypes for which every factory of zeros and ones exists; torch.eye has no others."""
_FILLED_DTYPES = dtypes.spelled(dtypes.DTYPES)
_MOVES = ops.having("move")
_STRANGE = frozenset("layout memory_format names".split())
_COPIES = "`{expr}` was built on the CPU by {factory} and is copied; build it with device={dev}."
_OLD = (
    "{factory} of sizes builds on the CPU and is then copied; use torch.empty(…, device={dev}) "
    "instead."
)
_HOIST = "`{expr}` is the same in every step and copied in each; move it to the device once."
_MIXED = (
    "{factory} builds on the CPU, and a tensor on the device is indexed with it or "
    "exchanges values with it."
)
_INDEX = (
    "the index `{index}` is on the host and is copied to the device, which synchronises; "
    "{alternative}."
)
_NOTES = {
    "random": (
        "The CPU generator is no longer advanced: the numbers, later CPU draws and the "
        "next shuffle change."
    ),
    "range": "The values may differ in the last place from those that the CPU computes.",
    "fill": "The fill value is not known to be a plain number.",
    "grad": "The tensor on the device becomes the leaf that gets .grad.",
    "cuda": (
        "Where the argument is None, .cuda(None) means the current GPU, but device=None the CPU."
    ),
    "other": "What gives the device may be no tensor, or is evaluated twice.",
    "cast": "The values are made in the other dtype at once instead of being converted to it.",
    "dtype": (
        "Where the dtype given to .to is None, the tensor keeps its own, and gets the "
        "default one from the factory."
    ),
    "order": (
        "The expression that gives the device is evaluated before the tensor is made, not "
        "behind it."
    ),
    "lost": "What the factory was given for this is no longer evaluated.",
    "meta": 'Where the default device is "meta", on which tensors have no data, the copy raised.',
    "patched": "The code replaces functions of torch, or looks at each of its operations.",
}

rule = Rule(
    __name__,
    __doc__,
    code="TL102",
    message="{factory} builds on the CPU and is then copied; pass device={dev} instead.",
    severity="warning",
    default=True,
    triggers=(b"torch",),
    yields_to=("TL104", "TL206", "TL902"),
    equivalence="rng",
    runs="once",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    transfer = transfer_of(module, node)
    if transfer is None or is_cached(module, node):
        return
    value = inferred(module, transfer.source)
    made = factories_of(module, transfer.source) if value.device == CPU else []
    made = [f for f in made if inferred(module, f).device == CPU and takes_device(module, f)]
    heat, device = heat_of(module, node), _device(module, transfer)
    if not made:
        elsewhere = factory_elsewhere(module, transfer.source) if heat.hot else None
        if elsewhere is not None and value.device == CPU:
            words = {"expr": module.code(transfer.source), "factory": elsewhere, "dev": device}
            yield Hit(node, words, message=_COPIES)
        return
    words = {
        "expr": module.code(transfer.source),
        "factory": module.code(made[0].func),
        "dev": device,
    }
    if module.is_within(made[0], transfer.source):
        function = module.function(node)
        if heat.hot or function is None or function.name.value != "__init__":
            severity = None if heat.hot else Severity.INFO
            message = _OLD if is_sized_type(module, made[0]) else None
            yield Hit(node, words, _fix(module, transfer, made[0]), severity, message=message)
        return
    hot = [factory for factory in made if heat_of(module, factory).hot]
    if heat.hot and not hot:
        yield Hit(node, words, message=_HOIST)
    elif heat.hot:
        yield Hit(node, words, severity=Severity.INFO, message=_COPIES)
        for factory in hot:
            message = _OLD if is_sized_type(module, factory) else None
            here = module.function(factory) is module.function(node)
            words = {"factory": module.code(factory.func), "dev": device if here else "…"}
            yield Hit(factory, words, message=message)


@rule.on(cst.Subscript, runs="hot")
def check_mixed(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    """Find CPU tensors that index a tensor on the device, are filled from one, or are written into
    one."""
    above = module.small_statement(node)
    if isinstance(module.parent(node), cst.AssignTarget) and isinstance(above, cst.Assign):
        pairs = [(node.value, above.value), (above.value, node.value)]
    else:
        # An index of booleans is turned into positions on the CPU, and makes nothing wait.
        plain = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
        indices = [
            index for index in plain if not isinstance(index, (cst.BaseNumber, cst.BaseString))
        ]
        pairs = [
            (index, node.value) for index in indices if inferred(module, index).dtype != "bool"
        ]
    for host, there in pairs:
        value = inferred(module, host)
        if value.device != CPU or value.rank == 0 or on_device(module, there) is not True:
            continue
        for factory in factories_of(module, host, filled=True):
            if takes_device(module, factory):
                yield Hit(factory, {"factory": module.code(factory.func)}, message=_MIXED)


@rule.on(cst.Subscript, runs="hot")
def check_index(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    """Find a tensor on the device that is indexed by what lies on the host."""
    for part in node.slice:
        index = part.slice.value if isinstance(part.slice, cst.Index) else None
        if index is None or isinstance(index, (cst.BaseNumber, cst.BaseString)):
            continue
        alternative = host_index(module, index)
        if alternative is not None and on_device(module, node.value) is True:
            words = {"index": module.code(index), "alternative": alternative}
            yield Hit(node, words, message=_INDEX)
            return


def _device(module: Module, transfer: Transfer) -> str:
    if transfer.target is None or _by_type(transfer):
        return '"cuda"'
    return module.code(transfer.target) + (".device" if transfer.like else "")


def _by_type(transfer: Transfer) -> bool:
    """Say whether ``.type(torch.cuda.FloatTensor)`` moves: an old type says no device to give."""
    func = transfer.call.func
    return isinstance(func, cst.Attribute) and func.attr.value == "type"


def _fix(module: Module, transfer: Transfer, factory: cst.Call) -> Fix | None:
    """Return the fix that passes ``device=`` to a factory at the start of the moved chain of
    calls."""
    given = {arg.keyword.value for arg in factory.args if arg.keyword is not None}
    direct = transfer.source is factory or not (transfer.like or transfer.dtype)
    if (
        transfer.given & {"copy", "memory_format"}
        or given & _STRANGE
        or not direct
        or _by_type(transfer)
        or is_sized_type(module, factory)
        or not _chain(transfer, factory)
    ):
        return None
    options: dict[str, cst.BaseExpression] = {
        "device": transfer.target or cst.SimpleString('"cuda"')
    }
    if transfer.like and transfer.target is not None:
        options = {
            name: cst.Attribute(transfer.target, cst.Name(name)) for name in ("device", "dtype")
        }
    elif transfer.dtype is not None:
        options["dtype"] = transfer.dtype
    new = factory
    for name, value in options.items():
        new = with_keyword(new, name, value)
    edit = Replace(
        transfer.call,
        new if transfer.source is factory else transfer.source.deep_replace(factory, new),
    )
    whys = [
        *_factory_effects(module, factory),
        *_effects(module, transfer, factory),
        *_seen(module, transfer, factory),
    ]
    note = one_sentence(_NOTES[why] for why in whys)
    return Fix((edit,), Safety.UNSAFE if note else Safety.SAFE, "Pass device= to the factory", note)


def _factory_effects(module: Module, factory: cst.Call) -> list[str]:
    found = device_effect(module, factory)
    return found.split(", ") if found else []


def _chain(transfer: Transfer, factory: cst.Call) -> bool:
    """Say whether the moved expression is the factory's result, or an exact view or cast of it."""
    source = transfer.source
    while source is not factory:
        match source:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=step))) if (
                step in _STEPS
            ):
                source = inner
            case _:
                return False
    return True


def _effects(module: Module, transfer: Transfer, factory: cst.Call) -> Iterator[str]:
    """Yield the keys of the notes on what it changes that the transfer goes."""
    exact = any_dtype(module, factory)
    if transfer.like or transfer.dtype is not None:
        if not exact or _may_be_complex(module, factory):
            yield "cast"
        if transfer.dtype is not None and not _is_dtype(module, transfer.dtype, factory):
            yield "dtype"
    elif _casts(transfer) and not exact and module.name(factory.func) != "torch.arange":
        yield "cast"
    method = transfer.call.func.attr.value if isinstance(transfer.call.func, cst.Attribute) else ""
    if transfer.like:
        plain = isinstance(transfer.target, cst.Name) and (
            method == "type_as" or certainly_tensor(module, transfer.target)
        )
        if not plain:
            yield "other"
    literal = transfer.target is None or isinstance(
        transfer.target, (cst.Integer, cst.SimpleString)
    )
    if method == "cuda" and not literal:
        yield "cuda"


def _casts(transfer: Transfer) -> bool:
    """Say whether a cast stands between the factory and the move."""
    at: cst.BaseExpression = transfer.source
    while isinstance(at, cst.Call) and isinstance(at.func, cst.Attribute):
        if at.func.attr.value in _CASTS:
            return True
        at = at.func.value
    return False


def _is_dtype(module: Module, node: cst.BaseExpression, factory: cst.Call) -> bool:
    """Say whether an expression is certainly a dtype that the factory can fill: one of torch's, or
    a tensor's own."""
    name = module.name(node) or ""
    if name.startswith("torch."):
        kinds = _EYE_DTYPES if module.name(factory.func) == "torch.eye" else _FILLED_DTYPES
        return name.removeprefix("torch.") in kinds
    match node:
        case cst.Attribute(value=cst.Name() as tensor, attr=cst.Name(value="dtype")):
            return certainly_tensor(module, tensor) or _has_sizes(module, tensor)
        case cst.Attribute(value=cst.Attribute() as tensor, attr=cst.Name(value="dtype")):
            return inferred(module, tensor).tensor
    return False


def _has_sizes(module: Module, tensor: cst.Name) -> bool:
    """Say whether the function asks a named object for ``.size(…)``, which of all things with a
    dtype tensors have."""
    for read in reads_of(module, module.function(tensor) or module.root, tensor.value):
        above = module.parent(read)
        if (
            isinstance(above, cst.Attribute)
            and above.attr.value == "size"
            and inferred(module, read).tensor
        ):
            return isinstance(module.parent(above), cst.Call)
    return False


def _may_be_complex(module: Module, factory: cst.Call) -> bool:
    """Say whether the factory's own dtype may be complex, of which a cast to a real one warns."""
    given = keyword_argument(module, factory, "dtype")
    name = module.name(given) or ""
    real = name.removeprefix("torch.") in _REAL_DTYPES
    return given is not None and not (name.startswith("torch.") and real)


def _seen(module: Module, transfer: Transfer, factory: cst.Call) -> Iterator[str]:
    """Yield the keys of the notes on what code could tell from the order of evaluation, or from
    torch's functions."""
    moved = [each for each in (transfer.target, transfer.dtype) if each is not None]
    if not all(free_of_effects(module, each) for each in moved):
        yield "order"
    dropped = ["device"] + ["dtype"] * (transfer.like or transfer.dtype is not None)
    given = [keyword_argument(module, factory, name) for name in dropped]
    if any(each is not None and not free_of_effects(module, each) for each in given):
        yield "lost"
    if defaults_to_meta(module):
        yield "meta"
    called = factory.func.attr.value if isinstance(factory.func, cst.Attribute) else "torch"
    own = (module.name(factory.func) or "").rpartition(".")[2]
    if replaced(module, *{called, own, *_MOVES}) or hooks_operations(module):
        yield "patched"
