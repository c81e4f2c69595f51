"""Look rows up instead of multiplying with one-hot vectors

## Why
A one-hot row times a weight matrix picks one row of the matrix. As a product that costs ids ×
classes × width multiplications and a temporary of ids × classes; as a lookup (`F.embedding`, or
indexing `weight[ids]`) it copies ids × width numbers (the page of `torch.nn.functional.embedding`
in the PyTorch docs: "a simple lookup table"). Values and the weight's gradients are the same.

Flagged: the result of `F.one_hot`, after a cast at most, whose one use is the left side of `@`,
`matmul` or `mm`, or the input of `F.linear` without a bias.

## Setup
```python
import torch
import torch.nn.functional as F
from torch import nn

ids = torch.randint(1000, (32,))
weight = torch.randn(1000, 16)
```

## Bad
```python
rows = F.one_hot(ids, 1000).float() @ weight
```

## Good
```python
rows = F.embedding(ids, weight)
```

## Leave alone
The one-hot vectors have a second use.
```python
one_hot = F.one_hot(ids, 1000).float()
rows = one_hot @ weight
counts = one_hot.sum(dim=0)
```

Smoothed or mixed labels are not one-hot any more.
```python
soft = 0.9 * F.one_hot(ids, 1000).float() + 0.1 / 1000
rows = soft @ weight
```

Few classes make a small product.
```python
kinds = F.one_hot(ids % 4, 4).float() @ weight[:4]
```

## Fix safety
No edit is offered: where the other operand has a batch dimension, `gather` or advanced indexing
takes the place of `F.embedding`.

## Measure
One lookup of 512 rows among 1000. A gain can be expected on a CPU, too.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
ids = torch.randint(1000, (512,), device=device)
weight = torch.randn(1000, 64, device=device)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule
from torchlint.semantic.code.reaching import sole_use
from torchlint.semantic.torch import ops
from torchlint.semantic.values.operations import operation_of

_CASTS = ops.having("cast")
_PRODUCTS = ("matmul", "mm")
_FEW = 16

rule = Rule(
    __name__,
    __doc__,
    code="TL403",
    message="one-hot @ weight is a row lookup; use F.embedding / index_select.",
    severity="warning",
    default=True,
    effect="gpu",
    triggers=(b"one_hot",),
)


@rule.call("torch.nn.functional.one_hot")
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    counts = [arg.value for arg in node.args if isinstance(arg.value, cst.Integer)]
    product = (
        _product(module, node)
        if not any(count.evaluated_value <= _FEW for count in counts)
        else None
    )
    if product is not None and "torch_xla" not in module.text:
        yield Hit(product)


def _product(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the product whose left side is all that becomes of a one-hot tensor."""
    use = sole_use(module, node)
    above = module.parent(use)
    user = above if isinstance(above, cst.BinaryOperation) else module.parent(above)
    found = operation_of(module, user)
    if found is None or not isinstance(user, (cst.Call, cst.BinaryOperation)):
        return None
    operands = found.operands
    if not operands or operands[0] is not use:
        return None
    if found.name in _CASTS:
        return _product(module, user)
    if found.name == "linear" and len(operands) == 2 and "bias" not in found.keywords:
        return user
    return user if found.name in _PRODUCTS else None
