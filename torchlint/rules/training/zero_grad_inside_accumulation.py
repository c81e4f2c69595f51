"""Clear gradients only after the optimizer step that used them

## Why
`backward()` adds to the gradients that are already there; that is how gradient accumulation works
(AMP examples of the PyTorch docs, "Gradient accumulation"). Where `zero_grad()` runs for every
micro-batch but `step()` only for every k-th, the step sees the gradient of the last micro-batch
alone: the work of all others is thrown away, and training behaves as with the small batch that
accumulation was meant to enlarge.

Flagged: `zero_grad()` on every iteration of a loop that calls `backward()` on every iteration as
well, and `step()` of the same optimizer only behind a comparison with a step counter, the last
batch or a number of accumulation steps.

## Setup
```python
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(8)]
loss_fn = nn.MSELoss()
k = 4
```

## Bad
```python
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y) / k
    loss.backward()
    if (i + 1) % k == 0:
        optimizer.step()
```

## Good
```python
optimizer.zero_grad()
for i, (x, y) in enumerate(loader):
    loss = loss_fn(model(x), y) / k
    loss.backward()
    if (i + 1) % k == 0:
        optimizer.step()
        optimizer.zero_grad()
```

## Leave alone
An ordinary loop steps as often as it clears.
```python
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
```

A step that is skipped because of bad values is not accumulation.
```python
for x, y in loader:
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    if torch.isfinite(loss):
        optimizer.step()
```

## Fix safety
Unsafe: the gradients, and with them the training, change; that is the purpose. The learning rate
may have been tuned for the small batch.

## Measure
Not timed: the fix changes what is learned from a batch, not how long a batch takes.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import (
    Append,
    Fix,
    Hit,
    InsertAfter,
    InsertBefore,
    Module,
    NodeEdit,
    Remove,
    Rule,
    Safety,
    conditions_around,
)
from torchlint.semantic.code.calls import contexts_around
from torchlint.semantic.code.intervals import is_interval
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.data.replicas import counter, period
from torchlint.semantic.values.inferred import is_model_call

_NOTE = (
    "Gradients of all micro-batches count from now on, so training changes; check the "
    "learning rate."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL503",
    message="zero_grad() runs every micro-batch but step() only {k}: all but the last "
    "micro-batch's gradients are "
    "discarded.",
    severity="error",
    default=True,
    effect="none",
    triggers=(b"zero_grad",),
    equivalence="opt-in",
    runs="once",
)


@rule.method("zero_grad", benchmarks=True)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    loop = module.loop(node)
    if not isinstance(node.func, cst.Attribute) or loop is None:
        return
    if any(
        needed or is_interval(module, test)
        for test, needed in conditions_around(module, node, loop)
    ):
        return
    calls = list(module.within(loop.body, cst.Call))
    steps = [c for c in calls if method_called(c) == "step" and is_step(module, c)]
    optimizers = {_code(_optimizer(c)) for c in steps}
    if (
        len(optimizers) != 1
        or any(method_called(context) == "accumulate" for context in contexts_around(module, node))
        or not _clears(module, node.func.value, optimizers, calls)
    ):
        return
    tests = [counter(module, c, loop) for c in steps]
    backwards = [c for c in calls if method_called(c) == "backward"]
    if any(module.loop(c) is not loop for c in (*steps, *backwards)):
        return
    if None in tests or not backwards or any(counter(module, c, loop) for c in backwards):
        return
    every = period(module, tests[0]) if tests[0] is not None else None
    fix = _fix(module, node, steps[0], loop) if len(steps) == 1 else None
    often = f"every {_code(every)} micro-batches" if every is not None else "now and then"
    yield Hit(node, {"k": often}, fix=fix)


def _code(node: cst.CSTNode) -> str:
    return dotted_text(node) or cst.Module([]).code_for_node(node)


def _optimizer(step: cst.Call) -> cst.CSTNode:
    """Return the optimizer of ``optimizer.step()`` or ``scaler.step(optimizer)``."""
    receiver = step.func.value if isinstance(step.func, cst.Attribute) else step.func
    return step.args[0].value if step.args and "scaler" in _code(receiver).lower() else receiver


def _clears(
    module: Module, place: cst.BaseExpression, optimizers: set[str], calls: list[cst.Call]
) -> bool:
    """Say whether clearing `place` clears the one optimizer: it is that, or the only model that
    runs in the loop."""
    if _code(place) in optimizers:
        return True
    models = {_code(c.func) for c in calls if is_model_call(module, c)}
    return models == {_code(place)}


def _fix(module: Module, node: cst.Call, step: cst.Call, loop: cst.For | cst.While) -> Fix | None:
    clear, done = module.small_statement(node), module.small_statement(step)
    if not isinstance(clear, cst.Expr) or clear.value is not node or not isinstance(done, cst.Expr):
        return None
    code, line = _code(node), module.parent(done)
    one_line = isinstance(line, cst.SimpleStatementSuite)
    after: NodeEdit = (
        Append(step, f"; {code}") if one_line else InsertAfter(module.statement(step), code)
    )
    edits = (InsertBefore(loop, code), Remove(clear), after)
    return Fix(edits, Safety.UNSAFE, "Clear the gradients after the step instead", _NOTE)
