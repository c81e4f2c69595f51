"""Places within a statement: what they say is what a code generation of the whole file says."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import libcst as cst
import pytest

from torchlint.edits.positions import Layout
from torchlint.edits.statement_spans import StatementSpans
from torchlint.semantic.code.statements import Statements
from torchlint.semantic.code.tree import Tree

_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_NAMES = (
    "json/decoder.py",
    "asyncio/tasks.py",
    "dataclasses.py",
    "contextlib.py",
    "test/test_generators.py",
)
_PLACED = (
    cst.BaseExpression,
    cst.BaseStatement,
    cst.BaseSmallStatement,
    cst.Arg,
    cst.Decorator,
    cst.Param,
    cst.Else,
)


def _units(text: str) -> tuple[Tree, StatementSpans]:
    root = cst.parse_module(text)
    tree = Tree(root)
    return tree, StatementSpans(root, text, Statements(root, text, None), tree.parents.get)


def _compare(text: str) -> tuple[int, int]:
    """Compare all places; return how many were known, and how many were not."""
    tree, units = _units(text)
    full = Layout(tree.root, text)
    known = unknown = 0
    for node in tree.order:
        if not isinstance(node, _PLACED):
            continue
        for whole in (False, True):
            near = units.span(node, whole)
            exact = full.whole(node) if whole else full.span(node)
            if near is None:
                unknown += exact is not None
            else:
                known += 1
                assert near == exact, (type(node).__name__, whole, text[near.start : near.end])
    return known, unknown


@pytest.mark.parametrize("name", _NAMES)
def test_places_in_the_standard_library(name: str) -> None:
    path = _STDLIB / name
    if not path.exists():
        pytest.skip(f"this Python comes without {name}")
    known, unknown = _compare(path.read_text(encoding="utf-8"))
    assert unknown < known / 50  # ``else:`` and lines of several statements


_TEXTS = {
    "elif": "if a(1):\n    b\nelif c(2):\n    d\nelse:\n    e(3)\n",
    "decorators": (
        "@a(1)\n# why\n@b\nclass C(D, k=e(2)):\n    @f\n    async def g(self, x=h(3)) "
        "-> i: return j\n"
    ),
    "one line": "for x in y(1): z(x); w(x)\n",
    "parentheses": "x = (  # note\n    (a)\n    + b(\n        1,\n    )\n)\n",
    "indented parentheses": "if a:\n\tif b:\n\t\tx = f(\n\t\t\t1,\n\t\t\t2)\n",
    "not ascii": "é = 'ü'; x = f('ö', g(1))\nwith a('é') as b, c(d): pass\n",
    "crlf": "if a:\r\n    x = f(1,\r\n          2)\r\n",
    "match": "match f(x):\n    case [1, y] if y > g(2):\n        h(y)\n    case _:\n        pass\n",
    "try": "try:\n    a(1)\nexcept (B, C) as e:\n    d(2)\nelse:\n    f\nfinally:\n    g(3)\n",
    "backslash": "x = a + \\\n    b(1)\nassert c, \\\n    d\n",
    "form feed": "\x0cx = f(1)\n\x0c\nclass A:\n    y = g(2)\n",
    "async": (
        "async def f():\n    async with a as b:\n        async for c in d(1):\n            "
        "await e(c)\n"
    ),
    "lambda": "x = [lambda y=f(1): (yield), *z(2)]\n",
}


@pytest.mark.parametrize("text", _TEXTS.values(), ids=_TEXTS.keys())
def test_places_in_odd_layouts(text: str) -> None:
    known, _ = _compare(text)
    assert known


def test_places_behind_what_libcst_does_not_give_back() -> None:
    text = "try:\n    a\nexcept OSError :\n    x = g(1)\ny = h(2)\n"
    tree, units = _units(text)
    spans = [units.span(call, False) for call in tree.nodes(cst.Call)]
    assert [text[span.start : span.end] for span in spans if span is not None] == ["g(1)", "h(2)"]


def test_another_text_has_no_places() -> None:
    tree, _ = _units("x = f(1)\n")
    other = "y = f(1)\n"
    units = StatementSpans(tree.root, other, Statements(tree.root, other, None), tree.parents.get)
    assert units.span(tree.nodes(cst.Call)[0], False) is None


def test_a_text_for_a_newer_python_has_no_places() -> None:
    root = cst.parse_module("x = f(1)\n")
    broken = "x = f(1\n"
    assert Statements(root, broken, None).span(root.body[0]) is None
