"""Let the device run ahead: leave waiting to the reads that need it

## Why
`torch.cuda.synchronize()` blocks the host until every queued kernel has ended. In a training step
nothing can be queued meanwhile, so the device idles while Python prepares the next kernels (CUDA
notes of the PyTorch docs, "Asynchronous execution": operations are enqueued, and ordering on one
stream is kept by itself). Correct results never need the call on one stream: reads on the host
(`.item()`, `.cpu()`) wait by themselves, for what they need.

Flagged: a wait for the device (`torch.cuda.synchronize`, the same of `torch.accelerator`,
`torch.mps` and `torch.xpu`, and `torch.cuda.current_stream().synchronize()`) in a training step, an
evaluation batch or a forward pass. Beside a clock it is an info, in loops over training steps
alone: a time without the wait is the time of queueing, but not every step has to be timed. Where
the clock is read every N steps alone, the wait can go there, in an evaluation too.

## Setup
```python
import time

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [torch.randn(8, 8) for _ in range(3)]
```

## Bad
```python
def train():
    for x in loader:
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()
        torch.cuda.synchronize()
```

## Good
```python
def train():
    for x in loader:
        optimizer.zero_grad()
        model(x.to(device)).sum().backward()
        optimizer.step()
```

## Leave alone
Every fifty steps, or once after the loop.
```python
def train():
    for step, x in enumerate(loader):
        model(x.to(device)).sum().backward()
        optimizer.step()
        if step % 50 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
```

Beside a clock that is read every fifty steps, or in an evaluation.
```python
def train():
    start = time.perf_counter()
    for step, x in enumerate(loader):
        model(x.to(device)).sum().backward()
        optimizer.step()
        if step % 50 == 0:
            torch.cuda.synchronize()
            print((time.perf_counter() - start) / 50)
            start = time.perf_counter()
```

## Fix safety
Unsafe: without the wait an error of a kernel is raised at a later line, and code that uses streams
of its own in another file may have relied on it.

## Measure
An epoch of 16 small steps, on batches that are on the device beforehand. Without a GPU there is
nothing to wait for and no gain is expected: what is saved is the idle time of the device after each
step.
```python
torch.manual_seed(0)
model = nn.Linear(256, 256).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [torch.randn(64, 256, device=device) for _ in range(16)]
```

```python
train()
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Grade,
    Hit,
    Module,
    Rule,
    Safety,
    Severity,
    conditions_around,
    deletion,
    heat_of,
    inferred,
    keyword_argument,
)
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import last_name, method_called
from torchlint.semantic.device.possible_waits import SYNCHRONISERS, synchroniser

_CLOCK = regex(
    r"(^|[._])(time|time_ns|perf_counter(_ns)?|monotonic(_ns)?|process_time(_ns)?|default_timer|now|elapsed_time|tic|"
    r"toc)$|"
    r"(^|[._])timer?(_\w+)?\.\w+$",
    re.IGNORECASE,
)
_MEMORY = regex(r"^torch\.\w+\.(memory\.)?(\w*memory\w*|mem_get_info)$")
_TIMING = regex(r"(^|_)(timers?|timing|times?)(_|$)", re.IGNORECASE)
_OWN_ORDER = regex(
    r"^torch\.(cuda|xpu|accelerator)\.(stream|Stream|ExternalStream|CUDAGraph|graph|graphs\.\w+)$|"
    r"^torch\.distributed\.(i?send|i?recv|P2POp)$|"
    r"\.(wait_stream|wait_event|record_stream|replay)$"
)
_OTHERS = regex(
    r"^(cupy|cupyx|cucim|cuml|cudf|cuda|pycuda|numba\.cuda|nvidia|tensorrt|warp|jax|taichi|triton"
    r"|tensorflow|ctypes|drjit|mitsuba|nvdiffrast|kaolin)\."
)
"""Libraries that launch work on streams that torch does not know."""
_NEAR = 2
_NOTE = (
    "An error of a kernel is raised at a later line; code that uses streams of its own may "
    "rely on the wait."
)

_TIMED = "{name}() drains the device in every step for a clock; take the time of every Nth step."
_RARELY_TIMED = (
    "{name}() drains the device in every step for a clock that is read every N steps; wait there."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL111",
    message="{name}() drains the device in every step, so the host cannot run ahead.",
    severity="warning",
    default=True,
    effect="wait",
    triggers=(b"synchronize",),
    equivalence="bitwise",
    runs="hot",
)


@rule.on(cst.Call, about=synchroniser, calls=SYNCHRONISERS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    home = module.function(node)
    near = {call: _spelled(module, call) for call in _calls_nearby(module, node)}
    # Who times the whole of a loop needs no wait in each of its iterations.
    for site in call_sites(module, home) if home and not module.loops(node) else ():
        beside = {call: _spelled(module, call) for call in _calls_nearby(module, site)}
        near.update((call, name) for call, name in beside.items() if name.startswith("time."))
    if (
        any(map(_MEMORY.search, near.values()))
        or _is_ordered(module, node)
        or _is_asked_for(module, node)
    ):
        return
    given = {"name": synchroniser(module, node) or ""}
    clocks = [call for call, spelled in near.items() if _CLOCK.search(spelled)]
    if not clocks:
        yield Hit(node, given, fix=deletion(module, node, Safety.UNSAFE, _NOTE))
        return
    heat = heat_of(module, node)
    # A helper that reads the clock may be asked for the time of an epoch as well.
    if heat.loop is None:
        return
    if all(throttled(module, clock, heat.loop) for clock in clocks):
        yield Hit(node, given, severity=Severity.INFO, message=_RARELY_TIMED)
    elif heat.grade is Grade.TRAIN:
        yield Hit(node, given, severity=Severity.INFO, message=_TIMED)


def _calls_nearby(module: Module, node: cst.Call) -> Iterator[cst.Call]:
    """Yield the calls in the statements beside the wait, and beside the ``if`` that holds it."""
    at: cst.CSTNode | None = module.statement(node)
    while at is not None:
        before, behind = module.tree.beside(at)
        for part in (*before[-_NEAR:], at, *behind[:_NEAR]):
            yield from module.within(part, cst.Call)
        above = module.parent(module.parent(at))
        at = above if isinstance(above, cst.If) else None


def _spelled(module: Module, call: cst.Call) -> str:
    return module.name(call.func) or dotted_text(call.func) or ""


def _is_ordered(module: Module, node: cst.Call) -> bool:
    """Say whether the function, or one of this file that it calls, orders work itself: streams,
    graphs, another library's kernels, messages and collectives in flight, copies that do not
    wait."""
    calls = list(module.within(module.scope(node), cst.Call))
    helpers = {each for call in calls for each in callees_of(module, call)}
    for call in (*calls, *(inner for each in helpers for inner in module.within(each, cst.Call))):
        spelled = _spelled(module, call)
        if (
            _OWN_ORDER.search(spelled)
            or _OTHERS.search(spelled)
            or keyword_argument(module, call, "async_op") is not None
        ):
            return True
        method = method_called(call)
        if method == "copy_" and len(call.args) > 1:
            return True
        if (
            keyword_argument(module, call, "non_blocking") is not None
            and inferred(module, call).device == "cpu"
        ):
            return True
    return False


def _is_asked_for(module: Module, node: cst.Call) -> bool:
    """Say whether a setting about timing asks for the wait."""
    return any(
        _TIMING.search(name)
        for test, needed in conditions_around(module, node)
        if needed
        for name in map(last_name, module.within(test, cst.Name, cst.Attribute))
    )
