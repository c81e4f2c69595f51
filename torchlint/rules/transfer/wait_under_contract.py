"""Keep code that must not wait free of waits, or list them

## Why
A step that runs ahead of the GPU stays fast only as long as nobody adds a read to it, and one
`.item()` in a helper is enough. Projects that care keep a list by hand of the waits that they
allow. A contract of no waits is that list: `no-waits` in the
configuration names functions, files or decorators, and in them
everything that makes the host wait is an error, however seldom it runs.

Flagged, in code under a contract only: reads of one number (`.item()`, `float(x)`, `math.f(x)`,
f-strings, `print`), copies to the host (`.cpu()`, `.tolist()`), copies to the device without
`non_blocking=True`, tests that ask a tensor for its truth, operations whose result has a size that
only values say (`nonzero`, `x[mask]`, `unique`), tensors made of host data on the device, calls of
`synchronize`, and logs of tensors. Where nothing is known of what `.item()`, `float()` or `.cpu()`
reads, it counts; a test, a text, an index or an operation counts where it is of a tensor, unless
that lies on the host. What is certainly a number, a text or an array waits for nothing.

A wait that is meant to stay is listed, behind the line or in the configuration, with its owner and
a reason: `# torchlint: allow-wait[ada] the scheduler needs it`. One that is listed and gone is
reported as an unused suppression is. `torchlint check --waits` prints the list, and
`torchlint verify --no-waits -- train.py` fails where a step of the run waits at a line that is not
on it.

Without configuration, a decorator of the name `no_waits` puts a function under the contract.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []


def no_waits(function):
    return function
```

## Bad
```python
@no_waits
def step(x, y):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())


step(torch.ones(4, 8, device=device), torch.zeros(4, dtype=torch.long, device=device))
```

## Good
```python
@no_waits
def step(x, y):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.detach())


step(torch.ones(4, 8, device=device), torch.zeros(4, dtype=torch.long, device=device))
```

## Leave alone
A wait that is listed.
```python
@no_waits
def step(x, y):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()  # torchlint: allow-wait[ada] the scheduler needs it
```

What the host knows: shapes, numbers, settings, and tensors that lie on it.
```python
@no_waits
def step(x, y, scale: float = 1.0):
    rate = float(scale) / x.size(0)
    if x.dim() == 2 and y is not None:
        order = torch.randperm(4).tolist()
        print(f"{rate} {order} {x.shape}")
    return criterion(model(x), y) * rate
```

Code that is under no contract.
```python
def evaluate(x, y):
    return criterion(model(x), y).item()
```

## Fix safety
There is no fix: the rules that find hot waits (TL101, TL103, TL113, TL602) repair what can be
repaired, here too, and what is to stay is for its owner to say.

## Measure
Not measured: what a wait costs depends on what the GPU has to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, on_device
from torchlint.semantic.code.contract import listed_rows, qualified_name, under_contract
from torchlint.semantic.code.guards import off_the_gpu
from torchlint.semantic.data.per_step_use import logging_call, shown_tensors
from torchlint.semantic.device.possible_waits import (
    READ,
    UNSEEN,
    WAITING,
    PossibleWait,
    possible_waits,
    unseen,
)

rule = Rule(
    __name__,
    __doc__,
    code="TL115",
    message=(
        "`{expr}` {waits} in `{function}`, which must not wait: {why}; take it out, or list it "
        "with `# torchlint: allow-wait[owner] reason`."
    ),
    severity="error",
    default=True,
    effect="copy",
    triggers=(b"torch", b"lightning", b"accelerate"),
)


@rule.on(cst.Module)
def check(node: cst.Module, module: Module) -> Iterator[Hit]:
    """Yield a hit for each wait in code under the contract, and for those that are listed
    elsewhere: verify holds whole steps to the list."""
    places, rows = under_contract(module), listed_rows(module)
    inside = [place.body if isinstance(place, cst.FunctionDef) else place for place in places]
    waiting = set()
    for each in module.nodes(*WAITING) if rows else _within(module, inside):
        row = _row(module, each)
        if row in rows or any(module.is_within(each, place) for place in inside):
            for hit in _hits(module, each):
                waiting.add(row)
                yield hit
    for call in module.nodes(cst.Call) if rows - waiting else ():
        if _row(module, call) in rows - waiting and unseen(module, call):
            yield _hit(module, PossibleWait(call, call, UNSEEN))


def _within(module: Module, places: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    for place in places:
        yield from module.within(place, *WAITING, nested=True)


def _hits(module: Module, node: cst.CSTNode) -> Iterator[Hit]:
    for wait in (*possible_waits(module, node), *_logged(module, node)):
        if off_the_gpu(module, wait.node) is None:
            yield _hit(module, wait)


def _hit(module: Module, wait: PossibleWait) -> Hit:
    known = wait.tensor is None or on_device(module, wait.tensor) is True
    words = {
        "expr": module.shown(wait.node),
        "waits": "waits for the device" if known else "may wait for the device",
        "function": qualified_name(module, wait.node) or module.filename,
        "why": wait.why,
    }
    return Hit(wait.node, words)


def _logged(module: Module, node: cst.CSTNode) -> Iterator[PossibleWait]:
    """Yield the tensors that a logging call is handed and reads by itself."""
    sink = logging_call(module, node) if isinstance(node, cst.Call) else None
    if sink is not None and module.name(sink.call.func) != "builtins.print":
        for tensor in shown_tensors(module, sink):
            yield PossibleWait(tensor, tensor, READ)


def _row(module: Module, node: cst.CSTNode) -> int:
    return module.statements.row(module.small_statement(node) or module.statement(node))
