"""Leave cuDNN on, and do not ask for autotuning and determinism at once

## Why
With `torch.backends.cudnn.enabled = False` convolutions, pooling, batch norm and recurrent layers
fall back to slower native kernels. It is a switch for debugging that tends to stay. `benchmark =
True` times several convolution algorithms per input shape and keeps the fastest; with
`deterministic = True` only deterministic algorithms may be chosen, so the search costs its time
while the fast ones are ruled out (notes on reproducibility and the `torch.backends` page of the
PyTorch docs).

Flagged: the plain statement `torch.backends.cudnn.enabled = False`, and as an `info` `benchmark =
True` where the same block also sets `deterministic = True`. Silent: cuDNN switched off in a
function that asks a network in evaluation mode for gradients, to explain what it gives, as
recurrent layers of cuDNN have none there.

## Setup
```python
import torch
from torch.backends import cudnn
```

## Bad
```python
torch.backends.cudnn.enabled = False
cudnn.benchmark = True
```

```python
cudnn.benchmark = True
cudnn.deterministic = True
```

## Good
```python
cudnn.benchmark = True
```

```python
cudnn.benchmark = False
cudnn.deterministic = True
```

## Leave alone
Autotuning alone is good for inputs of one size.
```python
cudnn.benchmark = True
```

Determinism alone is what reproducibility asks for.
```python
def seed_everything(seed):
    torch.manual_seed(seed)
    cudnn.deterministic = True
    cudnn.benchmark = False
```

## Fix safety
Unsafe: other kernels are used, so results differ by rounding, and cuDNN's may not be deterministic.
For autotuning beside determinism no edit is offered; one of the two has to go.

## Measure
One convolution. On a CPU no gain is expected, as cuDNN runs on CUDA devices only.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
images = torch.randn(4, 32, 32, 32, device=device)
kernels = torch.randn(32, 32, 3, 3, device=device)
```

```python
out = torch.nn.functional.conv2d(images, kernels)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Remove, Rule, Safety, Severity, conditions_around
from torchlint.semantic.code.tree import is_name, method_called

_FLAGS = "torch.backends.cudnn."
_GRAD = "torch.autograd.grad"
_SPAWN = "torch.multiprocessing.spawn"
_BOTH = (
    "beside cudnn.deterministic, cudnn.benchmark takes the fastest of the deterministic algorithms "
    "alone; leave out what you do not need."
)
_EXPLAINERS = ("shap.", "captum.")
"""Libraries that ask a network for gradients when it is not trained."""
_NOTE = "Results differ by rounding, and some of cuDNN's kernels are not deterministic."

rule = Rule(
    __name__,
    __doc__,
    code="TL406",
    message="{flag} = False disables cuDNN's fast kernels for convolutions and recurrent layers.",
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"cudnn",),
)


@rule.on(cst.Assign)
def check(node: cst.Assign, module: Module) -> Iterator[Hit]:
    flag = _flag(module, node)
    if flag and _of_the_parent(module, node):
        return
    if flag == "enabled" and is_name(node.value, "False"):
        if (
            len(_settings(module, "enabled")) == 1
            and not any(conditions_around(module, node))
            and not _explains(module, node)
        ):
            fix = Fix((Remove(node),), Safety.UNSAFE, "Delete the line", _NOTE)
            yield Hit(node, {"flag": module.shown(node.targets[0].target)}, fix=fix)
    elif flag == "benchmark" and is_name(node.value, "True") and _is_beside(module, node):
        yield Hit(node, message=_BOTH, severity=Severity.INFO)


def _flag(module: Module, node: cst.Assign) -> str:
    """Return the flag of cuDNN that a statement sets, or an empty string."""
    return (
        (module.name(node.targets[0].target) or "").removeprefix(_FLAGS)
        if len(node.targets) == 1
        else ""
    )


def _of_the_parent(module: Module, node: cst.Assign) -> bool:
    """Say whether the function that sets a flag leaves the work to new processes, where the flag
    is not set: they are spawned, and do not run the function."""
    function = module.function(node)
    return function is not None and any(
        module.name(call.func) == _SPAWN and not any(conditions_around(module, call))
        for call in module.within(function.body, cst.Call)
    )


def _explains(module: Module, node: cst.Assign) -> bool:
    """Say whether the function asks a network for gradients that does not train, as one does to
    explain what it gives: cuDNN has none for a recurrent layer in evaluation mode."""
    calls = list(module.within(module.scope(node), cst.Call))
    methods = {method_called(call) for call in calls}
    return any(module.called(call).startswith(_EXPLAINERS) for call in calls) or (
        "eval" in methods
        and ("backward" in methods or any(module.called(c) == _GRAD for c in calls))
        and "step" not in methods
    )


def _settings(module: Module, flag: str) -> list[cst.Assign]:
    return [n for n in module.nodes(cst.Assign) if _flag(module, n) == flag]


def _is_beside(module: Module, node: cst.Assign) -> bool:
    """Say whether the same block asks for determinism, and sets neither flag a second time."""
    block = module.parent(module.statement(node))
    beside = {
        flag: [n for n in _settings(module, flag) if module.parent(module.statement(n)) is block]
        for flag in ("benchmark", "deterministic")
    }
    if any(len(found) != 1 for found in beside.values()):
        return False
    value = beside["deterministic"][0].value
    return is_name(value, "True")
