"""Free the graph after the only backward of the step

## Why
Without `retain_graph` the backward pass frees each saved tensor as soon as it is used (docs of
`Tensor.backward`: setting the option "is not needed and often can be worked around in a much more
efficient way"). With it they live until the loss is dropped, so that the peak of memory overlaps
the next forward pass. Time is the same.

Flagged: a literal `retain_graph=True` in a training loop with no other backward pass, where all
that comes into the loop from outside is known to carry no graph: models, optimizers, loaders,
numbers. Where a state is carried from step to step, detaching that state is the remedy, and the
option is left alone.

## Setup
```python
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader([torch.randn(8) for _ in range(6)], batch_size=2)
```

## Bad
```python
for x in loader:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
```

## Good
```python
for x in loader:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
```

## Leave alone
Two losses share a graph.
```python
for x in loader:
    y = model(x)
    y.sum().backward(retain_graph=True)
    y.mean().backward()
    optimizer.step()
```

A state is carried from step to step, with its graph.
```python
def recur(cell):
    state = torch.zeros(2, 4)
    for x in loader:
        state = cell(x, state)
        state.sum().backward(retain_graph=True)
        optimizer.step()
```

## Fix safety
Unsafe: where something does use the graph once more, that raises "Trying to backward through the
graph a second time".

## Measure
Timed are four steps. No gain in time is expected on a CPU or a GPU: what is saved is memory at the
next forward pass.
```python
model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.Sigmoid())
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
loader = [torch.randn(32, 128) for _ in range(4)]
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
    heat_of,
    inferred,
    keyword_argument,
)
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.scopes import method_of
from torchlint.semantic.code.tree import LOOPS, attr_of, components, is_name, keyword_of, targets_of
from torchlint.semantic.time.iterations import carried_reads

_DIFFERENTIATE = frozenset(
    "backward manual_backward grad jvp vjp hvp vhp jacobian hessian functional_call".split()
)
_WITHOUT_GRAPH = frozenset(
    (
        "module optimizer scheduler scaler loader number str bool none function class device dtype "
        "ndarray shape"
    ).split()
)
_NOTE = "Where something does use the graph once more, that backward pass raises."

rule = Rule(
    __name__,
    __doc__,
    code="TL507",
    message=(
        "retain_graph=True on the only backward of the step keeps saved tensors alive for nothing."
    ),
    severity="warning",
    default=True,
    effect="memory",
    triggers=(b"retain_graph",),
    equivalence="bitwise",
    runs="once",
)


@rule.method("backward", "manual_backward")
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    asked = next((a for a in node.args if keyword_of(a) == "retain_graph"), None)
    if asked is None or not is_name(asked.value, "True"):
        return
    loop = heat_of(module, node).loop
    if (
        not isinstance(loop, LOOPS)
        or _is_differentiated(module, node)
        or _of_many(module, node, loop)
    ):
        return
    if keyword_argument(module, node, "create_graph") is None and _is_fresh(module, loop):
        args = [a for a in node.args if a is not asked]
        if args and node.args[-1] is asked:
            args[-1] = args[-1].with_changes(comma=asked.comma)
        edit = Replace(node, node.with_changes(args=args))
        yield Hit(asked, fix=Fix((edit,), Safety.UNSAFE, "Let backward free the graph", _NOTE))


def _of_many(module: Module, node: cst.Call, loop: cst.For | cst.While) -> bool:
    """Say whether the loop goes over what is differentiated, which may share one graph."""
    whole = cst.ensure_type(node.func, cst.Attribute).value
    return isinstance(loop, cst.For) and any(
        is_name(part, *module.names_in(loop.target))
        for part in components(whole, cst.BinaryOperation)
    )


def _is_differentiated(module: Module, node: cst.Call) -> bool:
    """Say whether the class or function asks autograd for anything else."""
    scope: cst.CSTNode = module.class_of(node) or module.scope(node)
    calls = (c for c in module.within(scope, cst.Call, nested=True) if c is not node)
    functions = (c.func for c in calls)
    return any(attr_of(f) in _DIFFERENTIATE for f in functions)


def _is_fresh(module: Module, loop: cst.For | cst.While) -> bool:
    """Say whether the graph of `node` is made anew in every round: nothing that may have one comes
    from outside."""
    bound = {w.value for name in module.names_in(loop) for w in writes_of(module, loop, name)}
    carried = {read.value for read in carried_reads(module, loop)}
    reads = [
        r
        for name in module.names_in(loop)
        if name not in bound - carried
        for r in reads_of(module, loop.body, name)
    ]
    return all(_without_graph(module, read) for read in reads) and not any(
        _keeps_state(module, call) for call in module.within(loop.body, cst.Call)
    )


def _without_graph(module: Module, read: cst.Name) -> bool:
    """Say whether a read from outside of the loop is called, or is of a kind that carries no
    graph."""
    *_, top = module.links_around(read, cst.Attribute)
    above = module.parent(top)
    value = inferred(module, top)
    if module.name(read) is not None and value.kind == "?":
        return True  # An imported name, or a builtin.
    if isinstance(above, cst.Call):
        value = inferred(module, read)
        return not value.tensor and value.kind != "accumulated"
    return value.kind in _WITHOUT_GRAPH or value.grad is False


def _keeps_state(module: Module, call: cst.Call) -> bool:
    """Say whether a model of this file writes to itself in its forward pass."""
    made = inferred(module, call.func).node
    forward = method_of(module, made, "forward") if isinstance(made, cst.ClassDef) else None
    targets = (
        module.within(forward.body, cst.AssignTarget, cst.AugAssign) if forward is not None else ()
    )
    return any(isinstance(t, cst.Attribute) for each in targets for t in targets_of(each))
