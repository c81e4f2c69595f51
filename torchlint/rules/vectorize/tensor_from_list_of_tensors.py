"""Join tensors with torch.stack

## Why
`torch.tensor` and its kin take Python data. A tensor inside the list is turned into a Python number
first, and for a tensor on the device that is a blocking copy: one for each element (the source of
`tensor_new.cpp`, which stores element by element). The result is a new leaf on the CPU, or is
copied to the device again, and the gradients of the elements are lost: PyTorch warns of "converting
a tensor with requires_grad=True to a scalar". `torch.stack` joins the tensors where they are, in
one kernel.

Flagged: `torch.tensor`, `torch.as_tensor`, `torch.asarray` or a typed constructor
(`torch.FloatTensor`, ...) of a list or tuple that holds tensors on the device, or of a
comprehension that reads such tensors with `.item()`; as an `info` in code that does not run every
step.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
heads = nn.ModuleList([nn.Linear(4, 1) for _ in range(3)]).to(device)
```

## Bad
```python
class Joint(nn.Module):
    def forward(self, x):
        out = model(x)
        return torch.tensor([out.mean(), out.std()])
```

## Good
```python
class Joint(nn.Module):
    def forward(self, x):
        out = model(x)
        return torch.stack([out.mean(), out.std()])
```

## Leave alone
Python numbers are what the function is for.
```python
class Joint(nn.Module):
    def forward(self, x):
        sizes = torch.tensor([x.shape[0], len(heads)], device=x.device)
        return model(x) / sizes.max()
```

One tensor is cloned on its device, which is another matter.
```python
class Joint(nn.Module):
    def forward(self, x):
        return torch.tensor(model(x))
```

## Fix safety
Unsafe: the result stays on the device and in the graph, and has the elements' own dtype and shape:
elements of shape (1,) give shape (n, 1), and elements of several dtypes are promoted or refused.
There is no fix where a dtype is asked for.

## Measure
Timed are ten forward passes, each with two elements. On a CPU little gain is expected, and more on
a GPU: what is saved is one read per element, which waits for the device there.
```python
x = torch.randn(64, 8, device=device)
```

```python
for _ in range(10):
    joined = Joint()(x)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, Severity
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.tree import keyword_of
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.elements import element_reads, holds_device_tensors
from torchlint.semantic.values.inferred import inferred

_FACTORIES = ops.dotted("from-data", "lists")
_UNTYPED = ops.dotted("from-data", "lists", "own-dtype")
_DETACHED = (
    "{factory} of tensors reads each back to the host and drops their gradients; use torch.stack."
)
_ITEMS = (
    "{factory} takes numbers that .item() reads one by one; join the tensors with "
    "torch.stack, on the device."
)
_NOTE = (
    "The result stays on the device and in the graph, and has the dtype and shape of the elements."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL606",
    message="{factory} of tensors reads each of them back to the host; use torch.stack.",
    severity="warning",
    default=True,
    effect="launch",
    triggers=(b"ensor(", b"asarray("),
    equivalence="opt-in",
    runs="once",
)


@rule.call(*_FACTORIES)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not node.args or node.args[0].star or node.args[0].keyword is not None:
        return
    data = node.args[0].value
    tensors = holds_device_tensors(module, data)
    if (not tensors and not _reads(module, data)) or throttled(module, node):
        return
    message = _ITEMS if not tensors else _DETACHED if _graph(module, data) else None
    severity = None if heat_of(module, node).hot else Severity.INFO
    fix = _fix(module, node, data) if tensors else None
    yield Hit(node, {"factory": module.shown(node.func)}, fix, severity, message)


def _reads(module: Module, data: cst.BaseExpression) -> bool:
    """Say whether a comprehension gives nothing but what ``.item()`` reads from device tensors."""
    match data:
        case cst.ListComp(elt=elt, for_in=cst.CompFor() as loop):
            found = list(element_reads(module, loop))
            return any(
                read.node is elt and read.how == "item" for each in found for read in each.reads
            )
    return False


def _graph(module: Module, data: cst.BaseExpression) -> bool:
    item = inferred(module, data).item
    return item is not None and item.grad is True


def _fix(module: Module, node: cst.Call, data: cst.BaseExpression) -> Fix | None:
    """Return the rewrite to stack, where everything in the list is a 0-dim tensor and only a device
    is asked for: of a tensor with one element in a row, ``torch.tensor([x])`` makes a number."""
    given = {keyword_of(arg) for arg in node.args[1:]}
    item = inferred(module, data).item
    whole = item is not None and item.tensor and item.rank == 0
    if (
        not isinstance(node.func, cst.Attribute)
        or module.name(node.func) not in _UNTYPED
        or given - {"device"}
        or not whole
    ):
        return None
    stack = node.func.with_changes(attr=cst.Name("stack"))
    new = node.with_changes(
        func=stack, args=[node.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    )
    return Fix((Replace(node, new),), Safety.UNSAFE, "Stack the tensors", _NOTE)
