"""What Python asks for its truth: by tests, ``and``, ``or`` and ``not``."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question

TESTS = (cst.If, cst.While, cst.IfExp, cst.Assert, cst.CompIf)
ASKING = (*TESTS, cst.BooleanOperation, cst.UnaryOperation)
"""What may ask."""


@question(ground=True, remember=False)
def asked_for_truth(module: Module, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the expressions that a test asks, or ``and``, ``or`` and ``not`` outside of one."""
    if isinstance(node, TESTS):
        return _leaves(node.test)
    # Inside a test the statement speaks; elsewhere ``and`` and ``or`` never ask for the truth of
    # their last operand.
    above = module.parent(node)
    if (
        isinstance(above, cst.BooleanOperation)
        or isinstance(getattr(above, "operator", None), cst.Not)
        or (isinstance(above, TESTS) and above.test is node)
    ):
        return []
    if isinstance(node, cst.BooleanOperation):
        return [leaf for leaf in _leaves(node) if module.is_within(leaf, node.left)]
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return _leaves(node.expression)
    return []


def _leaves(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the expressions that a test asks for their truth, seen through ``and``, ``or`` and
    ``not``."""
    if isinstance(test, cst.BooleanOperation):
        return _leaves(test.left) + _leaves(test.right)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _leaves(test.expression)
    return [test]
