"""Detach the state that goes from one step into the next

## Why
A hidden state or a memory that a model returns, and that the next step hands back to it, refers to
the graph of the step that made it. A backward pass in the next step walks that graph as well, and
the ones before it: the second one raises "Trying to backward through the graph a second time", and
`retain_graph=True` takes the error away, not the cause. Every graph stays in memory, and the k-th
backward pass takes about k times as long as the first one. Measured with torch 2.13 on a CPU, a GRU
over 16 segments: the backward pass grows from 15 to 263 ms, all of them take 2,220 ms instead of
256 ms with a detached state. The PyTorch FAQ names the remedy, truncated backpropagation through
time, and points to the word language model example, whose `repackage_hidden` detaches the state.
Where the gradient is meant to go through all steps, add the losses up and call `backward()` once,
after the loop: it walks each graph once.

Flagged: a literal `retain_graph=True` of a backward pass in each step, where the loss depends on a
state that the steps before have bound, and each of its bindings in the loop has a graph: names,
attributes, and running sums of losses. The calls between state and loss have to be torch's, or code
of the project in which nothing detaches.

## Setup
```python
import torch
from torch import nn

torch.manual_seed(0)
cell = nn.GRUCell(4, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
segments = torch.randn(6, 2, 4)
```

## Bad
```python
state = torch.zeros(2, 8)
optimizer.zero_grad()
for x in segments:
    state = cell(x, state)
    loss = head(state).square().mean()
    loss.backward(retain_graph=True)
optimizer.step()
```

## Good
```python
state = torch.zeros(2, 8)
optimizer.zero_grad()
for x in segments:
    state = cell(x, state)
    loss = head(state).square().mean()
    loss.backward()
    state = state.detach()
optimizer.step()
```

## Leave alone
One backward pass through all steps.
```python
state = torch.zeros(2, 8)
loss = torch.zeros(())
for x in segments:
    state = cell(x, state)
    loss = loss + head(state).square().mean()
loss.backward()
optimizer.step()
```

Every step begins with a state of its own, and the graph is needed twice.
```python
for x in segments:
    state = torch.zeros(2, 8)
    for part in x.split(1):
        state = cell(part.expand(2, 4), state)
    head(state).mean().backward(retain_graph=True)
    state.mean().backward()
    optimizer.step()
```

## Fix safety
No fix is offered: the gradient ends at the step's own graph then (truncated backpropagation through
time), and where another backward pass needs the graph, that one raises.

## Measure
Timed are 12 segments. A gain is expected on a CPU and on a GPU: what is saved are the walks over
the graphs of all earlier segments.
```python
cell = nn.GRUCell(64, 64)
head = nn.Linear(64, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.001)
segments = torch.randn(12, 32, 64)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, keyword_argument
from torchlint.rules.training._state_carried_with_graph.states import carried_with_graph
from torchlint.semantic.code.tree import is_name, keyword_of

rule = Rule(
    __name__,
    __doc__,
    code="TL511",
    message=(
        "the graph of {state} goes into the next step: each backward pass walks all earlier steps "
        "again; detach after it."
    ),
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"retain_graph",),
    equivalence="opt-in",
    runs="once",
)


@rule.method("backward", "manual_backward")
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    asked = next((a for a in node.args if keyword_of(a) == "retain_graph"), None)
    if asked is None or not is_name(asked.value, "True"):
        return
    if keyword_argument(module, node, "create_graph") is not None:
        return
    states = carried_with_graph(module, node)
    if states:
        names = " and ".join(f"`{module.shown(state)}`" for state in states)
        yield Hit(asked, {"state": names})
