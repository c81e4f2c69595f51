"""Let attention share keys and values among grouped heads

## Why
With grouped heads several queries read one key and one value. Repeating these first,
`k.repeat_interleave(n, dim=1)` or `expand` and `reshape`, writes `n` copies in each layer and each
step, and keeps them for the backward pass. With `enable_gqa=True` (torch 2.5)
`scaled_dot_product_attention` takes them as they are; the function's page says what it does, and
that on CUDA only FlashAttention and the plain kernel can: in half precision and without a mask.

Flagged: keys and values that are repeated by the same number for one call that reads nothing else
of them, without a mask (or with a causal one, see explicit-causal-mask), in a project that speaks
of half precision or autocast.

## Setup
```python
import torch
import torch.nn.functional as F

q = torch.randn(2, 8, 64, 16, dtype=torch.bfloat16)
k, v = torch.randn(2, 2, 2, 64, 16, dtype=torch.bfloat16).unbind(0)
```

## Bad
```python
def attend(q, k, v):
    k = k.repeat_interleave(4, dim=1)
    v = v.repeat_interleave(4, dim=1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


out = attend(q, k, v)
```

## Good
```python
def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


out = attend(q, k, v)
```

## Leave alone
With a mask the kernels that share keys and values cannot run, but for the plain one.
```python
def attend(q, k, v, mask):
    k = k.repeat_interleave(4, dim=1)
    v = v.repeat_interleave(4, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
```

`repeat` lays the heads out in another order.
```python
def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k.repeat(1, 4, 1, 1), v.repeat(1, 4, 1, 1))
```

Something else reads the repeated keys.
```python
def attend(q, k, v, fused):
    k = k.repeat_interleave(4, dim=1)
    v = v.repeat_interleave(4, dim=1)
    if fused:
        return F.scaled_dot_product_attention(q, k, v)
    return torch.softmax(q @ k.transpose(-2, -1) / 4, dim=-1) @ v
```

## Fix safety
No fix is offered: it needs torch 2.5, and another kernel may run, so results differ by rounding. In
float32 on CUDA the plain kernel runs, which holds the whole matrix of scores. A project that
declares a torch before 2.4 has no finding.

## Measure
A forward and a backward pass. Little is gained on a CPU, where the copies are a small part.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
q = torch.randn(2, 8, 512, 64, dtype=torch.bfloat16, device=device, requires_grad=True)
k, v = torch.randn(
    2, 2, 2, 512, 64, dtype=torch.bfloat16, device=device, requires_grad=True
).unbind(0)
```

```python
attend(q, k, v).sum().backward(retain_graph=True)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, arguments_of, keyword_argument
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.reaching import assigned_value, definitions_of, readers_of
from torchlint.semantic.code.text import mentions
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes
from torchlint.semantic.uses.causal_masks import is_causal_mask
from torchlint.semantic.values.definitions_behind import returned
from torchlint.semantic.values.operations import Operation, operation_of

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_OLDEST = (2, 4)
"""What is taken where a project declares no torch; one that declares an older one keeps to it."""
_DTYPES = "|".join(dtype.name for dtype in dtypes.of_kind("half"))
_HALF = regex(rf"autocast|{_DTYPES}|\bbf16|\bfp16|\.half\(|mixed.precision", re.IGNORECASE)
_REPEATS = "repeat_kv"
"""What transformers calls its function for it, and those who copied it."""
_HEADS, _HEADS_LAST = ("1", "-3"), ("2", "-2")

rule = Rule(
    __name__,
    __doc__,
    code="TL411",
    message=(
        "keys and values are copied for each of the grouped heads; enable_gqa=True lets"
        " FlashAttention share them."
    ),
    severity="info",
    default=True,
    effect="gpu",
    triggers=(b"scaled_dot_product_attention",),
)


@frozen
class _Repeat:
    """One repetition of heads.

    Args:
        node: the expression.
        of: what is repeated.
        times: the code of how often.
    """

    node: cst.BaseExpression
    of: cst.BaseExpression
    times: str


@rule.call(_ATTENTION)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    given = arguments_of(module, node, _ATTENTION)
    key, value, mask = (given.value(name) for name in ("key", "value", "attn_mask"))
    if key is None or value is None or given.open:
        return
    if module.target_torch < _OLDEST:
        return
    if keyword_argument(module, node, "enable_gqa") is not None or not (
        mentions(module, _HALF) or module.outside.others_say(_says_half) is True
    ):
        return
    if (
        mask is not None
        and dotted_text(mask) != "None"
        and not is_causal_mask(module, mask, hides=False)
    ):
        return
    keys, values = _repeated(module, key), _repeated(module, value)
    if keys is None or values is None or keys.times != values.times:
        return
    yield Hit(keys.node)


def _says_half(text: str) -> bool:
    return _HALF.search(text) is not None


@question()
def _repeated(module: Module, node: cst.BaseExpression) -> _Repeat | None:
    """Return the repetition of heads that an argument is, where nothing else reads it."""
    if isinstance(node, cst.Name):
        made = definitions_of(module, node)
        only = made[0] if len(made) == 1 else None
        if not isinstance(only, cst.Assign) or readers_of(module, only, node.value) != [node]:
            return None
        plain = isinstance(only.targets[0].target, cst.Name) and len(only.targets) == 1
        return _repeated(module, only.value) if plain else None
    found = operation_of(module, node)
    if found is not None and found.name in ("transpose", "contiguous") and found.operands:
        # Whether a call is ``x.transpose(1, 2)``, by which the heads come before the positions.
        given = {module.source_of(each) for each in found.operands[1:]}
        inner = found.operands[0]
        if given == {"1", "2"}:
            return _interleaved(module, inner, operation_of(module, inner), _HEADS_LAST)
        return _repeated(module, inner) if found.name == "contiguous" else None
    return (
        _interleaved(module, node, found, _HEADS)
        or _expanded(module, node, node)
        or _by_function(module, node)
    )


def _interleaved(
    module: Module, node: cst.BaseExpression, found: Operation | None, axes: tuple[str, ...]
) -> _Repeat | None:
    if found is None or found.name != "repeat_interleave" or not found.operands:
        return None
    times, dim = found.argument(1, "repeats"), found.argument(2, "dim")
    if times is None or dim is None or module.source_of(dim) not in axes:
        return None
    return _Repeat(node, found.operands[0], module.source_of(times))


def _expanded(
    module: Module, node: cst.BaseExpression, whole: cst.BaseExpression
) -> _Repeat | None:
    """Return the repetition that ``x[:, :, None].expand(b, h, n, t, d).reshape(…)`` is."""
    outer = operation_of(module, node)
    if outer is None or outer.name not in ("reshape", "flatten") or not outer.operands:
        return None
    inner = _value(module, outer.operands[0])
    wide = operation_of(module, inner)
    if wide is None or wide.name != "expand" or len(wide.operands) != _WIDE:
        return None
    match _value(module, wide.operands[0]):
        case cst.Subscript(of, parts) if len(parts) > _AT:
            new = module.source_of(parts[_AT].slice)
            before = {module.source_of(part.slice) for part in parts if part is not parts[_AT]}
            if new == "None" and before == {":"}:
                return _Repeat(whole, of, module.source_of(wide.operands[_AT + 1]))
        case cst.Call(cst.Attribute(of, cst.Name("unsqueeze")), [at]) if module.source_of(
            at.value
        ) == str(_AT):
            return _Repeat(whole, of, module.source_of(wide.operands[_AT + 1]))
    return None


_WIDE, _AT = 6, 2
"""Operands of ``x.expand(b, h, n, t, d)``, and where the axis of a group is."""


def _value(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a name was assigned last, or the expression itself."""
    return assigned_value(module, node) or node


def _by_function(module: Module, node: cst.BaseExpression) -> _Repeat | None:
    """Return the repetition that a call of ``repeat_kv(x, n)`` is: transformers', or one of this
    file that ends in a repetition of its first parameter."""
    match node:
        case cst.Call(func, [cst.Arg(of, None), cst.Arg(times)]) if last_part(func) == _REPEATS:
            pass
        case _:
            return None
    callees = callees_of(module, node)
    own = all(
        any(
            (found := _ends_in(module, each)) is not None and isinstance(found.of, cst.Name)
            for each in returned(module, callee)
        )
        for callee in callees
    )
    known = callees or (module.name(func) or "").startswith("transformers.")
    return _Repeat(node, of, module.source_of(times)) if known and own else None


def _ends_in(module: Module, node: cst.BaseExpression) -> _Repeat | None:
    found = operation_of(module, node)
    return _interleaved(module, node, found, _HEADS) or _expanded(module, node, node)
