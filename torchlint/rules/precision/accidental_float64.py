"""Keep NumPy's float64 away from the GPU

## Why
NumPy computes in float64 where nothing else is said, and `torch.from_numpy`, `torch.tensor` and
`torch.as_tensor` keep that dtype. On the device such a tensor takes twice the bytes in every copy
and kernel, and double precision runs at 1/2 of the single precision rate on data-centre GPUs and at
1/32 or less on consumer ones (throughput table of the CUDA C++ programming guide), without most
tensor cores. What it meets is promoted to float64 as well.

Flagged: a tensor made from an array that is float64 for certain (NumPy's random numbers,
`linspace`, `zeros`, `ones`, `eye`, `full` or `arange` with floats, and arithmetic on these, without
a dtype), that goes to the accelerator without a cast. As info: a cast to float64 in a network's
`forward`.

## Setup
```python
import numpy as np
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
count = 8
```

## Bad
```python
points = torch.from_numpy(np.random.rand(count, 3)).to(device)
```

## Good
```python
points = torch.from_numpy(np.random.rand(count, 3)).float().to(device)
```

## Leave alone
A cast follows, before or with the move.
```python
a = torch.from_numpy(np.random.rand(8, 3)).float().to(device)
b = torch.from_numpy(np.random.rand(8, 3)).to(device, torch.float32)
c = torch.tensor(np.zeros(8), dtype=torch.float32, device=device)
d = torch.from_numpy(np.random.rand(8, 3)).to(device).float()
```

On the CPU float64 costs little.
```python
weights = torch.from_numpy(np.ones(8))
sampler = torch.utils.data.WeightedRandomSampler(weights, 8)
```

A list of Python numbers becomes float32 in torch.
```python
x = torch.tensor([1.0, 2.0]).to(device)
```

## Fix safety
Unsafe: values are rounded to float32, and what is computed from them has another dtype.

## Measure
The distances between 1024 points. A gain can be expected on a CPU, too, whose vector units hold
twice as many float32 numbers; on a GPU it depends on the rate of double precision.
```python
np.random.seed(0)
count = 1024
```

```python
distances = torch.cdist(points, points)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Append,
    Fix,
    Hit,
    Module,
    Rule,
    Safety,
    Severity,
    inferred,
    keyword_argument,
    on_device,
)
from torchlint.semantic.code.reaching import assigned_values, sole_use, uses_of
from torchlint.semantic.code.scopes import base_names
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import attr_of, has_star, method_called
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.values.apple import names_apple
from torchlint.semantic.values.classes import family_of, is_network
from torchlint.semantic.values.place import named_device

_MAKERS = ops.dotted("from-data", "own-dtype")
_RANDOM = (
    "numpy.random.rand numpy.random.randn numpy.random.uniform numpy.random.normal "
    "numpy.random.random "
    "numpy.random.random_sample numpy.random.standard_normal numpy.random.beta numpy.random.gamma "
    "numpy.random.exponential numpy.random.laplace numpy.random.dirichlet"
)
_FLOATS = frozenset(
    (
        _RANDOM + " numpy.linspace numpy.logspace numpy.zeros numpy.ones numpy.empty numpy.eye"
    ).split()
)
_BY_VALUE = ("numpy.arange", "numpy.full")
_DTYPE_POSITION = {
    "numpy.zeros": 1,
    "numpy.ones": 1,
    "numpy.empty": 1,
    "numpy.full": 2,
    "numpy.eye": 3,
}
_CASTS = ops.having("cast") - {"double"}
_DOUBLES = dtypes.dotted(dtypes.of_kind("double"))
_POLICY = regex(r"set_default_dtype|set_default_tensor_type|gradcheck")
_EXACT = regex(
    rf"linalg|cholesky|\b({'|'.join(sorted(ops.having('precise')))}|u_solve|fft)\b|\bfft\."
)
_BACK = regex(rf"\.float\(\)|\.(to|type)\((?!(dtype=)?({'|'.join(_DOUBLES)}))|\.type_as\(")
_LOSS = regex(r"loss|criterion|metric|scaler|normaliz|standardiz|statistic", re.IGNORECASE)
_NOTE = "Values are rounded to float32, and what is computed from them has another dtype."
_EXPLICIT = (
    "{expr} computes in float64 in forward; on a GPU that costs twice the bytes and most "
    "of the speed."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL402",
    message="{expr} is float64 on the GPU; NumPy's default dtype leaked in. Use float32.",
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"from_numpy", b"tensor(", b"asarray", b"double", b"float64"),
    equivalence="opt-in",
)


@rule.call(*_MAKERS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not node.args or not _is_float64(module, node.args[0].value) or mentions(module, _POLICY):
        return
    if keyword_argument(module, node, "dtype") is None and _goes_to_device(module, node):
        fix = Fix(
            (Append(node, ".float()"),), Safety.UNSAFE, "Cast to float32 before the copy", _NOTE
        )
        direct = isinstance(module.parent(node), cst.Attribute)
        yield Hit(node, {"expr": module.shown(node)}, fix=fix if direct else None)


@rule.method("double", "to", "type")
def check_explicit(node: cst.Call, module: Module) -> Iterator[Hit]:
    named = any(module.name(arg.value) in _DOUBLES for arg in node.args)
    if (
        (named or method_called(node) == "double")
        and inferred(module, node).rank != 0  # One number costs nothing.
        and _in_forward(module, node)
        and not mentions(module, _POLICY)
    ):
        yield Hit(node, {"expr": module.shown(node)}, severity=Severity.INFO, message=_EXPLICIT)


# -- from NumPy ------------------------------------------------------------------------------------


@question()
def _is_float64(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a NumPy array of float64 for certain."""
    if isinstance(node, cst.Name):
        values = assigned_values(module, node)
        return bool(values) and all(_is_float64(module, each) for each in values)
    if isinstance(node, cst.BinaryOperation):
        parts = (node.left, node.right)
        numbers = [p for p in parts if inferred(module, p).kind == "number"]
        return len(numbers) < 2 and all(p in numbers or _is_float64(module, p) for p in parts)
    if (
        not isinstance(node, cst.Call)
        or keyword_argument(module, node, "dtype") is not None
        or has_star(node)
    ):
        return False
    name = module.called(node)
    if len([a for a in node.args if a.keyword is None]) > _DTYPE_POSITION.get(name, 9):
        return False
    sized = len(node.args) > 2 or keyword_argument(module, node, "size") is not None
    if name in ("numpy.random.uniform", "numpy.random.normal") and not sized:
        return False
    floats = any(isinstance(a.value, cst.Float) for a in node.args)
    return name in _FLOATS or (name in _BY_VALUE and floats)


@question()
def _goes_to_device(module: Module, node: cst.Call) -> bool:
    """Say whether a tensor is brought to the accelerator, and nothing casts it on the way or right
    after."""
    if named_device(module, keyword_argument(module, node, "device")) in ("cuda", "accel"):
        return not _cast(module, node)
    call = module.method_call(sole_use(module, node))
    if call is None:
        return False
    moved = transfer_of(module, call)
    if moved is not None:
        return (
            moved.dtype is None
            and not names_apple(module, moved.target)
            and not _cast(module, call)
        )
    return method_called(call) in ops.SAME_VALUES and _goes_to_device(module, call)


def _cast(module: Module, node: cst.Call) -> bool:
    return any(attr_of(module.parent(use)) in _CASTS for use in uses_of(module, node))


# -- by hand ---------------------------------------------------------------------------------------


def _in_forward(module: Module, node: cst.Call) -> bool:
    """Say whether a network's forward goes on in float64: no loss, no linear algebra, not cast back
    at once."""
    function, cls = module.function(node), module.class_of(node)
    if (
        function is None
        or cls is None
        or function.name.value != "forward"
        or not is_network(module, cls)
    ):
        return False
    names = [*(kin.name.value for kin in family_of(module, cls)), *base_names(module, cls)]
    if any(_LOSS.search(name) for name in names):
        return False
    text = module.source(function)
    return not _BACK.search(text) and not _EXACT.search(text) and on_device(module, node) is True
