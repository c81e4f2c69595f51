"""Leave attention to scaled_dot_product_attention

## Why
Attention written out, `softmax(q @ kᵀ / sqrt(d)) @ v`, makes two matrices of queries × keys, keeps
them for the backward pass, and reads and writes them once per step: product, scale, mask, softmax,
dropout. `torch.nn.functional.scaled_dot_product_attention` (torch 2.0) computes the same; on CUDA
it can choose FlashAttention or the memory-efficient kernel, which never hold the whole matrix (its
page in the PyTorch docs). The "Segment Anything, Fast" post of the PyTorch blog names it as one
step of its speed-up.

Flagged: a softmax over the last axis of a product of queries and keys that is multiplied by a
number (a scale, before or after the product) and may be masked, where the weights go only into a
product with values, after dropout or casts. Weights that are returned beside the result count as
used, unless every caller in the file leaves them, or a flag that is off by default asks for them.

## Setup
```python
import math

import torch
import torch.nn.functional as F
from torch import nn

q, k, v = torch.randn(3, 2, 4, 128, 16).unbind(0)
dropout = nn.Dropout(0.1)
```

## Bad
```python
scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
weights = torch.softmax(scores, dim=-1)
out = weights @ v
```

## Good
```python
out = F.scaled_dot_product_attention(q, k, v)
```

## Leave alone
The fused kernels do not give the weights out.
```python
def attend(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights @ v, weights
```

Scores that somebody else reads, too, have to exist.
```python
def match(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return torch.softmax(scores, dim=-1) @ v, scores.argmax(dim=-1)
```

Windows hold so few keys that there is little to win.
```python
class WindowAttention(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v
```

## Fix safety
No fix is offered. Results differ by rounding, dropout draws other random numbers, and where a
boolean mask leaves a query no key, the result is zeros or NaN. The fused kernels have no second
derivatives, as a gradient penalty takes them. A scale other than `1 / sqrt(d)`, `d` the width of
the queries, goes into `scale=` (torch 2.1), and a `masked_fill` into `attn_mask=`, which says what
to *keep*, the opposite; `dropout_p` has to be 0 in evaluation.

## Measure
The forward pass without a mask or dropout. A gain can be expected on a CPU, too.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 8, 256, 64, device=device).unbind(0)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule
from torchlint.rules.precision._hand_written_attention.attention import (
    learned_bias,
    written_attention,
)
from torchlint.semantic.code.names import dotted_text

_FUSED = regex(
    r"scaled_dot_product|sdpa|flash|xformers|memory_efficient_attention|flex_attention",
    re.IGNORECASE,
)
_WINDOW = regex(r"[Ww]indow|Win(?=[A-Z])")
_SINCE = (2, 0)
_BIASED = (
    "softmax(QKᵀ/√d + bias)·V written out; F.scaled_dot_product_attention takes `{bias}` as "
    "attn_mask, of the size of the scores: measure whether that gains anything."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL405",
    message="softmax(QKᵀ/√d)·V written out; F.scaled_dot_product_attention fuses it.",
    severity="info",
    default=True,
    effect="gpu",
    triggers=(b"softmax", b"Softmax"),
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    product = written_attention(module, node) if module.target_torch >= _SINCE else None
    if product is None:
        return
    function, cls = module.function(node), module.class_of(node)
    names = [place.name.value for place in (function, cls) if place is not None]
    if any(_WINDOW.search(name) for name in names) or _has_fused(module, cls or function):
        return
    bias = learned_bias(module, node)
    message, words = (_BIASED, {"bias": module.shown(bias)}) if bias is not None else (None, {})
    yield Hit(product, words, message=message)


def _has_fused(module: Module, home: cst.CSTNode | None) -> bool:
    """Say whether code calls fused attention, or asks for it: by a name that is not this file's
    own."""
    own = {place.name.value for place in module.nodes(cst.FunctionDef)}
    own |= {place.name.value for place in module.nodes(cst.ClassDef)}
    words = [
        *(node.value for node in module.within(home or module.root, cst.Name, nested=True)),
        *(
            node.value
            for node in module.within(home or module.root, cst.SimpleString, nested=True)
            if isinstance(module.parent(node), cst.Arg)
        ),
    ]
    foreign = any(
        _FUSED.search(node.attr.value) and dotted_text(node.value) not in ("self", "cls")
        for node in module.within(home or module.root, cst.Attribute, nested=True)
    )
    return foreign or any(_FUSED.search(word) and word not in own for word in words)
