"""What is shown of an expression is for words; its source is whole, and can be parsed."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside

EXPRESSIONS = {
    "several lines": ("f(\n    a,\n    b,\n)", "f( a, b, )"),
    "a comment in brackets": ("f(\n    a,  # first\n    # then\n    b,\n)", "f( a, b, )"),
    "blanks in a string": ("f('a  b', c)", "f('a  b', c)"),
    "a string of several lines": ('f(\n    """a\n  b""")', 'f( """a\n  b""")'),
    "a line that goes on": ("a + \\\n    b", "a + b"),
    "two strings": ("(\n    'a'\n    'b'\n)", "( 'a' 'b' )"),
    "longer than what is shown": (f"{'a' * 70} + {'b' * 70}", f"{'a' * 70} + {'b' * 70}"),
}


def module_of(text: str) -> tuple[Module, cst.BaseExpression]:
    root = cst.parse_module(text)
    line = root.body[0]
    assert isinstance(line, cst.SimpleStatementLine)
    statement = line.body[0]
    assert isinstance(statement, cst.Expr)
    return Module(root, text, "train.py", Outside()), statement.value


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_the_source_is_whole_and_means_the_same(text: str, expected: str) -> None:
    module, node = module_of(text)
    assert module.source_of(node) == expected
    assert ast.dump(ast.parse(expected)) == ast.dump(ast.parse(text))
    assert module.root.code == text


def test_what_is_shown_is_one_line_of_sixty_characters() -> None:
    module, node = module_of(f"{'a' * 40}(\n    {'b' * 40},\n)")
    assert module.shown(node) == f"{'a' * 40}( {'b' * 17}…"
    assert module.shown(node, 20) == f"{'a' * 19}…"
