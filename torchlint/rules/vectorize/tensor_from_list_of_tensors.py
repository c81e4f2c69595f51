"""Join tensors with torch.stack or torch.cat

## Why
`torch.tensor` and its kin take Python data. A tensor inside the list is turned into a Python number
first, and for a tensor on the device that is a blocking copy: one for each element (the source of
`tensor_new.cpp`, which stores element by element). The result is a new leaf on the CPU, or is
copied to the device again, and the gradients of the elements are lost: PyTorch warns of "converting
a tensor with requires_grad=True to a scalar". `torch.stack` joins tensors without a dimension where
they are, in one kernel; tensors of shape (1,), which `torch.tensor` takes for numbers as well, keep
the result's shape with `torch.cat`.

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
Unsafe: the result stays on the device and in the graph, and has the elements' own dtype: elements
of several dtypes are promoted or refused. Tensors known to have one dimension are joined by
`torch.cat`. There is no fix where a dtype is asked for, or the number of dimensions is not known.

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

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, Severity, heat_of, inferred
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.tree import keyword_of
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.elements import element_reads, holds_device_tensors

_FACTORIES = ops.dotted("from-data", "lists")
_UNTYPED = ops.dotted("from-data", "lists", "own-dtype")
_DETACHED = "{factory} of tensors reads each back to the host and drops their gradients; {joined}."
_ITEMS = "{factory} takes numbers that .item() reads one by one; on the device, {joined}."
_JOINED: dict[int | None, str] = {0: "use torch.stack", 1: "use torch.cat, which keeps the shape"}
_FIXED: dict[int | None, tuple[str, str]] = {
    0: ("stack", "Stack the tensors"),
    1: ("cat", "Concatenate the tensors"),
}
_EITHER = "torch.stack joins tensors without a dimension, torch.cat those of shape (1,)"
_NOTE = "The result stays on the device and in the graph, and has the dtype of the elements."

rule = Rule(
    __name__,
    __doc__,
    code="TL606",
    message="{factory} of tensors reads each of them back to the host; {joined}.",
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
    words = {"joined": _JOINED.get(_rank(module, data), _EITHER)}
    yield Hit(node, {"factory": module.shown(node.func), **words}, fix, severity, message)


def _rank(module: Module, data: cst.BaseExpression) -> int | None:
    """Return how many dimensions each of the tensors has, or None where that is not known."""
    match data:
        case cst.ListComp(cst.Call(cst.Attribute(read, cst.Name("item")))):
            return inferred(module, read).rank
    item = inferred(module, data).item
    return item.rank if item is not None and item.tensor else None


def _reads(module: Module, data: cst.BaseExpression) -> bool:
    """Say whether a comprehension gives nothing but what ``.item()`` reads from device tensors."""
    match data:
        case cst.ListComp(elt, cst.CompFor() as loop):
            found = list(element_reads(module, loop))
            return any(
                read.node is elt and read.how == "item" for each in found for read in each.reads
            )
    return False


def _graph(module: Module, data: cst.BaseExpression) -> bool:
    item = inferred(module, data).item
    return item is not None and item.grad is True


def _fix(module: Module, node: cst.Call, data: cst.BaseExpression) -> Fix | None:
    """Return the rewrite that joins tensors, all without a dimension or all of shape (1,), where
    only a device is asked for: of one element in a row, ``torch.tensor([x])`` takes the number."""
    given = {keyword_of(arg) for arg in node.args[1:]}
    rank = _rank(module, data)
    if (
        not isinstance(node.func, cst.Attribute)
        or module.name(node.func) not in _UNTYPED
        or given - {"device"}
        or rank not in _FIXED
    ):
        return None
    verb, title = _FIXED[rank]
    new = node.with_changes(
        func=node.func.with_changes(attr=cst.Name(verb)),
        args=[node.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)],
    )
    return Fix((Replace(node, new),), Safety.UNSAFE, title, _NOTE)
