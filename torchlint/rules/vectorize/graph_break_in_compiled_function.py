"""Keep code that breaks the graph out of compiled functions

## Why
`torch.compile` ends the graph where it cannot follow the code, runs that part in Python and starts
another graph: the pieces are not fused with each other, and each one is entered through Python and
its guards (PyTorch docs, "Common Graph Breaks"). A number read from a tensor and used, a branch on
a tensor, `print`, logging, a clock, and operations whose result's size depends on values
(`x[mask]`, `nonzero`) do that. NumPy code, `torch.where`, writing to `x[mask]` and loops of a fixed
length do not. `torch._dynamo.explain` shows the breaks of a function.

Flagged: these constructs in a function that this file compiles, in the `forward` of a module that
it compiles, and in the functions of this file that are called from there.

## Setup
```python
import torch
from torch import nn

x = torch.randn(8)
```

## Bad
```python
def clipped(x: torch.Tensor):
    if x.sum() > 1:
        x = x / x.sum()
    return x


fast = torch.compile(clipped, backend="eager")
y = fast(x)
```

## Good
```python
def clipped(x: torch.Tensor):
    total = x.sum()
    return torch.where(total > 1, x / total, x)


fast = torch.compile(clipped, backend="eager")
y = fast(x)
```

## Leave alone
Nothing compiles this function.
```python
def plain(x: torch.Tensor):
    print(x)
    return x.item() if x.sum() > 0 else x
```

Code that is left out while compiling.
```python
@torch.compile(backend="eager")
def quiet(x: torch.Tensor):
    if not torch.compiler.is_compiling():
        print(x)
    return x
```

## Fix safety
No fix is offered: where the code goes depends on what it is for.

## Measure
Timed are ten calls of the compiled function, after it has been compiled; the backend is `eager`, so
no kernel is fused. A gain is expected on a CPU and on a GPU: what is saved is leaving and entering
compiled code, and on a GPU a wait.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.rand(64, device=device)
```

```python
for _ in range(10):
    y = fast(x)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, conditions_around, inferred, keyword_argument
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import is_name, operands
from torchlint.semantic.time.step_overhead import compiled_by
from torchlint.semantic.torch import ops

_CALLS = {
    "builtins.print": "print()",
    "warnings.warn": "warnings.warn()",
    "time.time": "time.time()",
    "time.perf_counter": "time.perf_counter()",
    "time.monotonic": "time.monotonic()",
}
_LEVELS = frozenset(("debug", "info", "warning", "warn", "error", "critical", "exception", "log"))
_LOGGER = regex(r"(^|[._])(logging|log|_?logger)$", re.IGNORECASE)
_SIZES = ops.having("values-decide")
_READS = frozenset(("item", "float", "int", "bool"))
_LEFT_OUT = regex(
    r"is_compiling|is_dynamo_compiling|is_scripting|is_tracing|verbose|debug|(^|_)log(ging)?$"
)
_SCALARS = "capture_scalar_outputs"
_DYNAMIC = "capture_dynamic_output_shape_ops"

rule = Rule(
    __name__,
    __doc__,
    code="TL607",
    message="{construct} inside a torch.compile region causes a graph break.",
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"compile",),
)


@rule.on(cst.Call)
def check_call(node: cst.Call, module: Module) -> Iterator[Hit]:
    name, method = module.name(node.func), ""
    last = (name or "").rpartition(".")[2]
    receiver: cst.BaseExpression | None = None
    if isinstance(node.func, cst.Attribute):
        method, receiver = node.func.attr.value, node.func.value
    if name in _CALLS:
        yield from _broken(module, node, _CALLS[name])
    elif method in _LEVELS and _LOGGER.search(dotted_text(receiver) or ""):
        yield from _broken(module, node, "logging")
    elif (method in _SIZES or last in _SIZES) and _DYNAMIC not in module.text:
        if (
            inferred(module, receiver).tensor
            if receiver is not None and name is None
            else (name or "").startswith("torch.")
        ):
            yield from _broken(module, node, f"{method}(), whose size depends on values,")
    elif (method in _READS or last in _READS) and _SCALARS not in module.text:
        used = not isinstance(module.parent(node), cst.Expr)
        tensor = node.args[0].value if node.args else receiver
        if (
            used
            and tensor is not None
            and (method == "item" or name is not None)
            and inferred(module, tensor).tensor
        ):
            yield from _broken(module, node, f"reading a number ({module.shown(node, 30)})")


@rule.on(cst.If, cst.IfExp, cst.While)
def check_branch(node: cst.If | cst.IfExp | cst.While, module: Module) -> Iterator[Hit]:
    part = next((p for p in operands(node.test) if inferred(module, p).tensor), None)
    if part is not None:
        yield from _broken(module, node.test, f"branching on a tensor ({module.shown(part, 30)})")


@rule.on(cst.Subscript)
def check_index(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    above = module.parent(node)
    written = isinstance(above, cst.AssignTarget) or (
        isinstance(above, cst.AugAssign) and above.target is node
    )
    if not isinstance(index, cst.Index) or written or _DYNAMIC in module.text:
        return
    mask = inferred(module, index.value)
    if mask.dtype == "bool" and inferred(module, node.value).tensor:
        yield from _broken(module, node, f"indexing by a mask ({module.shown(node, 30)})")


def _broken(module: Module, node: cst.BaseExpression, construct: str) -> Iterator[Hit]:
    how = compiled_by(module, node)
    if how is None:
        return
    if isinstance(how, cst.Call) and any(
        _set(module, how, option) for option in ("fullgraph", "disable")
    ):
        return
    words = (word for test, _ in conditions_around(module, node) for word in module.names_in(test))
    if not any(_LEFT_OUT.search(word) for word in words):
        yield Hit(node, {"construct": construct})


def _set(module: Module, how: cst.Call, option: str) -> bool:
    """Say whether an option of ``torch.compile`` is given and not plainly off."""
    value = keyword_argument(module, how, option)
    return value is not None and not is_name(value, "False")
