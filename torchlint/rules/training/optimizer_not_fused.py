"""Let the optimizer update all tensors together

## Why
An optimizer written as a loop over tensors launches several small kernels for each of them.
`foreach` does one operation for all tensors at once, `fused=True` the whole update in one kernel;
the order of speed is fused, foreach, for-loop (torch.optim docs). On CUDA foreach is the default,
on the CPU the for-loop is. A fused optimizer also takes the loss scale itself: for every other one
`GradScaler.step` reads from the device whether a gradient was infinite, each step.

Flagged: `foreach=False`; an update loop written by hand for an algorithm that torch.optim has; the
AdamW of older versions of transformers, which is such a loop; and Adam or AdamW, over the
parameters of a model that is on the accelerator by then, that a GradScaler steps. A plain
`AdamW(...)` uses foreach on CUDA and is left alone. `fused=True` is offered from torch 2.8 on
(`target-torch`), as older versions had bugs.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
batches = [torch.randn(8, 8, device=device) for _ in range(3)]
```

## Bad
```python
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
for x in batches:
    model(x).sum().backward()
    optimizer.step()
```

## Good
```python
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x in batches:
    model(x).sum().backward()
    optimizer.step()
```

## Leave alone
Without a GradScaler the default is foreach on CUDA, which is most of the way.
```python
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x in batches:
    model(x).sum().backward()
    optimizer.step()
```

A choice that has been made.
```python
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
scaler.step(optimizer)
```

Code on the CPU alone, where the loop is the default.
```python
def on_the_cpu(network: nn.Module):
    return torch.optim.Adam(network.to("cpu").parameters(), lr=1e-3)
```

## Fix safety
No fix is offered: the sums are rounded in another order; foreach needs memory for intermediate
values, and a fused optimizer raises for parameters that are sparse, complex or not on a supported
device.

## Measure
Timed is `step()` alone, for a model with many small parameters. On a CPU no gain is expected: the
for-loop is the default there. What is saved on a GPU is launches of small kernels.
```python
layers = [layer for _ in range(15) for layer in (nn.Linear(32, 32), nn.LayerNorm(32))]
model = nn.Sequential(*layers).to(device)
batches = [torch.randn(8, 32, device=device)]
```

```python
optimizer.step()
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, inferred
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import base_names
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import argument_for, attr_of, has_star, is_name
from torchlint.semantic.time.step_overhead import over_parameters
from torchlint.semantic.torch import ops
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.value import ACCEL, CUDA

_BUILT_IN = ops.having("optimizer", "foreach")
_CLASSES = ops.dotted("optimizer", "foreach")
_FUSED = ops.dotted("optimizer", "fused")
_CHOICES = ("fused", "foreach", "capturable", "differentiable")
_OWN = regex(
    rf"^_*(plain|my|custom|simple|naive)?_?({'|'.join(_BUILT_IN)})_?(legacy|optimizer)?$",
    re.IGNORECASE,
)
_OPTIMIZERS = frozenset(("torch.optim.Optimizer", "torch.optim.optimizer.Optimizer"))
_UPDATES = ops.having("in-place", "arithmetic")
_LEAST = 3
_SPARSE = regex(r"sparse\s*=\s*True|SparseAdam|register_step_(pre|post)_hook")
_FOREACH = (
    "foreach=False updates one tensor after the other; the default does all tensors at "
    "once on CUDA."
)
_LOOP = (
    "a hand-written {name} runs many small kernels for every tensor; torch.optim.{name} "
    "updates all tensors at once."
)
_TRANSFORMERS = (
    "transformers' AdamW updates one tensor after the other; torch.optim.AdamW does all at once on "
    "CUDA (with eps=1e-6, weight_decay=0.0 where they are left out)."
)
_CORRECTS = " It always corrects the bias, which `correct_bias` may switch off here."

rule = Rule(
    __name__,
    __doc__,
    code="TL506",
    message=(
        "{name}: fused=True runs the update in one kernel, and spares GradScaler its host "
        "read each step."
    ),
    severity="info",
    default=True,
    effect="none",
    triggers=(b"optim", b"Optimizer", b"AdamW"),
)


@rule.call(*_CLASSES)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    name = module.called(node)
    if not on_accelerator(module) or has_star(node):
        return
    given = {arg.keyword.value: arg for arg in node.args if arg.keyword is not None}
    choices = [choice for choice in _CHOICES if choice in given]
    if choices == ["foreach"] and is_name(given["foreach"].value, "False"):
        yield Hit(given["foreach"], message=_FOREACH)
    elif name in _FUSED and not choices and _on_device(module, node) and _is_scaled(module, node):
        yield Hit(node, {"name": name.rpartition(".")[2]})


@rule.call("transformers.AdamW", "transformers.optimization.AdamW")
def check_transformers(node: cst.Call, module: Module) -> Iterator[Hit]:
    if on_accelerator(module):
        asked = argument_for(node, 5, "correct_bias")
        corrects = asked is None or is_name(asked, "True")
        yield Hit(node, message=_TRANSFORMERS if corrects else f"{_TRANSFORMERS}{_CORRECTS}")


@rule.on(cst.For)
def check_loop(node: cst.For, module: Module) -> Iterator[Hit]:
    cls, function = module.class_of(node), module.function(node)
    if (
        cls is None
        or function is None
        or function.name.value != "step"
        or over_parameters(module, node) is None
    ):
        return
    own = _OWN.match(cls.name.value)
    if (
        own is None
        or not _OPTIMIZERS.intersection(base_names(module, cls))
        or any("foreach" in name.value for name in module.within(cls, cst.Name, nested=True))
    ):
        return
    calls = (c.func for c in module.within(node.body, cst.Call))
    count = sum(attr_of(func) in _UPDATES for func in calls)
    if count >= _LEAST:
        name = next(name for name in _BUILT_IN if name.lower() == own[2].lower())
        yield Hit(node, {"name": name}, message=_LOOP)


def _on_device(module: Module, node: cst.Call) -> bool:
    """Say whether the optimizer gets the parameters of one model that is on the accelerator by
    then."""
    match node.args:
        case [cst.Arg(cst.Call(cst.Attribute(model, cst.Name("parameters")))), *_]:
            there = inferred(module, model).device in (CUDA, ACCEL)
            return there and not mentions(module, _SPARSE)
    return False


def _is_scaled(module: Module, node: cst.Call) -> bool:
    """Say whether a GradScaler of this file steps the optimizer, by the name that it gets here."""
    home = module.small_statement(node)
    if not isinstance(home, cst.Assign) or home.value is not node:
        return False
    name = dotted_text(home.targets[0].target)
    scope = (
        module.function(node) if name is not None and "." not in name else module.class_of(node)
    ) or module.root
    for call in module.within(scope, cst.Call, nested=True):
        match call:
            case cst.Call(cst.Attribute(scaler, cst.Name("step")), [cst.Arg(passed), *_]) if (
                name is not None and dotted_text(passed) == name
            ):
                if inferred(module, scaler).kind == "scaler":
                    return True
    return False
