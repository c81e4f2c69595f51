"""Let the ranks meet for logging every N steps only

## Why
A collective ends when the slowest rank has come to it, so one on every step makes all ranks wait
for each step's straggler, and reading the result makes the host wait for the device as well.
`all_gather_object` also pickles its argument. DDP's backward pass is already a point where the
ranks meet (performance tuning guide of PyTorch, on load balance in distributed training); for a
curve in a log, a value every N steps is enough.

Flagged: a barrier in a training step, and a `torch.distributed` collective there whose result is
only printed, logged or averaged for display, also within a function of the project that reduces
what it is given (`reduce_tensor(loss)`). In an evaluation, such a call whose result is read every N
batches alone.

## Setup
```python
import torch
import torch.distributed as dist
from torch import nn

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(3)]
loss_fn = nn.MSELoss()
```

## Bad
```python
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    shown = loss.detach().clone()
    dist.all_reduce(shown)
    print(shown.item() / dist.get_world_size())
```

## Good
```python
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:  # on all ranks alike
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        print(shown.item() / dist.get_world_size())
```

## Leave alone
Once in a hundred steps.
```python
for step, (x, y) in enumerate(loader):
    loss_fn(model(x), y).backward()
    optimizer.step()
    if step % 100 == 0:
        dist.barrier()
```

A collective that feeds the loss.
```python
for x, y in loader:
    out = model(x)
    total = out.detach().clone()
    dist.all_reduce(total)
    loss = loss_fn(out - total, y)
    loss.backward()
    optimizer.step()
```

## Fix safety
No fix: the interval is a choice, and it must be the same on all ranks; one that skips a collective
leaves the others waiting for ever.

## Measure
Fifty steps in a single process. What is saved there is the cost of the calls themselves; with
several processes, the wait for the slowest of them comes on top.
```python
torch.manual_seed(0)
loader = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(50)]
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, conditions_around, heat_of, keyword_argument
from torchlint.semantic.code.destinations import destinations
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.tree import attr_of, last_name
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import SHOWING, called
from torchlint.semantic.uses.graph_use import GraphOutcome, graph_end
from torchlint.semantic.values.definitions_behind import functions, returned

_PACKAGES = ("torch.distributed", "torch.distributed.distributed_c10d")
_BARRIERS = ("barrier", "monitored_barrier")
# Where the result lands: the position of the argument that a collective fills, and its name.
_RESULTS = ops.values("fills")
_METER = regex(r"meter|metric|loss|acc|avg|log|stat", re.IGNORECASE)
_ONE_RANK = regex(r"rank|main_process|master", re.IGNORECASE)
_SEVERAL = regex(r"rank|main_process|master|world|distributed", re.IGNORECASE)
_WAIT = (
    "{collective}() on every step makes all ranks wait for the slowest; backward() lets them "
    "meet already."
)
_HELPERS = regex(r"reduce|gather")
_HELPED = "{collective}() lets all ranks meet on every step and only serves logging; {instead}."
_NTH = "do it every N steps"
_WHERE_READ = "do it where its result is read, on all ranks alike"

rule = Rule(
    __name__,
    __doc__,
    code="TL304",
    message="{collective}() on every step only serves logging; do it every N steps.",
    severity="info",
    default=True,
    effect="gpu",
    triggers=(
        b"barrier",
        b"all_reduce",
        b"reduce",
        b"all_gather",
        b"gather_object",
        b"broadcast_object_list",
        b"wait_for_everyone",
    ),
    equivalence="opt-in",
    runs="train",
)


@rule.call(*(f"{package}.{name}" for package in _PACKAGES for name in _BARRIERS))
@rule.method("wait_for_everyone")
def check_wait(node: cst.Call, module: Module) -> Iterator[Hit]:
    collective = (module.name(node.func) or "wait_for_everyone").rpartition(".")[2]
    if not _is_needed(module, node):
        yield Hit(node, {"collective": collective}, message=_WAIT)


@rule.call(*(f"{package}.{name}" for package in _PACKAGES for name in _RESULTS))
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    collective = module.called(node).rpartition(".")[2]
    if _only_logged(module, node, collective):
        yield Hit(node, {"collective": collective})


def _reduces(_: Module, node: cst.Call) -> bool:
    """Say whether a call speaks of reducing or gathering, by its name."""
    return _HELPERS.search(last_name(node.func)) is not None


@rule.on(cst.Call, about=_reduces, runs="batch")
def check_helper(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a call of a function of the project in which all ranks work out what is only logged."""
    if not _meets_inside(module, node):
        return
    reads: list[cst.CSTNode] = [node]
    line = module.small_statement(node)
    match line:
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            reads = [*readers_of(module, line, name)] if value is node else []
    if not _all_shown(module, reads):
        return
    heat = heat_of(module, node)
    late = all(throttled(module, read, heat.loop) for read in reads)
    if heat.train or late:
        words = {"collective": module.shown(node.func)}
        yield Hit(node, {**words, "instead": _WHERE_READ if late else _NTH}, message=_HELPED)


def _meets_inside(module: Module, node: cst.Call) -> bool:
    """Say whether each function that a call may reach gives back what a collective has filled in
    there."""
    found = functions(module, node)
    return bool(found) and all(
        any(
            _RESULTS.get(name.rpartition(".")[2]) and name.startswith(_PACKAGES)
            for call in where.within(function, cst.Call)
            for name in [where.called(call)]
        )
        and returned(where, function)
        for where, function in found
    )


def _is_needed(module: Module, node: cst.Call) -> bool:
    """Say whether a barrier waits for what one rank does for all, or stands behind a condition of
    its own."""
    if any(
        isinstance(test, cst.Comparison) and not _speaks(module, test, _SEVERAL)
        for test, _ in conditions_around(module, node, heat_of(module, node).loop)
    ):
        return True
    return any(
        isinstance(line, cst.If) and _speaks(module, line.test, _ONE_RANK)
        for line in module.tree.beside(node)[0]
    )


def _speaks(module: Module, test: cst.CSTNode, words: re.Pattern[str]) -> bool:
    return any(words.search(name) for name in module.names_in(test))


def _only_logged(module: Module, node: cst.Call, collective: str) -> bool:
    """Say whether all that becomes of a collective's result is a line in a log."""
    position, _, keyword = _RESULTS[collective].partition(":")
    given = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    result = (
        given[int(position)]
        if len(given) > int(position)
        else keyword_argument(module, node, keyword)
    )
    if not isinstance(result, cst.Name):
        return False
    scope = module.scope(node)
    reads = [read for read in reads_of(module, scope, result.value) if module.before(node, read)]
    return _all_shown(module, reads)


def _all_shown(module: Module, reads: Sequence[cst.CSTNode]) -> bool:
    uses = [_use(module, read) for read in reads]
    return max(uses, default=None) is GraphOutcome.SHOWN and not any(
        _decides(module, read) for read in reads
    )


def _use(module: Module, read: cst.CSTNode) -> GraphOutcome:
    """Return how far a result gets; ``.item()`` is looked through, and an average for display
    counts as shown."""
    match module.parent(read):
        case cst.Attribute(attr=cst.Name("item")) as attribute:
            call = module.parent(attribute)
            read = call if isinstance(call, cst.Call) else read
    found, place = graph_end(module, read)
    outer = next(
        (a for a in module.ancestors(place) if isinstance(a, (cst.Call, cst.BaseSmallStatement))),
        None,
    )
    shown = isinstance(outer, cst.Call) and (
        _meters(module, outer) or called(attr_of(outer.func), SHOWING)
    )
    return GraphOutcome.SHOWN if shown else found


def _meters(module: Module, call: cst.Call) -> bool:
    func = call.func
    meters = attr_of(func) in ("update", "add", "append")
    return meters and any(_METER.search(name) for name in module.names_in(func))


def _decides(module: Module, read: cst.CSTNode) -> bool:
    """Say whether more than a line in a log is computed from a read: a condition, on which the
    ranks agree by it, what a function gives back, or what an object or a container keeps."""
    return any(
        isinstance(place, (cst.If, cst.While, cst.IfExp, cst.Return, cst.Yield))
        or (
            isinstance(place, cst.Assign)
            and not all(isinstance(each.target, cst.Name) for each in place.targets)
        )
        for place in destinations(module, read)
    )
