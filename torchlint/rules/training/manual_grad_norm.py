"""Compute the gradient norm with torch.nn.utils

## Why
A norm summed by hand with `.item()` waits for the device once per parameter, often hundreds of
times a step, and runs several kernels for each. `torch.nn.utils.clip_grad_norm_` (and
`get_total_norm`, in newer versions, to measure only) works on all gradients at once by foreach and
returns a tensor; it waits for nothing unless `error_if_nonfinite=True` (source of clip_grad.py).
One check of that total tells whether any gradient is NaN.

Flagged, in code that runs every training step: a loop or a `sum` over parameters that adds up
squares or norms of `.grad` (a warning where each is read on the host, else an info), the norm of
such norms in a `torch.stack`, and a test of every `.grad` for NaN or infinity.

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
    optimizer.zero_grad()
    model(x).sum().backward()
    total = 0.0
    for p in model.parameters():
        total += p.grad.norm(2).item() ** 2
    total = total**0.5
    optimizer.step()
```

## Good
```python
for x in batches:
    optimizer.zero_grad()
    model(x).sum().backward()
    total = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=float("inf"))
    optimizer.step()
```

## Leave alone
Now and then, or once after the epoch.
```python
for step, x in enumerate(batches):
    model(x).sum().backward()
    optimizer.step()
    if step % 100 == 0:
        print(sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5)
print(sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5)
```

Each layer on its own: nothing is added up.
```python
for x in batches:
    model(x).sum().backward()
    norms = {name: p.grad.norm() for name, p in model.named_parameters()}
    optimizer.step()
```

## Fix safety
No fix is offered: what stands for the sum depends on what is done with it.

## Measure
Timed are steps of a model with many parameters; an infinite `max_norm` measures the norm and clips
nothing. On a CPU no gain is expected: foreach also takes one gradient after the other there, and
scales them on top. What is saved on a GPU is one wait for each parameter.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layers = [layer for _ in range(20) for layer in (nn.Linear(32, 32), nn.LayerNorm(32))]
model = nn.Sequential(*layers, nn.Sigmoid()).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = [torch.randn(8, 32, device=device) for _ in range(3)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, Severity
from torchlint.semantic.code.tree import COMPREHENSIONS, is_name, last_name, method_called
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.time.step_overhead import over_parameters
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import SPARSE_OR_SHARDED
from torchlint.semantic.uses.graph_use import graph_fate

_READS = ops.having("reads") | {"cpu"}
_NORMS = ops.having("norm")
_SQUARES = ops.having("square")
_CHECKS = ops.having("finite")
_ELSEWHERE = ops.having("collective") | SPARSE_OR_SHARDED
_KEEPS_GRAPH = regex(r"create_graph\s*=\s*(?!False)")
"""Without it a gradient has no graph, and no norm of gradients can be back-propagated;
``clip_grad_norm_`` and ``get_total_norm`` run without autograd."""
_KERNELS = (
    "hand-written gradient norm runs several kernels per parameter; use "
    "torch.nn.utils.clip_grad_norm_."
)
_PLAIN_SUM = (
    "hand-written sum of gradient norms reads one scalar per parameter; add the norms up on the "
    "device (torch.stack(torch._foreach_norm(grads)).sum()) and read that once."
)
_FINITE = (
    "testing every gradient for NaN reads from the device once per parameter; test the "
    "total norm once."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL505",
    message=(
        "hand-written gradient norm reads one scalar per parameter; use "
        "torch.nn.utils.clip_grad_norm_ / get_total_norm."
    ),
    severity="warning",
    default=True,
    effect="launch",
    triggers=(b".grad",),
    runs="train",
)


@rule.on(cst.AugAssign)
def check_sum(node: cst.AugAssign, module: Module) -> Iterator[Hit]:
    if isinstance(node.operator, cst.AddAssign):
        for loop in module.loops(node):
            if isinstance(loop, cst.For):
                yield from _norm(module, node.value, node.value, loop)


@rule.call("builtins.sum")
def check_call(node: cst.Call, module: Module) -> Iterator[Hit]:
    made = node.args[0].value if node.args else None
    if isinstance(made, COMPREHENSIONS) and not isinstance(made, cst.DictComp):
        yield from _norm(module, node, made.elt, made.for_in)


def _norm(
    module: Module, node: cst.BaseExpression, term: cst.BaseExpression, loop: cst.For | cst.CompFor
) -> Iterator[Hit]:
    name = over_parameters(module, loop)
    if name is None:
        return
    body = loop.body if isinstance(loop, cst.For) else None
    parts = [term, *_assigned_in_body(module, term, body)]
    if not any(_is_grad(module, part, name) for part in parts) or not any(
        _is_squared(module, part) for part in parts
    ):
        return
    if module.names_in(module.scope(node)) & _ELSEWHERE:
        return
    read = next((r for part in parts if (r := _read(module, part)) is not None), None)
    if read is not None:
        yield Hit(read, message=None if _sums_squares(module, parts) else _PLAIN_SUM)
    elif not (said_somewhere(module, _keeps_graph) and not graph_fate(module, node).ended):
        yield Hit(node, message=_KERNELS, severity=Severity.INFO)


def _keeps_graph(text: str) -> bool:
    return _KEEPS_GRAPH.search(text) is not None


def _assigned_in_body(
    module: Module, term: cst.BaseExpression, body: cst.BaseSuite | None
) -> Iterator[cst.BaseExpression]:
    """Yield what the loop's body assigns to the names in a term, and to the names in that."""
    names = set(module.names_in(term))
    assigns = list(module.within(body, cst.Assign)) if body is not None else []
    for assign in reversed(assigns):
        target = assign.targets[0].target
        if is_name(target, *names):
            names |= module.names_in(assign.value)
            yield assign.value


def _is_grad(module: Module, node: cst.BaseExpression, name: str) -> bool:
    found = (a for a in module.within(node, cst.Attribute) if a.attr.value == "grad")
    return any(is_name(a.value, name) for a in found)


def _is_squared(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression takes a norm, or the sum of squares."""
    words = _called(module, node)
    return bool(words & _NORMS) or ("sum" in words and _sums_squares(module, [node]))


def _sums_squares(module: Module, parts: list[cst.BaseExpression]) -> bool:
    """Say whether expressions square something, as a norm of all does: the sum of norms is another
    number."""
    return any(
        isinstance(each.operator, (cst.Power, cst.Multiply))
        for part in parts
        for each in module.within(part, cst.BinaryOperation)
    ) or any(_called(module, part) & _SQUARES for part in parts)


def _called(module: Module, node: cst.BaseExpression) -> set[str]:
    return {last_name(call.func) for call in module.within(node, cst.Call)}


def _read(module: Module, node: cst.BaseExpression) -> cst.Call | None:
    """Return the call in an expression that brings a scalar to the host."""
    for call in module.within(node, cst.Call):
        item = method_called(call) in _READS
        if item or module.name(call.func) == "builtins.float":
            return call
    return None


@rule.call("torch.stack")
def check_stack(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find norms of all gradients that are stacked for the norm of all:
    ``torch.stack([p.grad.norm() for p in parameters]).norm()``."""
    made = node.args[0].value if node.args else None
    above = module.taker(node) or module.method_call(node)
    joined = above is not None and last_name(above.func) in _NORMS | {"sum"}
    if joined and isinstance(made, (cst.ListComp, cst.GeneratorExp)):
        yield from _norm(module, node, made.elt, made.for_in)


@rule.method("any", "all")
def check_finite(node: cst.Call, module: Module) -> Iterator[Hit]:
    loop = next((a for a in module.loops(node) if isinstance(a, cst.For)), None)
    name = over_parameters(module, loop) if loop is not None else None
    home = module.statement(node)
    if name is None or not isinstance(home, cst.If):
        return
    calls = module.within(node, cst.Call)
    checks = [c for c in calls if method_called(c) in _CHECKS]
    if any(_is_grad(module, c, name) for c in checks):
        top = module.parent(node)
        yield Hit(top if isinstance(top, cst.UnaryOperation) else node, message=_FINITE)
