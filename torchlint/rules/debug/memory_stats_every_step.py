"""Collect memory statistics now and then, not every step

## Why
`memory_summary()`, `memory_stats()` and everything built on them (`memory_allocated()`,
`memory_reserved()`, the `max_` functions) gather a nested dictionary of all the allocator's
counters; `memory_snapshot()` walks every block, `nvidia-smi` starts a process, and
`psutil.cpu_percent(interval=...)` sleeps. None of this waits for the device, but the host does it
instead of launching kernels. Once per epoch or every hundred steps shows the same.

Flagged, in code that runs every training step: the statistics of `torch.cuda`, `pynvml` and
`psutil` (info), and a summary, a snapshot, the recording of the memory history, `nvidia-smi`, or a
sleeping `cpu_percent` (warning).

## Setup
```python
import subprocess

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
    optimizer.step()
    used = torch.cuda.memory_allocated()
```

## Good
```python
for step, x in enumerate(batches):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    if step % 100 == 0:
        used = torch.cuda.memory_allocated()
```

## Leave alone
Once per epoch.
```python
def train():
    for epoch in range(3):
        for x in batches:
            model(x).sum().backward()
            optimizer.step()
        print(torch.cuda.memory_summary())
```

On demand: a setting switches it on.
```python
def debug(args):
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
        if args.log_memory:
            print(torch.cuda.memory_allocated())
```

## Fix safety
No fix is offered: how often the statistics are wanted is yours to decide.

## Measure
Timed are ten steps. On a CPU next to no gain is expected, for there are no statistics to gather:
what is saved on a GPU is the host's work of gathering them.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batches = [torch.randn(8, 8, device=device) for _ in range(10)]
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, Severity, conditions_around

_STATISTICS = regex(
    r"^torch\.(cuda|xpu|accelerator)\.(memory\.)?((max_)?memory_(allocated|reserved|cached)|memory_stats|mem_get_info|"
    r"memory_stats_as_nested_dict|utilization|memory_usage)$"
    r"|^psutil\.(virtual_memory|swap_memory|cpu_percent|Process)$"
    r"|^(pynvml|py3nvml\.py3nvml)\.nvmlDeviceGet(MemoryInfo|UtilizationRates|PowerUsage|Temperature)$"
)
_HEAVY = regex(
    r"^torch\.cuda\.(memory\.)?(memory_summary|memory_snapshot|_record_memory_history|_snapshot|list_gpu_processes)$"
)
_PROCESSES = frozenset(
    (
        "subprocess.run subprocess.call subprocess.check_output subprocess.check_call "
        "subprocess.Popen subprocess.getoutput "
        "os.system os.popen"
    ).split()
)
_SETTING = regex(r"(^|_)(v?ram|mem|memory|debug|profile|stats|verbose)(_|$)", re.IGNORECASE)

rule = Rule(
    __name__,
    __doc__,
    code="TL804",
    message="{name} runs every step; collect memory statistics per epoch or every N steps.",
    severity="info",
    default=False,
    effect="host",
    triggers=(
        b"memory_",
        b"mem_get_info",
        b"_memory",
        b"utilization",
        b"_snapshot",
        b"nvidia-smi",
        b"nvml",
        b"psutil",
    ),
    equivalence="bitwise",
    runs="train",
)


def _severity(module: Module, node: cst.Call) -> Severity | None:
    """Return how much a call costs that asks for memory or processes; None for any other call."""
    name = module.called(node)
    if (
        _HEAVY.match(name)
        or (name in _PROCESSES and _asks_the_driver(module, node))
        or _sleeps(node, name)
    ):
        return Severity.WARNING
    return Severity.INFO if _STATISTICS.match(name) else None


@rule.on(cst.Call, about=_severity)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    name = module.called(node)
    words = "nvidia-smi" if name in _PROCESSES else f"{name}()"
    # Whether a condition around the call speaks of memory, debugging or statistics.
    tests = [
        t
        for t, needed in conditions_around(module, node)
        if needed and not isinstance(t, cst.UnaryOperation)
    ]
    if not any(_SETTING.search(word) for test in tests for word in module.names_in(test)):
        yield Hit(node, {"name": words}, severity=_severity(module, node))


def _asks_the_driver(module: Module, node: cst.Call) -> bool:
    strings = (s for arg in node.args for s in module.within(arg, cst.SimpleString))
    return any("nvidia-smi" in s.raw_value for s in strings)


def _sleeps(node: cst.Call, name: str) -> bool:
    """Say whether ``psutil.cpu_percent`` gets an interval to wait."""
    match node.args:
        case [cst.Arg(keyword=None | cst.Name("interval"), value=value), *_] if (
            name == "psutil.cpu_percent"
        ):
            return getattr(value, "value", "") not in ("None", "0", "0.0")
    return False
