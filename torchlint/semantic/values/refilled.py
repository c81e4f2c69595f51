"""Mappings whose values are brought to the host: ``{k: v.cpu() for k, v in batch.items()}``."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from torchlint.semantic.values.value import CPU, Value

_OF_TYPES = ("isinstance", "is_tensor", "hasattr")
_ON_HOST = Value("?", device=CPU)
"""A tensor there, or anything else."""

OnHost = Callable[[cst.BaseExpression], bool]


def on_host(value: cst.BaseExpression, lies: OnHost) -> Value | None:
    """Return the mapping in which an expression stands for the value of each key of a name, where
    each lies on the host by it."""
    match value:
        case cst.IfExp(test=test, body=body) if not lies(value) and _asks_type(test):
            value = body
    return Value("?", item=_ON_HOST) if lies(value) else None


def _asks_type(test: cst.BaseExpression) -> bool:
    match test:
        case cst.Call(func=cst.Name(name) | cst.Attribute(attr=cst.Name(name))):
            return name in _OF_TYPES
    return False
