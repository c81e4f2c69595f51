"""Reduce a tensor with its own method

## Why
Python's `sum`, `max`, `min`, `any`, `all` and `sorted` know only how to iterate. Over a tensor that
makes one view and one operation per element, launched from Python; `max`, `min`, `any`, `all` and
`sorted` also need the truth of a tensor for every comparison, and on a GPU each of those waits for
the device (the source of `Tensor.__iter__`, which unbinds the tensor, and of `Tensor.__bool__`).
The methods `sum(0)`, `max()`, `min()`, `any()`, `all()` and `sort()` are one kernel each.

Flagged: one of these builtins with a single argument that is certainly one tensor, in code that
runs every step or sample; elsewhere as an `info`, if the tensor is on the device. Where Python
decides by `any` or `all` of a tensor on the device in every step, the method alone would be half a
repair: it waits once, which TL101 and TL602 find. So is `max`, `min` or `sorted` of a list that a
loop fills with tensors of the device, as the scores of a beam search: Python asks for the truth of
each comparison.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
```

## Bad
```python
class Scores(nn.Module):
    def forward(self, x):
        scores = model(x).flatten()
        best = max(scores)
        total = sum(scores)
        return total, total + best
```

## Good
```python
class Scores(nn.Module):
    def forward(self, x):
        scores = model(x).flatten()
        best = scores.max()
        total = scores.sum(0)
        return total, total + best
```

## Leave alone
A list, tuple or generator of tensors has no such method; a few terms are added in Python as well as
anywhere.
```python
class Weighted(nn.Module):
    def forward(self, x):
        parts = [model(x).mean(), model(-x).mean()]
        return sum(parts) + sum(w * p for w, p in zip((0.5, 2.0), parts))
```

The larger of two numbers is no reduction (of two tensors see TL602).
```python
class Clipped(nn.Module):
    def forward(self, x):
        scores = model(x).flatten()
        return scores[: max(len(x), 4)]
```

## Fix safety
Unsafe: the method of a float tensor adds in another order; that of a small integer type gives
int64; `max` and `min` see a NaN wherever it stands, and the builtins only at some places; of an
empty tensor `sum` gives 0 and not a tensor. `sorted` is a suggestion: it gives a list, and
`sort().values` a tensor. So are `any` and `all` where the step would still wait for the result; an
`assert` gets the method.

## Measure
Timed are ten forward passes over 256 scores. A gain is expected on a CPU, where one view and one
operation per element are saved, and more of it on a GPU, where most of them wait for the device.
```python
x = torch.randn(64, 8, device=device)
```

```python
for _ in range(10):
    total, more = Scores()(x)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.fixes.expressions import as_receiver
from torchlint.rule import (
    Fix,
    Grade,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    on_device,
)
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.uses.elements import holds_device_tensors, one_tensor

_CALLS = {
    "builtins.sum": ".sum(0)",
    "builtins.max": ".max()",
    "builtins.min": ".min()",
    "builtins.any": ".any()",
    "builtins.all": ".all()",
    "builtins.sorted": ".sort().values",
}
_STILL_WAITS = (
    "builtin {name}() asks the device for each element of `{tensor}`; `{method}` waits once, and "
    "only a decision on the device (torch.where, a mask) does not wait."
)
_OF_LIST = (
    "builtin {name}() compares the device tensors in `{tensor}` one by one, and waits each time; "
    "stack them and ask once: torch.stack({tensor}).{method}."
)
_COMPARES = {"builtins.max": "argmax()", "builtins.min": "argmin()", "builtins.sorted": "argsort()"}
_NOTE = "Rounding, the integer type of a sum, and what NaN or an empty tensor give may differ."

rule = Rule(
    __name__,
    __doc__,
    code="TL605",
    message=(
        "builtin {name}() goes through the elements of `{tensor}` in Python; use `{method}` "
        "of the tensor."
    ),
    severity="warning",
    default=True,
    effect="launch",
    triggers=(b"sum(", b"max(", b"min(", b"any(", b"all(", b"sorted("),
    runs="once",
)


@rule.call(*_CALLS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if len(node.args) != 1 or node.args[0].star:
        return
    name, tensor = module.called(node), node.args[0].value
    if not one_tensor(module, tensor):
        if name in _COMPARES and _grown_on_device(module, node, tensor):
            words = {"name": name.rpartition(".")[2], "tensor": module.shown(tensor)}
            yield Hit(node, {**words, "method": _COMPARES[name]}, message=_OF_LIST)
        return
    often = heat_of(module, node).grade >= Grade.SAMPLE
    if not often and on_device(module, tensor) is not True:
        return
    words = {
        "name": name.rpartition(".")[2],
        "tensor": module.shown(tensor),
        "method": _CALLS[name],
    }
    # Whether the method would still make every step wait for one truth value.
    asked = module.name(node.func) in ("builtins.any", "builtins.all")
    checks = isinstance(module.parent(node), cst.Assert)
    waits = asked and not checks and heat_of(module, node).hot and bool(on_device(module, tensor))
    fix = _fix(module, node, tensor, waits)
    message = _STILL_WAITS if waits else None
    yield Hit(node, words, fix, None if often else Severity.INFO, message)


def _grown_on_device(module: Module, node: cst.Call, held: cst.BaseExpression) -> bool:
    """Say whether a step compares the tensors of the device with which it fills a list."""
    if not isinstance(held, cst.Name) or not heat_of(module, node).hot:
        return False
    return holds_device_tensors(module, held) and any(
        method_called(call) in ("append", "extend")
        for read in reads_of(module, module.scope(node), held.value)
        if isinstance(call := module.parent(module.parent(read) or read), cst.Call)
    )


def _fix(module: Module, node: cst.Call, tensor: cst.BaseExpression, waits: bool) -> Fix:
    name = module.called(node)
    held = as_receiver(tensor)
    new: cst.BaseExpression
    if name == "builtins.sorted":
        new = cst.Attribute(cst.Call(cst.Attribute(held, cst.Name("sort"))), cst.Name("values"))
        return Fix((Replace(node, new),), Safety.SUGGESTION, "Sort the tensor")
    dim = [cst.Arg(cst.Integer("0"))] if name == "builtins.sum" else []
    new = cst.Call(cst.Attribute(held, cst.Name(name.rpartition(".")[2])), dim)
    if name in ("builtins.any", "builtins.all") and not _is_tested(module, node):
        new = cst.Call(cst.Name("bool"), [cst.Arg(new)])
    safety, note = (Safety.SUGGESTION, "") if waits else (Safety.UNSAFE, _NOTE)
    return Fix((Replace(node, new),), safety, "Use the method of the tensor", note)


def _is_tested(module: Module, node: cst.Call) -> bool:
    """Say whether only the truth of the result is asked for."""
    match module.parent(node):
        case cst.If() | cst.While() | cst.Assert() | cst.UnaryOperation(cst.Not()):
            return True
        case cst.IfExp(test=test):
            return test is node
    return False
