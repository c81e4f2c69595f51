"""Profile a few steps, not the whole training run

## Why
A profiler records every operation; `with_stack`, `record_shapes` and `profile_memory` add to that
("Enabling shape and stack tracing results in additional overhead", docs of torch.profiler), and the
events of a run without an end fill the memory. `schedule(wait=..., warmup=..., active=...)` with
`step()` records a few steps and costs next to nothing in between.

Flagged: a profiler without a schedule (also `cProfile`, `tracemalloc` and the decorators of
`memory_profiler` and `line_profiler`) around a training loop that nothing ends after a few steps,
unconditionally. `record_function` is left alone: it costs little, but it is not free either when no
profiler runs, so keep it out of loops over elements.

## Setup
```python
import cProfile
import tracemalloc

import torch
from torch import nn
from torch.profiler import profile, schedule

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 8) for _ in range(3)]


def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


def train():
    for x in batches:
        step(x)
```

## Bad
```python
with profile(with_stack=True, profile_memory=True):
    train()
```

## Good
```python
with profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=1)) as profiler:
    for x in batches:
        step(x)
        profiler.step()
```

## Leave alone
A flag decides.
```python
def main(args):
    if args.profile:
        with profile():
            train()
```

A bounded number of steps.
```python
with profile(with_stack=True):
    for _ in range(10):
        step(batches[0])
```

Labels alone: no profiler runs.
```python
for x in batches:
    with torch.profiler.record_function("step"):
        step(x)
```

## Fix safety
No fix is offered: what to profile is yours to decide.

## Measure
Timed are 30 steps: all of them are profiled, or one after a warm-up; starting and ending the
profiler is part of it. A gain is expected on a CPU and on a GPU, and it grows with the number of
steps.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
batches = [torch.randn(8, 8, device=device) for _ in range(30)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, arguments_of, heat_of
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.tree import LOOPS, attr_of, is_name
from torchlint.semantic.time.heat import function_heat
from torchlint.semantic.time.iterations import iteration_count
from torchlint.semantic.time.step_overhead import has_training_loop, on_demand, runs_training

_TORCH = frozenset(
    (
        *("torch.profiler.profile", "torch.profiler.profiler.profile"),
        *("torch.autograd.profiler.profile", "torch.autograd.profiler_legacy.profile"),
    )
)
_OTHERS = frozenset(("cProfile.Profile", "profile.Profile", "tracemalloc.start"))
_ENDS = frozenset(("stop", "disable", "__exit__"))
_EXTRAS = {
    "with_stack": "stacks",
    "record_shapes": "shapes",
    "profile_memory": "memory",
    "with_flops": "flops",
}
_OTHER = "{name} watches the whole training run; switch it on by a flag, for a few steps."
rule = Rule(
    __name__,
    __doc__,
    code="TL802",
    message=(
        "the whole training run is profiled{extras}; use schedule(...) and step(), or switch "
        "it off."
    ),
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"profiler", b"cProfile", b"tracemalloc"),
    equivalence="bitwise",
)


@rule.call(*_TORCH)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    args = arguments_of(module, node, "torch.autograd.profiler.profile")
    enabled = args.value("enabled")
    if args.open or not (enabled is None or is_name(enabled, "True")) or on_demand(module, node):
        return
    schedule = args.value("schedule")
    if (schedule is None or is_name(schedule, "None")) and _is_watched(module, node):
        words = [word for key, word in _EXTRAS.items() if is_name(args.value(key), "True")]
        yield Hit(node, {"extras": f", with {', '.join(words)}" if words else ""})


@rule.call(*_OTHERS)
def check_other(node: cst.Call, module: Module) -> Iterator[Hit]:
    if _is_watched(module, node) and not on_demand(module, node):
        yield Hit(node, {"name": module.called(node)}, message=_OTHER)


@rule.on(cst.Decorator)
def check_decorator(node: cst.Decorator, module: Module) -> Iterator[Hit]:
    made = sole_definition(module, node.decorator)
    name = module.name(made.func if isinstance(made, cst.Call) else node.decorator)
    function = module.parent(node)
    if name not in ("memory_profiler.profile", "line_profiler.LineProfiler") or not isinstance(
        function, cst.FunctionDef
    ):
        return
    trains = function_heat(module, function).train or has_training_loop(module, function.body)
    if trains and not on_demand(module, function.body):
        yield Hit(node.decorator, {"name": name}, message=_OTHER)


def _is_watched(module: Module, node: cst.Call) -> bool:
    """Say whether what is made here is on for a training loop, or for every step of one."""
    repeated = any(isinstance(why.node, LOOPS) for why in heat_of(module, node).why)
    every = repeated and all(iteration_count(module, loop) is None for loop in module.loops(node))
    return any(
        has_training_loop(module, p) or (every and runs_training(module, p))
        for p in _regions(module, node)
    )


def _regions(module: Module, node: cst.Call) -> Iterator[cst.CSTNode]:
    """Yield the code during which the profiler that a call makes is on."""
    home = module.small_statement(node)
    if (around := _entered(module, node)) is not None:
        yield around.body
    elif isinstance(home, cst.Expr) and home.value is node:
        yield from _statements_until_end(module, node, "")
    elif (
        isinstance(home, cst.Assign)
        and home.value is node
        and isinstance(home.targets[0].target, cst.Name)
    ):
        name = home.targets[0].target.value
        for read in reads_of(module, module.scope(node), name):
            if (around := _entered(module, read)) is not None:
                yield around.body
            elif attr_of(module.parent(read)) in ("start", "enable", "__enter__"):
                yield from _statements_until_end(module, read, name)


def _entered(module: Module, node: cst.CSTNode) -> cst.With | None:
    """Return the ``with`` statement of which an expression is a context."""
    around = module.parent(module.parent(node))
    return around if isinstance(around, cst.With) else None


def _statements_until_end(module: Module, node: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    """Yield the statements behind `node` in its block, up to the call that ends the profiler."""
    for part in module.tree.beside(node)[1]:
        if isinstance(part, (cst.FunctionDef, cst.ClassDef)):
            continue
        calls = (c.func for c in module.within(part, cst.Call))
        ends = (f for f in calls if isinstance(f, cst.Attribute) and f.attr.value in _ENDS)
        if any(is_name(f.value, name or "tracemalloc") for f in ends):
            return
        yield part
