"""What Python asks for its truth: by tests, ``and``, ``or`` and ``not``."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.tree import components
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

TESTS = (cst.If, cst.While, cst.IfExp, cst.Assert, cst.CompIf)
ASKING = (*TESTS, cst.BooleanOperation, cst.UnaryOperation)
"""What may ask."""
_JOINED = (cst.And, cst.Or, cst.Not)


@question(ground=True, remember=False)
def asked_for_truth(module: Module, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the expressions that a test asks, or ``and``, ``or`` and ``not`` outside of one."""
    if isinstance(node, TESTS):
        return list(components(node.test, *_JOINED))
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
        return [leaf for leaf in components(node, *_JOINED) if module.is_within(leaf, node.left)]
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return list(components(node.expression, *_JOINED))
    return []
