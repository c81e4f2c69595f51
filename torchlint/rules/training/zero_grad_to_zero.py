"""Drop gradients instead of filling them with zeros

## Why
Since torch 2.0 `zero_grad()` sets gradients to None: nothing is written, the backward pass stores
its result instead of adding to zeros, and the memory is free between the steps. The tuning guide
and `optimizer.zero_grad`'s docs recommend it; torch's own profiler looks for the other form
(`GradNotSetToNonePattern`). The gain is small.

Flagged: `zero_grad(set_to_none=False)`, and a loop that fills the `.grad` of all parameters with
zeros. Plain `zero_grad()` does the right thing.

## Setup
```python
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 8) for _ in range(3)]
```

## Bad
```python
for x in batches:
    optimizer.zero_grad(set_to_none=False)
    model(x).sum().backward()
    optimizer.step()
```

## Good
```python
for x in batches:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
```

## Leave alone
Code that reads a gradient without asking whether there is one would fail.
```python
def norms(x):
    optimizer.zero_grad(set_to_none=False)
    model(x).sum().backward()
    return [p.grad.norm() for p in model.parameters()]
```

A CUDA graph needs its gradients at fixed addresses.
```python
def capture(x):
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=False)
    with torch.cuda.graph(graph):
        model(x).sum().backward()
        optimizer.step()
    return graph
```

## Fix safety
Unsafe: a parameter without a gradient is skipped by the optimizer, where a zero gradient still
gives it weight decay and momentum; and code that reads `.grad` finds None. No fix is offered for a
loop over the gradients.

## Measure
Timed are three steps of a model whose parameters are many next to its batch. A small gain is
expected on a CPU and on a GPU: what is saved is writing the zeros and adding to them.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.Sigmoid()).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batches = [torch.randn(8, 512, device=device) for _ in range(3)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, conditions_around
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import attr_of, is_name, is_zero, keyword_of
from torchlint.semantic.time.step_overhead import over_parameters
from torchlint.semantic.torch import ops

_RESETS = ops.having("sets") | {"detach_", "requires_grad_"}
_FIXED = regex(r"CUDAGraph|cuda\.graph\b|make_graphed_callables|gradient_as_bucket_view\s*=\s*True")
_NOTE = "Unused parameters are skipped instead of decayed, and code that reads .grad finds None."

rule = Rule(
    __name__,
    __doc__,
    code="TL509",
    message="gradients are zeroed in memory; zero_grad() sets them to None since torch 2.0.",
    severity="info",
    default=True,
    effect="none",
    triggers=(b"zero_grad", b".grad"),
    equivalence="bitwise",
)


@rule.method("zero_grad")
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if len(node.args) != 1:
        return
    arg = node.args[0]
    literal = is_name(arg.value, "False")
    named = keyword_of(arg) in ("", "set_to_none")
    if literal and named and not _is_needed(module, node):
        edit = Replace(node, node.with_changes(args=[]))
        yield Hit(node, fix=Fix((edit,), Safety.UNSAFE, "Leave set_to_none at its default", _NOTE))


@rule.on(cst.For)
def check_loop(node: cst.For, module: Module) -> Iterator[Hit]:
    name = over_parameters(module, node)
    zeroing = _zeroing(module, node, name) if name is not None else None
    if zeroing is None or _is_needed(module, node):
        return
    yield Hit(zeroing)


def _zeroing(module: Module, loop: cst.For, name: str) -> cst.Call | None:
    """Return the call by which a loop fills the gradient of every parameter with zeros, whatever
    else it does."""
    for call in module.within(loop.body, cst.Call):
        if not isinstance(call.func, cst.Attribute) or not _of_gradient(call.func.value, name):
            continue
        method = call.func.attr.value
        filled = method == "fill_" and call.args and is_zero(call.args[0].value)
        if (method == "zero_" or filled) and all(
            _asks_for_gradient(t, name) for t, _ in conditions_around(module, call, loop)
        ):
            return call
    return None


def _of_gradient(node: cst.BaseExpression, name: str) -> bool:
    """Say whether an expression is ``p.grad`` or ``p.grad.data``."""
    return (dotted_text(node) or "").removesuffix(".data") == f"{name}.grad"


def _asks_for_gradient(test: cst.BaseExpression, name: str) -> bool:
    """Say whether a condition is ``p.grad``, or compares it with None."""
    left = test.left if isinstance(test, cst.Comparison) else test
    return _of_gradient(left, name)


def _is_needed(module: Module, node: cst.CSTNode) -> bool:
    """Say whether something may need the gradients to stay: fixed addresses, or code that reads
    them unasked."""
    if mentions(module, _FIXED):
        return True
    home = module.class_of(node) or module.scope(node)
    return any(_read(module, a) for a in module.within(home, cst.Attribute, nested=True))


def _read(module: Module, node: cst.Attribute) -> bool:
    """Say whether ``p.grad`` is used here as a tensor, with no condition in its function that asks
    for None."""
    above = module.parent(node)
    if node.attr.value != "grad" or isinstance(above, (cst.Comparison, cst.AssignTarget, cst.If)):
        return False
    while attr_of(above) == "data":
        above = module.parent(above)
    if attr_of(above) in _RESETS:
        return False
    if module.name(node) is not None:
        return False
    return not any("grad" in module.source_of(test) for test, _ in conditions_around(module, node))
