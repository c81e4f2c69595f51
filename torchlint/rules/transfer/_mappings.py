"""What a batch is, by the way it is used: a mapping of tensors, which has none of a tensor's
methods."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_MAPPING_METHODS = frozenset(("items", "keys", "update", "setdefault"))


@question()
def used_as_mapping(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the function around an expression also uses it as a mapping, which no tensor is.

    That is ``**x``, ``x["key"]``, ``"key" in x``, ``x.items()``: an encoding of a tokenizer, say.
    """
    scope = module.scope(node)
    return any(
        _as_mapping(module, each)
        for each in module.within(scope, type(node))
        if each.deep_equals(node)
    )


def _as_mapping(module: Module, node: cst.CSTNode) -> bool:
    above = module.parent(node)
    match above:
        case cst.Arg(star="**") | cst.StarredDictElement():
            return True
        case cst.Subscript(
            value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]
        ) if value is node:
            return isinstance(index, cst.BaseString)
        case cst.Attribute(value=value, attr=cst.Name(value=attr)) if value is node:
            return attr in _MAPPING_METHODS
        case cst.ComparisonTarget(operator=cst.In() | cst.NotIn()):
            whole = module.parent(above)
            return isinstance(whole, cst.Comparison) and isinstance(whole.left, cst.BaseString)
    return False
