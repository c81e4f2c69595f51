"""Wait for an asynchronous copy before its result is read

## Why
`t.to("cpu", non_blocking=True)` returns at once, with a tensor in pinned memory that the device is
still writing. What the host reads from it before the copy has ended is whatever was there: the
tutorial on pinned memory and `non_blocking` of the PyTorch docs shows that `cuda_tensor.to("cpu",
non_blocking=True).mean()` gives wrong results. Towards the device the keyword is safe, as kernels
wait in the stream; towards the host nothing waits but `torch.cuda.synchronize()` or an event.

Flagged, as an `error`: such a copy of a tensor that may be on the device, whose result is read in
the same expression, or later in the function with nothing in between that waits for the device.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
x = torch.ones(2, 8, device=device)
```

## Bad
```python
rows = model(x).detach().to("cpu", non_blocking=True).numpy()
out = model(x).detach().to("cpu", non_blocking=True)
total = out.sum() + 1
```

## Good
```python
rows = model(x).detach().to("cpu").numpy()
out = model(x).detach().to("cpu")
total = out.sum() + 1
```

## Leave alone
A synchronisation before the read.
```python
out = model(x).to("cpu", non_blocking=True)
torch.cuda.synchronize()
print(out.sum())
```

Towards the device nothing can be read too early.
```python
def forward(batch):
    batch = batch.to(device, non_blocking=True)
    return model(batch) + 1
```

What is only handed on may be waited for elsewhere; its shape is known at once.
```python
def offload():
    out = model(x).to("cpu", non_blocking=True)
    print(out.shape)
    return out
```

## Fix safety
Safe for a tensor: without the keyword the copy waits, and the result is what it was meant to be.
(It restores a value that was left to chance, so there is no bit-for-bit comparison with the code
before.) Unsafe where it may be an object with a `to` of its own.

## Measure
Not timed: what is at stake is a wrong result, and waiting for the right one takes longer than not
waiting.
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
    arguments_of,
    inferred,
    keyword_argument,
)
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.tree import is_name, method_called
from torchlint.semantic.device.transfers import certainly_tensor
from torchlint.semantic.torch import ops
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.place import named_device
from torchlint.semantic.values.value import CPU

_VIEWS = ops.having("no-copy")
_KNOWN = ops.having("fact") - ops.having("cast") | {"to", "cpu", "cuda"}
_WAITS = ops.having("waits") | {
    "synchronize",
    "wait_stream",
    "wait_event",
    "wait",
    "query",
    "stream",
    "barrier",
    "record_event",
}
_ASKS = ops.dotted("fact")
_NOTE = "An object with a `to` of its own may do something else without that argument."
_READERS = (
    "builtins.float",
    "builtins.int",
    "builtins.bool",
    "builtins.print",
    "builtins.str",
    "builtins.list",
)

rule = Rule(
    __name__,
    __doc__,
    code="TL109",
    message="`{expr}` may be read before the copy ends; synchronise first, or drop non_blocking.",
    severity="error",
    default=True,
    effect="none",
    triggers=(b"non_blocking",),
    equivalence="opt-in",
)


@rule.method("to", benchmarks=True)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not isinstance(node.func, cst.Attribute) or module.name(node.func) is not None:
        return
    keyword = keyword_argument(module, node, "non_blocking")
    target = arguments_of(module, node, "Tensor.to").value("device")
    if not is_name(keyword, "True") or named_device(module, target) != CPU:
        return
    source = inferred(module, node.func.value)
    if (
        source.host
        or source.kind not in ("?", "tensor")
        or not on_accelerator(module)
        or not _race(module, node)
    ):
        return
    kept = [arg for arg in node.args if arg.value is not keyword]
    if kept:
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    edits = (Replace(node, node.with_changes(args=kept)),)
    sure = source.kind == "tensor" or certainly_tensor(module, node.func.value)
    safety, note = (Safety.SAFE, "") if sure else (Safety.UNSAFE, _NOTE)
    fix = Fix(edits, safety, "Drop non_blocking=True", note)
    yield Hit(node, {"expr": module.shown(node)}, fix)


def _race(module: Module, node: cst.Call) -> bool:
    """Say whether the host reads the copy before anything has waited for it."""
    place = _chain_of_views(module, node)
    if _read(module, place):
        return not _waits(module, node, place)
    statement = module.parent(place)
    match statement:
        case cst.Assign([cst.AssignTarget(cst.Name(name))]):
            scope = module.scope(node)
            later = [
                r
                for r in reads_of(module, scope, name)
                if module.before(node, r) and not module.is_within(r, statement)
            ]
            bound = [w for w in writes_of(module, scope, name) if module.before(node, w)]
            reads = [r for r in later if not any(module.before(w, r) for w in bound)]
            found = next((r for r in reads if _read(module, _chain_of_views(module, r))), None)
            return found is not None and not _waits(module, node, found)
    return False


def _chain_of_views(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    """Return the longest chain of views of `node`: they read nothing."""
    while (call := module.method_call(node)) is not None and method_called(call) in _VIEWS:
        node = call
    return node


def _read(module: Module, node: cst.CSTNode) -> bool:
    match module.parent(node):
        case cst.Attribute(value, cst.Name(attr)) if value is node:
            return attr not in _KNOWN
        case (
            cst.BinaryOperation()
            | cst.Comparison()
            | cst.ComparisonTarget()
            | cst.FormattedStringExpression()
        ):
            return True
        case cst.Arg() as arg:
            call = module.parent(arg)
            name = module.called(call)
            return (name.startswith(("torch.", "numpy.")) and name not in _ASKS) or name in _READERS
    return False


def _waits(module: Module, copy: cst.Call, read: cst.CSTNode) -> bool:
    """Say whether something between the copy and the end of the statement that reads it waits for
    the device."""
    last = module.statement(read)
    scope = module.scope(copy)
    return any(
        module.before(copy, call)
        and (module.before(call, last) or module.is_within(call, last))
        and _wait(module, call, read)
        for call in module.within(scope, cst.Call)
    )


def _wait(module: Module, call: cst.Call, read: cst.CSTNode) -> bool:
    match call.func:
        case cst.Attribute(receiver, cst.Name(method)):
            blocking = (
                method == "to"
                and inferred(module, call).device == CPU
                and keyword_argument(module, call, "non_blocking") is None
            )
            return not module.is_within(read, receiver) and (method in _WAITS or blocking)
    return False
