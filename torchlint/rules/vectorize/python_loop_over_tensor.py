"""Let one tensor operation do what the Python loop does

## Why
Every operation in the loop costs Python time and at least one kernel launch (5 to 20 µs each on the
CPU side), while the kernel itself handles a single element. The GPU idles, and with autograd on
each tiny result adds nodes to the graph. The profiler of PyTorch knows the pattern as
`ForLoopIndexingPattern`.

Flagged, in a `forward`, a loss or a training step: a loop over the rows of a tensor, over `range()`
of one of its sizes with an index into it, or over classes with a comparison of a tensor with each,
where torch operations are all that the body does and no turn needs another one.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.randn(64, 32, device=device, requires_grad=True)
target = torch.randn(64, 32, device=device)
```

## Bad
```python
class RowLoss(nn.Module):
    def forward(self, pred, target):
        losses = torch.zeros(pred.shape[0], device=pred.device)
        for i in range(pred.shape[0]):
            losses[i] = (pred[i] - target[i]).pow(2).mean()
        return losses.sum()


loss = RowLoss()(x, target)
```

## Good
```python
class RowLoss(nn.Module):
    def forward(self, pred, target):
        return (pred - target).pow(2).mean(dim=1).sum()


loss = RowLoss()(x, target)
```

## Leave alone
A recurrence needs the step before.
```python
class Decay(nn.Module):
    def forward(self, x):
        state = torch.zeros_like(x[0])
        out = []
        for t in range(x.shape[0]):
            state = 0.9 * state + x[t]
            out.append(state)
        return torch.stack(out)
```

A loop that only takes a tensor apart does no work per element.
```python
class Split(nn.Module):
    def forward(self, x):
        return [row for row in x]
```

## Fix safety
No fix is offered: which operation does the work depends on the loop.

## Measure
Timed are one forward and one backward pass of the loss. A gain is expected on a CPU and on a GPU:
what is saved is Python and one operation after the other for every row.
```python
x = torch.randn(128, 32, device=device, requires_grad=True)
target = torch.randn(128, 32, device=device)
```

```python
x.grad = None
loss = RowLoss()(x, target)
loss.backward()
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, Severity
from torchlint.rules.vectorize._bodies import independent_rounds, is_size, only_tensor_work
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.time.iterations import (
    goes_over,
    is_structural,
    iteration_count,
    spelled_alike,
)
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.elements import asked_for_type
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_FEW = 8
_NESTED = (
    "Nested Python loops over tensor elements launch kernels for every pair; broadcast, or "
    "use torch.cdist or bmm."
)
_MASKS = (
    "A Python loop that compares a tensor with each index scans it once per turn; compare "
    "with all at once or scatter."
)
_ROWS = (
    "Python loop over the rows of a tensor: one or more kernel launches per row; apply the "
    "operations to all rows at once."
)
_HOST = (
    ops.having("reads")
    | ops.having("move")
    | ops.HOST_METHODS
    | ops.having("graph")
    | {"detach", "clone", "append"}
)
_Loop = cst.For | cst.CompFor

rule = Rule(
    __name__,
    __doc__,
    code="TL601",
    message="Python loop over tensor elements: one or more kernel launches per element; vectorise.",
    severity="warning",
    default=True,
    triggers=(b"for ",),
    yields_to=("TL604",),
    runs="hot",
)


@rule.on(cst.For, cst.CompFor)
def check(node: _Loop, module: Module) -> Iterator[Hit]:
    found = _found(module, node)
    if not found or any(_found(module, outer) for outer in _outer(module, node)):
        return
    severity = Severity.INFO if is_compiled(module, node) else None
    place = node if isinstance(node, cst.For) else _holder(module, node)
    yield Hit(place, message=found, severity=severity)


def _holder(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    return next(a for a in module.ancestors(node) if not isinstance(a, cst.CompFor))


def _outer(module: Module, node: _Loop) -> Iterator[_Loop]:
    """Yield the loops around a loop."""
    for above in module.ancestors(node):
        if isinstance(above, cst.For):
            yield above
        elif (
            isinstance(above, (cst.ListComp, cst.SetComp, cst.GeneratorExp))
            and above.for_in is not node
        ):
            yield above.for_in


def _body(module: Module, node: _Loop) -> cst.CSTNode:
    """Return what a loop repeats: its block, or the element of its comprehension."""
    if isinstance(node, cst.For):
        return node.body
    holder = _holder(module, node)
    return getattr(holder, "elt", holder)


def _found(module: Module, node: _Loop) -> str:
    """Return the message for a loop that torch could do at once, or an empty string."""
    body = _body(module, node)
    if isinstance(node, cst.CompFor) and (
        node.ifs or isinstance(_holder(module, node), cst.DictComp)
    ):
        return ""
    if is_structural(module, node):
        return ""
    count = iteration_count(module, node)
    if count is not None and count <= _FEW:
        return ""
    message = _row(module, node, body)
    if not message or not only_tensor_work(module, body):
        return ""
    return message if isinstance(node, cst.CompFor) or independent_rounds(module, node) else ""


def _row(module: Module, node: _Loop, body: cst.CSTNode) -> str:
    over = goes_over(module, node)
    for goes in over:
        target = goes.target
        if not isinstance(target, cst.Name):
            continue
        if (
            isinstance(goes.iterated, cst.Call)
            and module.name(goes.iterated.func) == "builtins.range"
        ):
            return _indexed(module, target, goes.iterated, body)
        value = inferred(module, goes.iterated)
        if asked_for_type(module, goes.iterated):
            return ""
        if not value.loose and on_device(module, goes.iterated) and _works(module, body, target):
            return _ROWS
    return ""


def _indexed(module: Module, index: cst.Name, counts: cst.Call, body: cst.CSTNode) -> str:
    """Judge ``for i in range(n)``: elements of a tensor taken by ``i``, or a tensor compared with
    ``i``."""
    if _masked(module, index, body):
        return _MASKS
    if not any(is_size(module, arg.value) for arg in counts.args):
        return ""
    taken = list(module.within(body, cst.Subscript))
    read = [s for s in taken if _picks(module, s, index) and on_device(module, s.value)]
    if not any(_works(module, body, s) for s in read):
        return ""
    nested = any(_picks_two(module, s) for s in taken) and any(
        True for _ in module.within(body, cst.For)
    )
    return _NESTED if nested else rule.message


def _masked(module: Module, index: cst.Name, body: cst.CSTNode) -> bool:
    for test in module.within(body, cst.Comparison):
        match test:
            case cst.Comparison(
                left=left,
                comparisons=[cst.ComparisonTarget(operator=cst.Equal(), comparator=right)],
            ):
                if (
                    right.deep_equals(index)
                    and on_device(module, left)
                    and not inferred(module, left).loose
                ):
                    return not isinstance(
                        module.parent(test), (cst.If, cst.IfExp, cst.BooleanOperation)
                    )
    return False


def _picks(module: Module, node: cst.Subscript, index: cst.Name) -> bool:
    """Say whether a subscript takes part of a tensor by the loop's index."""
    return any(bool(spelled_alike(module, item, index)) for item in node.slice)


def _picks_two(module: Module, node: cst.Subscript) -> bool:
    return len({name for item in node.slice for name in module.names_in(item)}) > 1


def _works(module: Module, body: cst.CSTNode, part: cst.CSTNode, depth: int = 3) -> bool:
    """Say whether a tensor operation is done on a part: arithmetic, a torch function or one of its
    methods."""
    return any(_operates(module, use, body, depth) for use in spelled_alike(module, body, part))


def _operates(module: Module, use: cst.CSTNode, body: cst.CSTNode, depth: int) -> bool:
    above = module.parent(use)
    while isinstance(
        above, (cst.Subscript, cst.Index, cst.SubscriptElement, cst.Element, cst.Tuple, cst.List)
    ):
        above = module.parent(above)
    match above:
        case cst.BinaryOperation() | cst.Comparison():
            return True
        case cst.Arg():
            call = module.parent(above)
            return isinstance(call, cst.Call) and (module.name(call.func) or "").startswith(
                "torch."
            )
        case cst.Attribute(attr=cst.Name(value=method)):
            return isinstance(module.parent(above), cst.Call) and method not in _HOST
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]) if depth:
            return _works(module, body, name, depth - 1)
    return False
