"""Do not ask MultiheadAttention for weights that nobody reads

## Why
`need_weights=True` is the default of `nn.MultiheadAttention.forward`. It takes the path of separate
products, softmax and dropout, and holds the weights of every head, queries × keys, to return their
mean. With `need_weights=False` the same call goes through `scaled_dot_product_attention`, which can
use a fused kernel; the class's page says "Set `need_weights=False` to use the optimized
scaled_dot_product_attention and achieve the best performance". In eval mode without autograd a fast
path may apply either way.

Flagged: a call of an `nn.MultiheadAttention` without `need_weights`, of whose two results only the
first is used; the layer may stand in a list of such layers.

## Setup
```python
import torch
from torch import nn

x = torch.randn(2, 16, 32)
```

## Bad
```python
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        out, _ = self.attn(x, x, x)
        return out


block = Block()
```

## Good
```python
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        out, _ = self.attn(x, x, x, need_weights=False)
        return out


block = Block()
```

## Leave alone
The weights are read.
```python
attention = nn.MultiheadAttention(32, 4, batch_first=True)
out, weights = attention(x, x, x)
print(weights.argmax(dim=-1))
```

`need_weights` is said, at its place or by name.
```python
attention = nn.MultiheadAttention(32, 4, batch_first=True)
a, _ = attention(x, x, x, need_weights=True)
b, _ = attention(x, x, x, None, True)
```

`nn.TransformerEncoderLayer` already passes False.
```python
layer = nn.TransformerEncoderLayer(32, 4, batch_first=True)
out = layer(x)[0]
```

## Fix safety
Unsafe: results differ by rounding, a fused CUDA kernel may draw other random numbers for dropout,
and an exported graph changes. The second result becomes None.

## Measure
A forward and a backward pass in training mode. A gain can be expected on a CPU, too.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
x = torch.randn(4, 256, 32, device=device)
```

```python
out = block.to(x.device)(x)
out.sum().backward()
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    inferred,
    keyword_argument,
    with_keyword,
)
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_to, readers_of, uses_of
from torchlint.semantic.code.tree import has_star
from torchlint.semantic.time.iterations import loop_sources

_CLASS = "torch.nn.MultiheadAttention"
_POSITION = 4
_SAYS = ("need_weights", "average_attn_weights")
_SINCE = (2, 0)
_NOTE = (
    "Results differ by rounding, and a fused CUDA kernel may draw other random numbers for dropout."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL401",
    message="attention weights are discarded; need_weights=False lets MultiheadAttention use"
    " scaled_dot_product_attention.",
    severity="warning",
    default=True,
    effect="gpu",
    triggers=(b"MultiheadAttention",),
    equivalence="rng",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if len(node.args) < 3 or has_star(node) or module.target_torch < _SINCE:
        return
    if len([a for a in node.args if a.keyword is None]) > _POSITION or any(
        keyword_argument(module, node, k) for k in _SAYS
    ):
        return
    if not _is_attention(module, node) or not _is_discarded(module, node):
        return
    if "register_forward_hook" in module.text:
        return
    edit = Replace(node, with_keyword(node, "need_weights", cst.Name("False")))
    yield Hit(node, fix=Fix((edit,), Safety.UNSAFE, "Pass need_weights=False", _NOTE))


def _is_attention(module: Module, node: cst.Call) -> bool:
    made = inferred(module, node.func).node
    if isinstance(made, cst.Call):
        return module.name(made.func) == _CLASS
    held = _list_behind(module, node.func)
    layers = _layers_of(module, held) if held is not None else []
    return bool(layers) and all(module.called(each) == _CLASS for each in layers)


def _list_behind(module: Module, func: cst.BaseExpression) -> cst.Attribute | None:
    """Return the ``self.layers`` of which ``self.layers[i]`` or a loop's target is one."""
    held: cst.BaseExpression | None = None
    if isinstance(func, cst.Subscript):
        held = func.value
    elif isinstance(func, cst.Name):
        around = [loop for loop in module.loops(func) if isinstance(loop, cst.For)]
        over = [goes for loop in around for goes in loop_sources(module, loop)]
        held = next((g.iterated for g in over if g.target.deep_equals(func)), None)
    own = isinstance(held, cst.Attribute) and dotted_text(held.value) == "self"
    return held if isinstance(held, cst.Attribute) and own else None


def _layers_of(module: Module, held: cst.Attribute) -> list[cst.BaseExpression | None]:
    """Return what is put into a list of layers: None stands for what is not understood."""
    cls, path = module.class_of(held), dotted_text(held)
    out: list[cst.BaseExpression | None] = []
    body = cls.body if cls is not None else module.root
    for made in assigned_to(module, held):
        out += _listed(module, made)
    for call in module.within(body, cst.Call, nested=True):
        if isinstance(call.func, cst.Attribute) and dotted_text(call.func.value) == path:
            grows = call.func.attr.value == "append" and len(call.args) == 1
            out.append(_defined(module, call.args[0].value) if grows else None)
    return out


def _listed(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression | None]:
    match node:
        case cst.Call(func, args) if module.name(func) == "torch.nn.ModuleList":
            return _listed(module, args[0].value) if args else []
        case cst.ListComp(elt) | cst.GeneratorExp(elt):
            return [_defined(module, elt)]
        case cst.List(elements):
            return [_defined(module, element.value) for element in elements]
    return [None]


def _defined(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    return sole_definition(module, node) if isinstance(node, cst.Name) else node


def _is_discarded(module: Module, node: cst.Call) -> bool:
    """Say whether only the first of the call's two results is used."""
    match module.parent(node):
        case cst.Assign(
            [cst.AssignTarget(cst.Tuple([_, cst.Element(cst.Name(second))]))]
        ) as statement:
            return not readers_of(module, statement, second)
    uses = uses_of(module, node)
    return bool(uses) and all(_is_first(module.parent(use), use) for use in uses)


def _is_first(above: cst.CSTNode | None, value: cst.CSTNode) -> bool:
    """Say whether `above` is ``value[0]``."""
    match above:
        case cst.Subscript(taken, [cst.SubscriptElement(cst.Index(cst.Integer("0")))]):
            return taken is value
    return False
