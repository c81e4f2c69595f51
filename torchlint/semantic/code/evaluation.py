"""Conditions by which code runs in an evaluation only."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.calls import string
from torchlint.semantic.code.conditions import Conditions
from torchlint.semantic.code.tree import attr_of, is_name

_EVALUATIONS = frozenset(
    "dev eval evaluate val valid validation test predict inference infer".split()
)
_TRAININGS = frozenset(("train", "training", "loss"))
"""What a parameter named ``mode`` is, as of mmengine's ``forward(inputs, data_samples, mode)``."""


def untrained(conditions: Conditions, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the condition by which a node of a method runs only where ``self.training`` is
    false, or a parameter named ``mode`` says so: in an evaluation; not where it is one more
    mode of training: ``elif mode == "train_rl"``."""
    test = conditions.condition(node, None, _says_untrained)
    trains = test is not None and conditions.condition(node, None, _says_training) is not None
    return None if trains else test


def _says_untrained(test: cst.BaseExpression, needed: bool) -> bool:
    match test:
        case cst.Comparison(
            left, [cst.ComparisonTarget(cst.Is() | cst.Equal(), cst.Name("False"))]
        ):
            test, needed = left, not needed
    if is_name(getattr(test, "value", None), "self") and attr_of(test) == "training":
        return not needed
    said = _modes(test)
    if needed:
        return bool(said) and all(each.rpartition("_")[2] in _EVALUATIONS for each in said)
    return any(each in _TRAININGS for each in said)


def _says_training(test: cst.BaseExpression, needed: bool) -> bool:
    said = [each.split("_") for each in (_modes(test) if needed else ())]
    return bool(said) and all(
        not _TRAININGS.isdisjoint(each) and each[-1] not in _EVALUATIONS for each in said
    )


def _modes(test: cst.BaseExpression) -> list[str]:
    """Return the texts with which a test compares what is called a mode, none for another test."""
    match test:
        case cst.Comparison(
            cst.Name("mode" | "phase" | "stage" | "split"),
            [cst.ComparisonTarget(cst.Equal() | cst.In(), names)],
        ):
            texts = [names]
            if isinstance(names, (cst.List, cst.Tuple, cst.Set)):
                texts = [each.value for each in names.elements]
            return [string(each) or "" for each in texts]
    return []
