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

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, on_device
from torchlint.rules.transfer._wait_under_contract.contract import (
    held_to,
    is_listed,
    is_under_contract,
    qualified_name,
)
from torchlint.semantic.code.off_the_gpu import off_the_gpu
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


@rule.on(*WAITING, about=held_to, file=is_under_contract, benchmarks=True)
def check(node: cst.CSTNode, module: Module) -> Iterator[Hit]:
    """Yield a hit for each wait in code under the contract, and for those that are listed
    elsewhere: verify holds whole steps to the list."""
    if off_the_gpu(module, node) is None:
        for wait in _waits(module, node):
            yield _hit(module, wait)


@rule.on(cst.Call, about=is_listed, file=is_under_contract, benchmarks=True)
def check_unseen(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Yield a hit for a call that may wait, where a wait is listed and none is in view."""
    home = _home(module, node)
    beside = (each for each in module.within(home, *WAITING) if _home(module, each) is home)
    if unseen(module, node) and not any(_waits(module, each) for each in beside):
        yield _hit(module, PossibleWait(node, node, UNSEEN))


def _home(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    """Return the small statement that holds a node, or the compound one whose header does."""
    return module.small_statement(node) or module.statement(node)


def _waits(module: Module, node: cst.CSTNode) -> list[PossibleWait]:
    return [*possible_waits(module, node), *_logged(module, node)]


def _hit(module: Module, wait: PossibleWait) -> Hit:
    known = wait.tensor is None or on_device(module, wait.tensor) is True
    sliced = wait.tensor if isinstance(wait.node, cst.Subscript) and wait.why == READ else None
    words = {
        "expr": module.shown(wait.node),
        "waits": "waits for the device" if known else "may wait for the device",
        "function": qualified_name(module, wait.node) or module.filename,
        "why": f"Python reads `{module.shown(sliced)}` on the host" if sliced else wait.why,
    }
    return Hit(wait.node, words)


def _logged(module: Module, node: cst.CSTNode) -> Iterator[PossibleWait]:
    """Yield the tensors that a logging call is handed and reads by itself."""
    sink = logging_call(module, node) if isinstance(node, cst.Call) else None
    if sink is not None and module.name(sink.call.func) != "builtins.print":
        for tensor in shown_tensors(module, sink):
            yield PossibleWait(tensor, tensor, READ)
