"""Say is_causal=True instead of passing a causal mask

## Why
`scaled_dot_product_attention` on CUDA can choose FlashAttention only where `attn_mask` is None, and
a kernel that is given a causal mask reads it and computes the half of the scores that it throws
away. `is_causal=True` is the same mask by definition (the function's page: `torch.ones(L,
S).tril()`), needs no memory for it, and leaves that half out.

`nn.TransformerEncoder`, `nn.TransformerDecoder` and `nn.Transformer` take the mask as well as the
word: without the word they compare a mask of two dimensions with a causal one in every forward pass
and wait until the device has said whether it is (source of `_detect_is_causal_mask`).

Flagged: a mask that is causal and nothing else, by what the code makes it of (`tril`, `triu`,
`masked_fill`, `generate_square_subsequent_mask`), here, in a function, or as a buffer; for these
three layers any matrix.

## Setup
```python
import torch
import torch.nn.functional as F
from torch import nn

q, k, v = torch.randn(3, 2, 4, 128, 16).unbind(0)
```

## Bad
```python
def attend(q, k, v):
    n = q.size(-2)
    mask = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


out = attend(q, k, v)
```

## Good
```python
def attend(q, k, v):
    n = q.size(-2)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


out = attend(q, k, v)
```

## Leave alone
The mask leaves out padding, too.
```python
def attend(q, k, v, padding):
    n = q.size(-2)
    mask = torch.ones(n, n, dtype=torch.bool, device=q.device).tril() & padding[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
```

With a cache a single query sees all keys, and a mask of one element says so.
```python
def attend(q, k, v, cache):
    n = q.size(-2)
    k, v = cache.update(k, v)
    mask = torch.ones(n, n, dtype=torch.bool, device=q.device).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
```

A position sees those before it, and not itself.
```python
def attend(q, k, v):
    n = q.size(-2)
    mask = torch.ones(n, n, dtype=torch.bool, device=q.device).tril(-1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
```

## Fix safety
No fix is offered. Another kernel runs, so results differ by rounding, dropout draws other random
numbers, and FlashAttention has no second derivatives. A mask that only the call reads can go, too.

## Measure
A forward and a backward pass. A gain can be expected on a CPU, too.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
q, k, v = torch.randn(3, 2, 8, 1024, 64, device=device, requires_grad=True).unbind(0)
```

```python
attend(q, k, v).sum().backward(retain_graph=True)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Hit,
    Module,
    Rule,
    arguments_of,
    inferred,
)
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.torch.signatures import SIGNATURES
from torchlint.semantic.uses.causal_masks import is_causal_mask, is_matrix

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_MULTIHEAD = "torch.nn.MultiheadAttention"
_LAYER = "torch.nn.TransformerEncoderLayer"
_ENCODER = "torch.nn.TransformerEncoder"
_MASKS = {"src_is_causal": ("src_mask",), "tgt_is_causal": ("tgt_mask",)}
_OWN_MASKS = ("attn_mask", "mask", "src_mask")
"""What the mask is called where the word is plain ``is_causal``."""
_SINCE, _LAYERS_SINCE = (2, 0), (2, 1)
_CACHED = regex(r"cache|past", re.IGNORECASE)
_JOINED = regex(r"\b(cat|concat)\w*\(")
_SLOWER = "the mask is causal: with {word}=True {layer} runs attention without reading it."
_COMPARED = (
    "{layer} compares the mask with a causal one in each forward pass and waits for the answer;"
    " {word}=True says so."
)
_ASKED = (
    "{layer} compares the mask with a causal one in each forward pass and waits for the answer;"
    " {word} says it: True if the mask is causal and no more, else False."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL410",
    message="attn_mask is a causal mask; is_causal=True needs none and skips what it would hide.",
    severity="warning",
    default=True,
    effect="gpu",
    triggers=(b"scaled_dot_product_attention", b"MultiheadAttention", b"nn.Transformer"),
)


@rule.call(_ATTENTION)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    given = arguments_of(module, node, _ATTENTION)
    mask, said = given.named.get("attn_mask"), given.value("is_causal")
    if mask is None or given.open or module.target_torch < _SINCE:
        return
    if said is not None and not is_name(said, "False"):
        return
    if not is_causal_mask(module, mask.value, hides=False) or _is_cached(
        module, node, given.value("key")
    ):
        return
    yield Hit(node)


@rule.on(cst.Call, about=lambda module, node: len(node.args) > 1)
def check_layer(node: cst.Call, module: Module) -> Iterator[Hit]:
    layer = _layer(module, node)
    given = arguments_of(module, node, layer) if layer is not None else None
    if layer is None or given is None or given.open:
        return
    if module.target_torch < (_SINCE if layer == _ENCODER else _LAYERS_SINCE):
        return
    alone = layer in (_MULTIHEAD, _LAYER)
    if alone and any("key_padding_mask" in name for name in given.named):
        return
    if layer == _MULTIHEAD and not is_name(given.value("need_weights"), "False"):
        return
    for word in SIGNATURES[layer]:
        names = _MASKS.get(word, _OWN_MASKS if word == "is_causal" else ())
        mask = next((each for name in names if (each := given.value(name)) is not None), None)
        if mask is None or given.value(word) is not None:
            continue
        causal = is_causal_mask(module, mask, hides=True)
        if not causal and (alone or not is_matrix(module, mask)):
            continue
        yield Hit(
            node,
            {"layer": layer.rpartition(".")[2], "word": word},
            message=_SLOWER if alone else _COMPARED if causal else _ASKED,
        )
        return


def _layer(module: Module, node: cst.Call) -> str | None:
    """Return the name of the layer of torch.nn that a call runs, of those that take a mask."""
    made = inferred(module, node.func).node
    name = module.called(made)
    words = SIGNATURES.get(name, ()) if name.startswith("torch.nn.") else ()
    return name if any(word.endswith("is_causal") for word in words) else None


def _is_cached(module: Module, node: cst.Call, key: cst.BaseExpression | None) -> bool:
    """Say whether there may be more keys than queries, kept from earlier calls."""
    home = module.function(node)
    if home is not None and _CACHED.search(module.source(home)):
        return True
    made = definitions_of(module, key) if isinstance(key, cst.Name) else [key]
    return any(each is not None and _JOINED.search(module.source_of(each)) for each in made)
