"""Leave attention to scaled_dot_product_attention

## Why
Attention written out, `softmax(q @ kᵀ / sqrt(d)) @ v`, makes two matrices of queries × keys, keeps them for the backward
pass, and reads and writes them once per step: product, scale, mask, softmax, dropout.
`torch.nn.functional.scaled_dot_product_attention` (torch 2.0) computes the same; on CUDA it can choose FlashAttention
or the memory-efficient kernel, which never hold the whole matrix (its page in the PyTorch docs). The "Segment
Anything, Fast" post of the PyTorch blog names it as one step of its speed-up.

Flagged: a softmax over the last axis of a product of queries and keys that is multiplied by a number (a scale, before
or after the product) and may be masked, where the weights go only into a product with values, after dropout or casts.

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

```python
class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = dim**-0.5
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v, mask=None):
        attn = torch.matmul(q * self.scale, k.transpose(1, 2))
        if mask is not None:
            attn = attn.masked_fill(mask, float("-inf"))
        attn = self.drop(attn.softmax(dim=-1))
        return torch.matmul(attn, v)
```

## Good
```python
out = F.scaled_dot_product_attention(q, k, v)
```

```python
class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dropout_p = 0.1

    def forward(self, q, k, v, mask=None):
        keep = ~mask if mask is not None else None
        dropout_p = self.dropout_p if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=dropout_p)
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

Heads that are mixed before the softmax.
```python
class TalkingHeads(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.mix = nn.Conv2d(heads, heads, 1)

    def forward(self, q, k, v):
        scores = self.mix(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
        return torch.softmax(scores, dim=-1) @ v
```

Heads that are mixed after the softmax.
```python
class MixedWeights(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.mix = nn.Conv2d(heads, heads, 1)

    def forward(self, q, k, v):
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
        return self.mix(weights) @ v
```

Without a scale, or with a learned one, it is another function (`scale=` takes a number only).
```python
class Learned(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, q, k, v):
        plain = torch.softmax(q @ k.transpose(-2, -1), dim=-1) @ v
        return plain + torch.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1) @ v
```

Windows hold so few keys that there is little to win.
```python
class WindowAttention(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v
```

The branch for versions and devices without the fused function.
```python
class Fallback(nn.Module):
    def forward(self, q, k, v):
        if hasattr(F, "scaled_dot_product_attention"):
            return F.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v
```

A table of learned keys or values is a lookup, and a softmax over another axis normalises other things.
```python
class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(16, 32))

    def forward(self, q):
        weights = torch.softmax(q @ self.keys / math.sqrt(q.size(-1)), dim=-1)
        return weights @ self.keys.transpose(-2, -1)


def over_queries(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-2) @ v
```

Scores from a network are no product of queries and keys.
```python
def additive(score, q, k, v):
    return torch.softmax(score(q.unsqueeze(2) + k.unsqueeze(1)).squeeze(-1) / math.sqrt(q.size(-1)), dim=-1) @ v
```

Linear attention takes its softmax before the product.
```python
def linear(q, k, v):
    context = torch.softmax(k, dim=-1).transpose(-2, -1) @ v
    return torch.softmax(q, dim=-1) @ context
```

A test compares a fused function with this one.
```python
def test_reference():
    expected = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v
    assert torch.allclose(expected, F.scaled_dot_product_attention(q, k, v), atol=1e-5)
```

## Fix safety
No edit is offered, as three things have to be decided by hand. A boolean `attn_mask` says what to *keep*, the opposite of
`masked_fill` and of `MultiheadAttention`. `dropout_p` acts in eval mode too unless 0 is passed. A scale other than
`1 / sqrt(d)` needs `scale=` (torch 2.1). Results differ by rounding.

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

from torchlint.rule import Hit, Module, Rule

_FUSED = re.compile(r"scaled_dot_product|sdpa|flash|xformers|memory_efficient_attention|flex_attention", re.IGNORECASE)
_WINDOW = re.compile(r"[Ww]indow|Win(?=[A-Z])")
_SINCE = (2, 0)

rule = Rule(
    __name__,
    __doc__,
    code="TL405",
    message="softmax(QKᵀ/√d)·V written out; F.scaled_dot_product_attention fuses it.",
    severity="info",
    default=True,
    triggers=(b"softmax", b"Softmax"),
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if module.target_torch < _SINCE or module.written_attention(node) is None or module.bench(node):
        return
    function, cls = module.function(node), module.class_of(node)
    names = [place.name.value for place in (function, cls) if place is not None]
    home = cls or function or module.root
    if any(_WINDOW.search(name) for name in names) or _FUSED.search(module.source(home)):
        return
    yield Hit(node)
