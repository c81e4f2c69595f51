"""Keep running values on the device and read them once after the loop

## Why
`.item()`, `float(t)`, `int(t)`, `bool(t)`, `math.f(t)`, `range(t)`, `x[:t]` and the formatting of a
tensor all reach the operator `aten._local_scalar_dense`: a blocking copy from the device that first
waits for every kernel queued so far. The CPU can then no longer run ahead of the GPU, and short
steps become bound by launches. The PyTorch Performance Tuning Guide says so under "Avoid
unnecessary CPU-GPU synchronization"; Lightning's speed guide says "Don't call .item() anywhere in
your code".

Flagged: such a read in a line that runs in every training step, forward pass or evaluation batch,
of a tensor that comes from a model, a loss or a move to the device. Formatting is reported in
training steps and forward passes only. Where the value is read only to choose a branch the finding
is an `info`: such code may need it. An action for an environment (`env.step(move.item())`) is
silent: code outside of torch needs it.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(5)]
```

## Bad
```python
total, hits = 0.0, 0
for x, y in loader:
    x, y = x.to(device), y.to(device)
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    hits += (out.argmax(1) == y).sum().item()
print(total / len(loader), hits)
```

## Good
```python
total, hits = 0.0, 0
for x, y in loader:
    x, y = x.to(device), y.to(device)
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach().double()
    hits += (out.argmax(1) == y).sum().detach().long()
hits = int(hits)
total = float(total)
print(total / len(loader), hits)
```

## Leave alone
Once after the loop, or every fifty steps, a read costs little.
```python
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(loss.item())
print(float(loss))
```

Python numbers, shapes and tensors that live on the CPU wait for nothing.
```python
seen = 0
for x, y in loader:
    seen += int(x.shape[0]) + x.numel() + y.max().item()
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
```

Formatting belongs to training steps; what an evaluation prints has to reach the host.
```python
with torch.no_grad():
    for x, y in loader:
        print(f"{model(x.to(device)).argmax(1)}")
```

## Fix safety
Safe for `acc += e.item()` and `acc += float(e)` under these conditions, all of them: `acc` starts
as a number literal in the same function (a float literal for a floating `e`, an int literal for a
count of truth values or a position) and nothing can see it before the loop has ended: no other line
of the loop, no closure, no `try` or unknown `with` around it that may swallow an exception, no
generator, no notebook cell that may be interrupted, no code of the project that reads frames or
modules. `e` is one number that a loss or a method of torch certainly gave, and lives on CUDA (or,
where there is none, on the CPU) by evidence; `float` and `int` are Python's own, and nothing
replaces torch's functions or watches them. Sums of doubles in the same order are what Python
computed: the result is equal bit for bit. Elsewhere the rewrite is a suggestion: an integer sum may
leave 64 bits, on MPS there is no float64, and a list of tensors needs another line that reads it.

## Measure
An epoch of 16 small steps, on batches that are on the device beforehand. On a CPU no gain is
expected: what is saved is the wait for the device at each read.
```python
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.randn(64, 256, device=device), torch.randint(3, (64,), device=device)) for _ in range(16)]
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, InsertAfter, Module, Replace, Rule, Safety, Severity
from torchlint.rules.transfer._certain_tensors import FLOAT, LOSS_NAMES, certain
from torchlint.semantic.data.per_step_use import read_before
from torchlint.semantic.device.host_reads import HostRead, scalar_reads
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.uses.accumulators import running_sum
from torchlint.semantic.uses.environment import for_environment
from torchlint.semantic.uses.observers import hooks_operations, is_builtin, replaced, scripted
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import CUDA

rule = Rule(
    __name__,
    __doc__,
    code="TL101",
    message=(
        "`{expr}` reads a GPU value on the host every step; keep it on the device and read "
        "it once after the loop."
    ),
    severity="warning",
    default=True,
    triggers=(b"torch", b"lightning", b"accelerate"),
    yields_to=("TL104", "TL105", "TL505", "TL604", "TL607", "TL901"),
    runs="hot",
)
KIND_OF_DTYPE = {"float": "float", "double": "float", "half": "float", "int": "int", "bool": "int"}
"""What must be torch's own for the sums to be equal."""
METHOD_OF_KIND = {"float": "double", "int": "long"}
_RELIED_ON = (
    *(
        "item",
        "detach",
        "sum",
        "forward",
        "__call__",
        "__add__",
        "__radd__",
        "__iadd__",
        "__float__",
    ),
    *METHOD_OF_KIND.values(),
    *LOSS_NAMES,
)


@rule.on(cst.Call, cst.Subscript, cst.FormattedString, cst.BinaryOperation)
def check(node: cst.CSTNode, module: Module) -> Iterator[Hit]:
    """Yield a hit for a scalar read that runs every step."""
    for read in scalar_reads(module, node):
        shown = read.how in ("format", "print")
        if (shown and not heat_of(module, node).step) or read_before(module, read):
            continue
        if for_environment(module, read.node):
            continue
        severity = Severity.INFO if _decides(module, node) else None
        yield Hit(
            read.node,
            {"expr": module.code(read.node)},
            fix=_fix(module, read),
            severity=severity,
            why_hot=read.inside,
        )


def _decides(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the read stands in a condition: the value chooses the next step on the host."""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (cst.If, cst.While, cst.IfExp)):
            return child is above.test
        child = above
    return False


def _fix(module: Module, read: HostRead) -> Fix | None:
    above = module.parent(read.node)
    if read.how not in ("item", "float"):
        return None
    if isinstance(above, cst.AugAssign):
        return _accumulated(module, read, above)
    if isinstance(above, cst.Arg) and _is_append(module.parent(above)):
        title = "Collect the tensors and read them together after the loop"
        return Fix((Replace(read.node, _method(read.tensor, "detach")),), Safety.SUGGESTION, title)
    return None


def _accumulated(module: Module, read: HostRead, step: cst.AugAssign) -> Fix | None:
    found = running_sum(module, step)
    if found is None:
        return None
    value = inferred(module, read.tensor)
    kind = "float" if read.how == "float" else KIND_OF_DTYPE.get(value.dtype or "")
    proven = found.unseen and value.device == CUDA and _is_exact(module, read, found.start, step)
    if value.grad and kind is None:
        kind = (
            "float"  # nearly always: a complex value has a gradient graph too, so it proves nothing
        )
    total = kind or found.start
    if kind is None and total == "int":
        return (
            None  # `total = 0` says nothing of what is added: an integer sum would cut off a loss
        )
    device_sum = _method(_method(read.tensor, "detach"), METHOD_OF_KIND[total])
    edits = (
        Replace(read.node, device_sum),
        InsertAfter(found.loop, f"{found.name} = {total}({found.name})"),
    )
    return Fix(
        edits,
        Safety.SAFE if proven else Safety.SUGGESTION,
        "Sum on the device and read once after the loop",
    )


def _is_exact(module: Module, read: HostRead, start: str, step: cst.AugAssign) -> bool:
    """Say whether the device's sum is certainly the one that Python would have computed, of the
    same type."""
    tensor = certain(module, read.tensor)
    if tensor is None or tensor.kind is None or not tensor.scalar:
        return False
    kind = "float" if read.how == "float" or tensor.kind == FLOAT else "int"
    if kind != start or not is_builtin(module, start, step):
        return False
    return not (hooks_operations(module) or scripted(module) or replaced(module, *_RELIED_ON))


def _method(receiver: cst.BaseExpression, name: str) -> cst.Call:
    """Return ``receiver.name()``; a second ``.detach()`` is left out."""
    match receiver:
        case cst.Call(func=cst.Attribute(attr=cst.Name("detach"))) if name == "detach":
            return receiver
        case cst.Name() | cst.Attribute() | cst.Call() | cst.Subscript():
            return cst.Call(cst.Attribute(receiver, cst.Name(name)))
    held = (
        receiver
        if receiver.lpar
        else receiver.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    )
    return cst.Call(cst.Attribute(held, cst.Name(name)))


def _is_append(node: cst.CSTNode | None) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "append"
    )
