"""Give torch one NumPy array instead of Python lists

## Why
From a list, `torch.tensor` walks over Python objects and converts every single number
(`recursive_store` in `tensor_new.cpp`). PyTorch itself warns: "Creating a tensor from a list of
numpy.ndarrays is extremely slow". One array is copied as a block of memory.

Flagged: `torch.tensor`, `torch.as_tensor` and the old constructors (`torch.FloatTensor`, …) over a
list, tuple or comprehension of arrays, or a list that was filled with arrays; and over
`array.tolist()` and `list(array)`, where the array itself can be given. All only where the array is
known to have a dimension.

## Setup
```python
import numpy as np
import torch

shape = (4,)
xs = [[1.0, 2.0], [3.0, 4.0]]
```

## Bad
```python
frames = torch.tensor([np.zeros(shape), np.ones(shape)])
```

## Good
```python
frames = torch.tensor(np.stack([np.zeros(shape), np.ones(shape)]))
```

## Leave alone
A list of numbers has no array to start from.
```python
weights = torch.tensor([0.1, 0.2, 0.7])
means = torch.tensor([np.mean(x) for x in xs])
```

One array is copied as a block.
```python
before = torch.tensor(np.zeros(4))
table = torch.tensor(np.concatenate([np.zeros((2, 4)), np.ones((2, 4))]))
```

## Fix safety
No fix is offered: `np.stack` raises where the list is empty, the shapes differ or have no
dimension, and gives arrays of different dtypes their common one; a list of Python floats becomes
float32, an array of float64 stays float64.

## Measure
One tensor of two images. A gain can be expected on a CPU, too.
```python
shape = (3, 64, 64)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import (
    Hit,
    Module,
    Rule,
)
from torchlint.rules.loading._slow_numpy_to_tensor.arrays import arrays_in, is_array
from torchlint.semantic.torch import dtypes

_DTYPES = {legacy: dtype for legacy, dtype in dtypes.LEGACY.items() if dtype != "bfloat16"}
rule = Rule(
    __name__,
    __doc__,
    code="TL207",
    message="{call} over {what} copies element by element; use {remedy}.",
    severity="warning",
    default=True,
    effect="host",
    triggers=(b"numpy", b"cv2", b"imageio", b"skimage"),
)


@rule.call("torch.tensor", "torch.as_tensor", *(f"torch.{name}" for name in _DTYPES))
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    first = node.args[0] if node.args else None
    if first is None or first.star:
        return
    name = module.called(node).removeprefix("torch.")
    words = {"call": f"torch.{name}"}
    listed = _listed(module, first.value)
    if listed is not None:
        words |= {"what": "a list made from an array", "remedy": "the array itself"}
        yield Hit(node, words)
    elif arrays_in(module, first.value):
        words |= {"what": "a list of arrays", "remedy": "np.stack first"}
        yield Hit(node, words)


def _listed(module: Module, data: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the array of ``array.tolist()`` or ``list(array)``."""
    match data:
        case cst.Call(cst.Attribute(array, cst.Name("tolist")), []):
            pass
        case cst.Call(func, [cst.Arg(keyword=None, star="", value=array)]) if (
            module.name(func) == "builtins.list"
        ):
            pass
        case _:
            return None
    return array if is_array(module, array) else None
