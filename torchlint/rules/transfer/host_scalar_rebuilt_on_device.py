"""Fill constants on the device

## Why
`torch.tensor(0.5, device="cuda")` writes the number into a CPU tensor and copies that to the
device, and the host waits for the copy (the source of `tensor_new.cpp`: the data go through CPU
memory and a blocking `.to(device)`). `torch.full((), 0.5, device=...)` hands the number to a kernel
as an argument, so nothing is copied and nobody waits. A list of constants is best kept: make it
once in the constructor and register it as a buffer, which moves with the module.

Flagged, as an `info`: `torch.tensor` or `torch.as_tensor` of a number, also of one that Python
computes, of a bool, or of a list of such literals that ends up on the device, in a training step,
an evaluation batch or a forward pass; also of a list of one number that Python computes and that
is no size, `torch.LongTensor([step])`, or of that many times, `torch.tensor([step] * n)`.
Silent beside a statement that copies a list of the host's to the device, as the host waits there
anyway.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
```

## Bad
```python
class Margin(nn.Module):
    def forward(self, x):
        weight = torch.tensor(0.5, device=x.device)
        floor = torch.tensor(float("-inf"), device=x.device)
        zero = torch.tensor(0.0).to(device)
        return torch.where(x > floor, x * weight, zero)


margin = Margin()
y = margin(torch.arange(8.0, device=device))
```

## Good
```python
class Margin(nn.Module):
    def forward(self, x):
        weight = torch.full((), 0.5, device=x.device)
        floor = torch.full((), float("-inf"), device=x.device)
        zero = torch.zeros((), device=device)
        return torch.where(x > floor, x * weight, zero)


margin = Margin()
y = margin(torch.arange(8.0, device=device))
```

## Leave alone
Several numbers that differ from step to step have to be copied.
```python
class Lengths(nn.Module):
    def forward(self, x, lengths):
        return x / torch.tensor([len(x), len(lengths)], device=x.device).max()
```

A constructor runs once.
```python
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5, device=device))
```

On the CPU there is nothing to copy.
```python
class OnHost(nn.Module):
    def forward(self, x):
        return x * torch.tensor(0.5) + torch.tensor(0.5, device="cpu")
```

## Fix safety
Safe for one real number or bool in the range of its dtype: dtype, shape, strides and value are
equal (checked by running for all dtypes). Where the dtype is a variable, the number has to be an
integer that every dtype holds. Unsafe for others: out of range, `torch.full` raises with other
words, or raises where `torch.tensor` gave infinity. Unsafe too where the code replaces functions of
torch, or uses TorchScript, which knows no `()` as a size. Lists have no rewrite.

## Measure
A hundred calls of the module. A CPU gains a little, as `torch.full` is the simpler call; on a GPU a
copy over the bus and the wait for it are saved as well, at each of the three places.
```python
x = torch.rand(4, 8, device=device)
```

```python
for _ in range(100):
    y = margin(x)
```
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst

from torchlint.fixes.notes import safe_unless
from torchlint.rule import Fix, Hit, Module, Replace, Rule, inferred, keyword_argument, with_keyword
from torchlint.semantic.code.numbers import spelled_number
from torchlint.semantic.code.tree import DISPLAYS, components, is_name, keyword_of, method_called
from torchlint.semantic.device.transfers import is_cached, transfer_of
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.uses.assumptions import PATCHED, TORCH
from torchlint.semantic.uses.lasting_waits import copied_up_beside
from torchlint.semantic.uses.observers import scripted
from torchlint.semantic.uses.packed_lengths import becomes_lengths
from torchlint.semantic.values.place import named_device, of_host_argument
from torchlint.semantic.values.value import ACCEL, CUDA

_FACTORIES = ("torch.tensor", "torch.as_tensor")
_OF_LISTS = ops.dotted("from-data", "lists") - set(_FACTORIES)
"""Factories that take a number for a size."""
_CASTS = ("builtins.float", "builtins.int")
_LARGEST = 65504.0
"""The largest number that all floating dtypes but the 8-bit ones hold."""
_FLOATING = dtypes.spelled(dtypes.of_kind("half", "float", "double", "complex"))


def _range(dtype: dtypes.Dtype) -> tuple[int, int]:
    """Return the least and the largest whole number of a dtype; of int64, those that a float holds
    as well."""
    if dtype.kind == "bool" or dtype.name.startswith("u"):
        return 0, 1 if dtype.kind == "bool" else 2 ** (8 * dtype.nbytes) - 1
    bits = min(8 * dtype.nbytes - 1, 53)
    return -(2**bits), 2**bits - (bits < 53)


_RANGES = {
    name: _range(dtype)
    for dtype in dtypes.FULL
    if dtype.kind in ("int", "bool")
    for name in dtypes.spelled((dtype,))
}
_SCRIPTED = "The code uses TorchScript, which knows no `()` as a size."
_NOTE = (
    "Where the number does not fit the dtype, torch.full raises another error, or one where "
    "torch.tensor gives infinity."
)
_LIST = (
    "`{expr}` copies the same numbers from the host in every step; make it once, and "
    "register it as a buffer."
)
_MATH = (
    "`{expr}` makes a tensor of a number and launches a kernel for it in every step; compute it "
    "with math."
)
_POINTWISE = ops.dotted("pointwise")
_KEPT = frozenset(("device", "dtype"))

rule = Rule(
    __name__,
    __doc__,
    code="TL112",
    message=(
        "`{expr}` copies a number from the host in every step; fill it on the device with "
        "torch.{maker}({size}, ...)."
    ),
    severity="info",
    default=True,
    effect="copy",
    triggers=(b"tensor(", b"Tensor("),
    yields_to=("TL106",),
    equivalence="bitwise",
    runs="hot",
)


@rule.call(*_FACTORIES, *_OF_LISTS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not node.args or node.args[0].keyword:
        return
    data = node.args[0].value
    size = _repeated(module, data)
    if size is None and module.name(node.func) in _OF_LISTS:
        return
    values = [spelled_number(module, each) for each in components(data, cst.List, cst.Tuple)]
    written = bool(values) and None not in values
    if not written and size is None and not _is_python_number(module, data):
        return
    place, target = _upload(module, node)
    if place is None:
        return
    if (
        is_cached(module, node)
        or keyword_argument(module, node, "requires_grad") is not None
        or isinstance(module.parent(place), cst.IfExp)
        or becomes_lengths(module, place)
        or copied_up_beside(module, place) is not None
    ):
        return
    listed = isinstance(data, DISPLAYS)
    outer = _function_of(module, place)
    if outer is not None:
        yield Hit(place, {"expr": module.shown(outer)}, message=_MATH)
        return
    fix = _fix(module, node, place, target) if written and not listed else None
    words = {"expr": module.shown(place), "maker": _filled(module, node), "size": size or "()"}
    yield Hit(place, words, fix, message=_LIST if listed and written else None)


def _repeated(module: Module, data: cst.BaseExpression) -> str | None:
    """Return the size of a list of one number that is not written out, or of that number many
    times, ``[step] * n``; none of a tensor's size, which is for each batch, not for each word."""
    match data:
        case cst.BinaryOperation(cst.List() as listed, cst.Multiply(), right):
            times = module.shown(right)
        case cst.List() as listed:
            times = "1"
        case _:
            return None
    only = listed.elements[0].value if len(listed.elements) == 1 else None
    if only is None or not _is_python_number(module, only):
        return None
    asked = (each.attr.value for each in module.within(only, cst.Attribute))
    return None if any(name in ("shape", "size") for name in asked) else f"({times},)"


def _is_python_number(module: Module, data: cst.BaseExpression) -> bool:
    """Say whether an expression is a number of Python's that is not written out; not where it is
    made one in case it is none, ``float(aux)``."""
    unknown = (inferred(module, arg.value).kind == "?" for arg in getattr(data, "args", ()))
    return inferred(module, data).kind == "number" and not (
        module.called(data) in _CASTS and any(unknown)
    )


def _function_of(module: Module, place: cst.Call) -> cst.Call | None:
    """Return the call that computes a function of the number alone, which then meets a tensor."""
    call = module.taker(place)
    if not isinstance(call, cst.Call) or len(call.args) != 1:
        return None
    name = module.called(call)
    known = name in _POINTWISE and hasattr(math, name.removeprefix("torch."))
    return call if known and isinstance(module.parent(call), cst.BinaryOperation) else None


def _fits(module: Module, data: cst.BaseExpression, dtype: cst.BaseExpression | None) -> bool:
    """Say whether a number is in the range of its dtype: then torch.tensor and torch.full give the
    same."""
    number = spelled_number(module, next(components(data, cst.List, cst.Tuple)))
    if number is None:
        return False
    in_floats = math.isnan(number) or math.isinf(number) or abs(number) <= _LARGEST
    if dtype is None or is_name(dtype, "None"):
        return in_floats
    name = (module.name(dtype) or "").removeprefix("torch.")
    if name in _FLOATING:
        return in_floats
    # A dtype that is not known has to hold it whatever it is; torch.tensor makes no uint64 of a
    # float.
    low, high = _RANGES.get(name, (0, 127))
    return low <= number <= high and (name in _RANGES or isinstance(data, (cst.Integer, cst.Name)))


def _upload(module: Module, node: cst.Call) -> tuple[cst.Call | None, cst.BaseExpression | None]:
    """Return the call that brings the number to the device, the factory's own or the move of it,
    and the device."""
    given = keyword_argument(module, node, "device")
    if given is not None:
        there = named_device(module, given) in (CUDA, ACCEL)
        return (node, given) if there and not of_host_argument(module, given) else (None, None)
    move = module.method_call(node)
    found = transfer_of(module, move) if move is not None else None
    if found is None:
        return None, None
    # ``.cuda(None)`` means the current GPU, ``device=None`` the CPU.
    sure = (
        found.target is None or isinstance(found.target, cst.Integer) or method_called(move) == "to"
    )
    plain = sure and found.given <= {"device"}
    named = found.target or (cst.SimpleString('"cuda"') if not found.given else None)
    return found.call, named if plain else None


def _fix(
    module: Module, node: cst.Call, place: cst.Call, target: cst.BaseExpression | None
) -> Fix | None:
    given = {keyword_of(arg) or arg.star for arg in node.args[1:]}
    if target is None or not isinstance(node.func, cst.Attribute) or given - _KEPT:
        return None
    fill = _filled(module, node)
    size = cst.Arg(cst.Tuple([]), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    args = [size, *node.args[fill != "full" :]]
    if len(args) == 1:
        args = [size.with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    new = node.with_changes(func=node.func.with_changes(attr=cst.Name(fill)), args=args)
    if place is not node:
        new = with_keyword(new, "device", target)
    fits = _fits(module, node.args[0].value, keyword_argument(module, node, "dtype"))
    notes = ["" if fits else _NOTE, _SCRIPTED if scripted(module) else ""]
    title = "Fill the number on the device"
    return safe_unless(notes, [Replace(place, new)], title, {TORCH: PATCHED})


def _filled(module: Module, node: cst.Call) -> str:
    """Return the factory for the number, ``ones`` or ``zeros`` where these give its dtype."""
    number = node.args[0].value
    dtype = keyword_argument(module, node, "dtype")
    typed = dtype is not None and (module.name(dtype) or "").startswith("torch.")
    if not isinstance(number, (cst.Integer, cst.Float)) or not (typed or "." in number.value):
        return "full"
    return {0.0: "zeros", 1.0: "ones"}.get(float(number.evaluated_value), "full")
