"""How large a network is, as its constructor says."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, inferred
from torchlint.semantic.code.scopes import base_names, scopes
from torchlint.semantic.code.tree import LOOPS, targets_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.frozen import learning_parts, unpacks
from torchlint.semantic.uses.networks import model_classes
from torchlint.semantic.values.classes import class_named, is_network

_NO_WEIGHTS = ops.dotted("layer", "stateless") | ops.dotted("loss")
_WEIGHT_AND_BIAS = ops.dotted("layer", "one-tensor") | ops.dotted("layer", "bias")
"""Layers that have a weight, and a bias at most."""
_GROWS = regex(
    r"\b(add_module|register_module|register_parameter|append|extend|insert)\(|\bsetattr\("
)
"""What may give a network more parts than its class assigns."""
_RETURN_ITSELF = ops.having("chains")


@question(
    yes="`{0}` has {answer} parameters at most",
    no="how many parameters `{0}` has is not known",
)
def parameter_tensors(module: Module, network: cst.BaseExpression) -> int | None:
    """Return how many tensors a network has as parameters at most, None where that is not known:
    a network of the project is what all its constructors keep."""
    made = inferred(module, network).node
    if isinstance(made, cst.Call):
        return _parameters_made(module, made)
    classes = list(dict.fromkeys(model_classes(module, network)))
    counts = [_of_class(where, cls) for where, cls in classes]
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


def _parameters_made(module: Module, made: cst.BaseExpression) -> int | None:
    """Return how many parameters a call makes."""
    if not isinstance(made, cst.Call):
        return None
    name = module.called(made)
    if name in _NO_WEIGHTS:
        return 0
    if name == "torch.nn.Parameter":
        return 1
    if name in _WEIGHT_AND_BIAS:
        return 2
    if name == "torch.nn.Sequential":
        return _sum(
            _parameters_made(module, arg.value) if not arg.star and arg.keyword is None else None
            for arg in made.args
        )
    match made.func:
        case cst.Attribute(inner, cst.Name(method)) if method in _RETURN_ITSELF:
            return _parameters_made(module, inner)
    found = class_named(module, made.func)
    return _of_class(*found) if found is not None else None


@question()
def _of_class(module: Module, cls: cst.ClassDef) -> int | None:
    """Return how many parameters the networks of a class have at most."""
    family = scopes(module).lineage(cls)
    if (
        not is_network(module, cls)
        or any(base != "torch.nn.Module" for base in base_names(module, cls))
        or any(unpacks(module, each) or _GROWS.search(module.source(each)) for each in family)
    ):
        return None
    parts = [assign for each in family for assign in learning_parts(module, each)]
    looped = any(isinstance(above, LOOPS) for each in parts for above in module.ancestors(each))
    counts: dict[str, int | None] = {}
    for each in parts:
        targets = " = ".join(module.source_of(target) for target in targets_of(each))
        made = _parameters_made(module, each.value) if each.value is not None else None
        both = (counts.get(targets, 0), made)
        counts[targets] = None if None in both else max(filter(None, both), default=0)
    return None if looped else _sum(counts.values())


def _sum(counts: Iterable[int | None]) -> int | None:
    known = 0
    for count in counts:
        if count is None:
            return None
        known += count
    return known
