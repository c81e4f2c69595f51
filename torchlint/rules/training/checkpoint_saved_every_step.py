"""Save now and then, not in every training step

## Why
Saving a model waits for the device, copies all parameters to the host, pickles them and writes them
to disk (notes on serialization semantics of the PyTorch docs); nothing trains meanwhile. Plots and
array files on every step cost the same kind of pause. In a run with several processes each rank
writes, and to the same file. A checkpoint per epoch, or every thousand steps, loses little when a
run dies.

Flagged: a call that writes a file (`torch.save`, `save_pretrained`, `save_checkpoint`,
`torch.distributed.checkpoint.save`, `pickle.dump`, `numpy.save`, `savefig`) in the body of a
training step. As info where a condition on the loss or a score decides. Silent for data and figures
that each go to a file of their own: they are what the steps are run for.

## Setup
```python
import os

import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(3)]
loss_fn = nn.MSELoss()
path = os.devnull
```

## Bad
```python
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
    torch.save(model.state_dict(), path)
```

## Good
```python
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()
    if step % 1000 == 0:
        torch.save(model.state_dict(), path)
```

## Leave alone
Once per epoch.
```python
for epoch in range(2):
    for x, y in loader:
        loss_fn(model(x), y).backward()
        optimizer.step()
    torch.save(model.state_dict(), path)
```

At the last batch.
```python
for step, (x, y) in enumerate(loader):
    loss_fn(model(x), y).backward()
    optimizer.step()
    if step == len(loader) - 1:
        torch.save(model.state_dict(), path)
```

## Fix safety
No fix: how much work may be lost when a run dies is a choice.

## Measure
Timed are 20 steps, which save after each of them or once; the file is `os.devnull`, so no disk is
waited for. A gain is expected on a CPU and on a GPU, where each save also waits for the device.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.randn(16, 64, device=device), torch.randn(16, 1, device=device)) for _ in range(20)]
```
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, Severity, conditions_around, heat_of, inferred
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import string
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import LOOPS, last_small, method_called
from torchlint.semantic.data.replicas import replica_wraps

_CALLS = frozenset(
    (
        "torch.save torch.distributed.checkpoint.save "
        "torch.distributed.checkpoint.state_dict_saver.save pickle.dump "
        "cloudpickle.dump dill.dump joblib.dump numpy.save numpy.savez numpy.savez_compressed "
        "numpy.savetxt "
        "matplotlib.pyplot.savefig safetensors.torch.save_file"
    ).split()
)
_METHODS = frozenset(("save_pretrained", "save_checkpoint", "savefig"))
_SCORE = regex(r"loss|best|acc|score|metric|error|reward|psnr|fid|auc|improv", re.IGNORECASE)
_RANK = regex(r"rank|main_process|master|distributed|world|local", re.IGNORECASE)
_SAVE = regex(
    r"save|ckpt|checkpoint|dump|snapshot|write|store|plot|vis|draw|log|debug", re.IGNORECASE
)
_DATA = ("tensor", "batch", "ndarray", "tuple", "list")
_APPENDS = regex(r"a[bt+]*")
"""The mode of a file that is written behind what it holds."""
_BUFFER = regex(r"buf|stream|bytes", re.IGNORECASE)

rule = Rule(
    __name__,
    __doc__,
    code="TL508",
    message="{name}() runs on every step{ranks}; save every N steps or per epoch.",
    severity="warning",
    default=True,
    effect="host",
    triggers=(b"save", b"dump"),
    equivalence="bitwise",
    runs="train",
)


def _writes(module: Module, node: cst.Call) -> bool:
    """Say whether a call writes a file."""
    method = method_called(node)
    return module.name(node.func) in _CALLS or (method in _METHODS and not callees_of(module, node))


@rule.on(cst.Call, about=_writes, calls=(*_CALLS, *(f".{name}" for name in _METHODS)))
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    heat = heat_of(module, node)
    places = [node, *(why.node for why in heat.why if isinstance(why.node, cst.Call))]
    loop = next((why.node for why in heat.why if isinstance(why.node, LOOPS)), None)
    tests = [test for place in places for test, _ in conditions_around(module, place, loop)]
    if _into_memory(module, node) or _leaves(module, places, loop):
        return
    if _result(module, node) or _appends(module, node) or _loaded_again(module, node):
        return
    decided = [test for test in tests if _decides(module, test)]
    if not all(any(_SCORE.search(n) for n in module.names_in(test)) for test in decided):
        return
    guarded = any(_RANK.search(n) for test in tests for n in module.names_in(test))
    together = module.called(node).startswith("torch.distributed.")  # All ranks have to join.
    ranks = ", on every rank" if replica_wraps(module) and not guarded and not together else ""
    severity = Severity.INFO if decided else None
    yield Hit(node, {"name": module.shown(node.func), "ranks": ranks}, severity=severity)


def _into_memory(module: Module, node: cst.Call) -> bool:
    """Say whether a call writes into a buffer rather than a file."""
    return any(
        module.called(sole_definition(module, arg.value)).startswith("io.")
        or any(map(_BUFFER.search, module.names_in(arg.value)))
        for arg in node.args[1:2]
    )


def _result(module: Module, node: cst.Call) -> bool:
    """Say whether a call writes data, or a figure, each time to another file: no later state of
    the same, but what the step is run for."""
    name = module.called(node) or method_called(node) or ""
    figure, values = name.endswith("savefig"), [arg.value for arg in node.args]
    data, target = values[:1], values[1:2]
    if figure or name.startswith("numpy."):
        data, target = target, data
    known = figure or any(inferred(module, each).kind in _DATA for each in data)
    return known and any(_counted_up(module, each) for each in target)


def _counted_up(module: Module, target: cst.BaseExpression) -> bool:
    """Say whether a loop binds a name that says which file it is, or counts it up."""
    return any(
        isinstance(bound, (cst.AugAssign, *LOOPS))
        for place in _opened(module, target) or [target]
        for name in module.within(place, cst.Name)
        if not module.is_label(name)
        for bound in definitions_of(module, name)
    )


def _opened(module: Module, target: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what a ``with`` statement opens and binds to a name."""
    made = definitions_of(module, target) if isinstance(target, cst.Name) else []
    return [item.item for each in made if isinstance(each, cst.With) for item in each.items]


def _appends(module: Module, node: cst.Call) -> bool:
    """Say whether a call writes behind what a file holds already: a record of the step, of which
    nothing is written again."""
    opened = (place for arg in node.args for place in _opened(module, arg.value))
    given = (arg for call in opened if isinstance(call, cst.Call) for arg in call.args[1:])
    return any(_APPENDS.fullmatch(string(arg.value) or "") for arg in given)


def _loaded_again(module: Module, node: cst.Call) -> bool:
    """Say whether the same loop loads the file: it holds what has no room elsewhere."""
    loop = module.loop(node)
    loads = module.within(loop, cst.Call) if loop is not None else ()
    return any(
        given.value.deep_equals(target.value)
        for each in loads
        if module.called(each).endswith(".load")
        for given in each.args[:1]
        for target in node.args[1:2]
    )


def _leaves(module: Module, places: Sequence[cst.CSTNode], loop: cst.CSTNode | None) -> bool:
    """Say whether the block of one of the places ends the loop: then it is the last save."""
    around = [
        above
        for place in places
        for above in takewhile(lambda a: a is not loop, module.ancestors(place))
    ]
    return any(
        isinstance(block, cst.IndentedBlock)
        and isinstance(module.parent(block), (cst.If, cst.Else))
        and isinstance(last_small(block), (cst.Break, cst.Return, cst.Raise))
        for block in around
    )


def _decides(module: Module, test: cst.BaseExpression) -> bool:
    """Say whether a condition picks the steps that save; a rank or a plain flag about other things
    does not."""
    names = module.names_in(test)
    if any(_RANK.search(name) for name in names):
        return False
    plain = not module.contains(test, cst.Comparison, cst.Call)
    return not plain or any(_SAVE.search(name) for name in names)
