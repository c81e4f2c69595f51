"""Cells that are not Python yet: what stands for them binds their names, and no others, and has
their rows."""

from __future__ import annotations

import ast

import pytest

from torchlint.source.unfinished import unfinished

BOUND = [
    ("x = (", "x"),
    ("x = y = z = (", "x y z"),
    ("x += 1 +", "x"),
    ("x //= (", "x"),
    ("x: int = (", "x"),
    ("(w := 3", "w"),
    ("a, b = f(", "a b"),
    ("torch.backends.cudnn.benchmark = True)", "torch.backends.cudnn.benchmark"),
    ("for i, (x, y) in enumerate(q", "i x y"),
    ("with open(p) as fh", "fh"),
    ("except OSError as error", "error"),
    ("def f(q", "f"),
    ("class A(B", "A"),
    ("import a as b, os.path as p, (", "a b p"),
    ("import os.path, (", "os"),
    ("from a import (b,\n c as d,\n", "b c d"),
    ("if x == 1 and y <= z != 2", ""),
    ("f(x", ""),
    ("x[0] = (", ""),
    ("None = 1", ""),
    ("a² = 1", ""),
    ("x\0 = 1", "x"),
    (")", ""),
]


@pytest.mark.parametrize(("source", "names"), BOUND, ids=[source for source, _ in BOUND])
def test_all_names_of_the_cell_are_bound_to_what_nobody_knows(source: str, names: str) -> None:
    for indent in ("", " "):
        text = unfinished(source, "_mark", indent)
        tree = ast.parse(f"if True:\n{text}" if indent else text)
        targets = [
            ast.unparse(target)
            for each in ast.walk(tree)
            if isinstance(each, ast.Assign)
            for target in each.targets
        ]
        assert targets == names.split()
        assert "_mark" in [each.id for each in ast.walk(tree) if isinstance(each, ast.Name)]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_rows_stay_as_comments(newline: str) -> None:
    source = newline.join(["x = (", "  # torchlint: file-ignore", "", "y", ""])
    assert (
        unfinished(source, "_m", "") == "x = _m  # x = (\n#   # torchlint: file-ignore\n# \n# y\n# "
    )


def test_imports_stay_what_they_are() -> None:
    source = "import torch  # why\n  from a import *; import b.c as d\nimport e; f = 1\nx = ("
    first = unfinished(source, "_m", "").split("\n")[0]
    assert (
        first
        == "import torch; from a import *; import b.c as d; e = f = x = _m  # import torch  # why"
    )
