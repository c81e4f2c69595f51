"""Let DDP skip the search for unused parameters

## Why
With `find_unused_parameters=True` DistributedDataParallel walks the autograd graph from the outputs
after each forward pass, to find parameters that will get no gradient. PyTorch's notes on DDP ask to
set it only where it is needed, because of that extra work, and the reducer itself warns at run time
when it never finds any. The gain is small on most models, which is why this rule is not on by
default.

Flagged: a literal `True` for a model whose class stands in the same file and can leave no parameter
out: no branch in what its `forward` runs, nothing frozen, one optimizer.

## Setup
```python
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
```

## Bad
```python
model = DistributedDataParallel(Net(), find_unused_parameters=True)
```

## Good
```python
model = DistributedDataParallel(Net())
```

## Leave alone
A branch in `forward` may leave parameters out.
```python
class Switching(Net):
    def forward(self, x):
        if x.mean() > 0:
            return self.second(self.first(x))
        return self.first(x)


model = DistributedDataParallel(Switching(), find_unused_parameters=True)
```

Frozen parts, as with adapters.
```python
def adapt():
    net = Net()
    net.first.requires_grad_(False)
    return DistributedDataParallel(net, find_unused_parameters=True)
```

A model from elsewhere.
```python
def wrap(model):
    return DistributedDataParallel(model, find_unused_parameters=True)
```

## Fix safety
Suggestion: if a parameter gets no gradient after all, DDP stops with "Expected to have finished
reduction in the prior iteration".

## Measure
A forward and a backward pass of a very small network in a single process. A gain can be expected on
a CPU, too: what is saved is the walk over the graph, which counts less beside larger layers.
```python
torch.manual_seed(0)
x = torch.randn(8, 4)
```

```python
model(x).sum().backward()
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    arguments_of,
    inferred,
    keyword_argument,
)
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.scopes import local_class, method_of
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import Function, attr_of, is_name
from torchlint.semantic.data.replicas import replica_wraps

_DDP = "torch.nn.parallel.DistributedDataParallel"
_BRANCHES = (cst.If, cst.IfExp, cst.Match, cst.Try, cst.While, cst.Break, cst.Continue)
_PARTIAL = regex(r"requires_grad|freez|frozen|\blora|peft|adapter", re.IGNORECASE)

rule = Rule(
    __name__,
    __doc__,
    code="TL306",
    message="find_unused_parameters=True walks the autograd graph every iteration; drop it if "
    "the reducer warns that none "
    "are unused.",
    severity="info",
    default=False,
    effect="none",
    triggers=(b"find_unused_parameters",),
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    search = keyword_argument(module, node, "find_unused_parameters")
    static = keyword_argument(module, node, "static_graph")
    if not is_name(search, "True") or is_name(static, "True"):
        return
    if _wraps(module, node):
        kept = [arg for arg in node.args if arg.value is not search]
        args = [
            *kept[:-1],
            *(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in kept[-1:]),
        ]
        edit = Replace(node, node.with_changes(args=args))
        yield Hit(node, fix=Fix((edit,), Safety.SUGGESTION, "Drop find_unused_parameters"))


def _wraps(module: Module, node: cst.Call) -> bool:
    """Say whether a call wraps a model of this file that uses all its parameters."""
    model = (
        arguments_of(module, node, _DDP).value("module") if node in replica_wraps(module) else None
    )
    cls = inferred(module, model).node if model is not None else None
    return isinstance(cls, cst.ClassDef) and _uses_all(module, cls, ()) and not _partial(module)


def _partial(module: Module) -> bool:
    """Say whether something is frozen, or several optimizers share the work."""
    calls = module.nodes(cst.Call)
    optimizers = sum(inferred(module, call).kind == "optimizer" for call in calls)
    return optimizers > 1 or bool(mentions(module, _PARTIAL))


def _uses_all(module: Module, cls: cst.ClassDef, seen: tuple[cst.ClassDef, ...]) -> bool:
    """Say whether each pass through a module reads all that its constructor builds, on its only
    path."""
    start = method_of(module, cls, "training_step") or method_of(module, cls, "forward")
    setup = method_of(module, cls, "__init__")
    if start is None or setup is None or cls in seen:
        return False
    passes = _reached(module, start, [])
    if any(True for method in passes for _ in module.within(method.body, *_BRANCHES)):
        return False
    reads = {n.attr.value for m in passes for n in module.within(m.body, cst.Attribute)}
    built = [
        node
        for method in _reached(module, setup, [])
        for node in module.within(method.body, cst.Assign)
    ]
    return all(_is_used(module, node, reads, (*seen, cls)) for node in built)


def _reached(module: Module, method: Function, found: list[Function]) -> list[Function]:
    """Return a method and those of the file that it calls, directly or not, added to those that are
    found already."""
    if method in found:
        return found
    found.append(method)
    for call in module.within(method.body, cst.Call):
        for callee in callees_of(module, call):
            _reached(module, callee, found)
    return found


def _is_used(
    module: Module, part: cst.Assign, reads: set[str], seen: tuple[cst.ClassDef, ...]
) -> bool:
    """Say whether what a constructor stores has no parameters, or is read, and lets none of its own
    parts out."""
    target = part.targets[0].target
    called = list(module.within(part.value, cst.Call))
    if not called:
        return inferred(module, part.value).kind != "module"
    for call in called:
        cls = local_class(module, call.func)
        known = module.called(call).partition(".")[0] in ("torch", "builtins", "math")
        if not (_uses_all(module, cls, seen) if cls is not None else known):
            return False
    return attr_of(target) in reads
