"""CPython's tree of a text, walked in our own way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from torchlint.source.python import parents, walk

ROOT = Path(__file__).parents[2] / "torchlint"
LEFT_OUT = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)


@pytest.mark.parametrize(
    "name", ["semantic/code/lean_tree.py", "program/inside/statement_marks.py"]
)
def test_a_tree_is_walked_as_by_ast_but_for_operators_and_contexts(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    assert walk(tree) == [each for each in ast.walk(tree) if not isinstance(each, LEFT_OUT)]
    assert parents(tree) == {
        child: node
        for node in ast.walk(tree)
        for child in ast.iter_child_nodes(node)
        if not isinstance(child, LEFT_OUT)
    }
