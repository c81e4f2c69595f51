"""What one operation takes lives on one device: what is known of a tensor after it has met another.

torch raises where operands lie on different devices. Exempt are tensors without dimensions on the
CPU, which arithmetic takes as numbers, and indices, which are copied.
"""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.torch import ops
from torchlint.semantic.values.value import ACCEL, CUDA, Value

_STRICT = ops.having("join") | ops.having("product") | ops.having("loss")
_ELEMENTWISE = ops.having("pointwise") | ops.having("compare") | ops.having("arithmetic")
_SEVERAL = _STRICT | _ELEMENTWISE
_LISTS = ops.having("join")
_HOLDS = ("tensor", "batch")


def takes_several(name: str) -> bool:
    """Say whether an operation may take several tensors, of which all lie on one device."""
    return name in _SEVERAL


def operands(name: str, call: cst.Call) -> list[cst.BaseExpression]:
    """Return what a function of torch takes as tensors: two arguments, or what its list holds where
    that is written out."""
    given = [arg.value for arg in call.args if arg.keyword is None and arg.star == ""]
    if name not in _LISTS:
        return given[:2] if name != "einsum" else given[1:]
    first = given[0] if given else None
    return [e.value for e in first.elements] if isinstance(first, (cst.List, cst.Tuple)) else []


def shared(name: str, known: list[tuple[cst.CSTNode, Value]]) -> dict[str, Value]:
    """Return what the operands of one operation are known to be after it, by the names that they
    have."""
    there = [value.device for _, value in known if value.tensor]
    device = CUDA if CUDA in there else ACCEL if ACCEL in there else None
    if device is None:
        return {}
    out: dict[str, Value] = {}
    strict = name in _STRICT
    for expression, value in known:
        text = dotted_text(expression)
        if text is None or value.device is not None:
            continue
        if value.kind in _HOLDS and (strict or value.rank or value.origin == "batch"):
            out[text] = value.but(device=device)
        elif value.kind == "?" and strict:
            out[text] = Value("tensor", device=device)
    return out
