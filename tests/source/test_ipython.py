"""What only IPython understands is found, and nothing else is."""

from __future__ import annotations

import ast

import pytest

from torchlint.source.ipython import covers
from torchlint.source.notebook import Cell, assembled

NOT_PYTHON = [
    ("%matplotlib inline", [1]),
    ("x = 1\n!pip install torch", [2]),
    ("!!ls", [1]),
    ("files = !ls *.py", [1]),
    ("a, b = %foo", [1]),
    ("d['k'] = !ls", [1]),
    ("x: list = !ls", [1]),
    ("?torch", [1]),
    ("torch.zeros?", [1]),
    ("torch.zeros??\nx = 1", [1]),
    ("%time?", [1]),
    ("foo*?", [1]),
    ("/f x", [1]),
    (",f a b", [1]),
    (";f a b", [1]),
    ("!ls \\\n  -l\nx = 1", [1, 2]),
    ("x = !ls \\\n  -l\nx = 1", [1, 2]),
    ("if a:\n    !ls\nelse:\n    %foo", [2, 4]),
    ("for x in y:\n  z = !ls {x}", [2]),
    ("%foo 'unclosed (\nx = 1", [1]),
    ("%%time\nx = 1", [1]),
    ("  %%time", [1]),
    ("  %%time\n  x = 1", [1]),
    ("%%time\n    x = 1\n    y = 2", [1]),
    ("%%timeit -n 3 s = 1\n\n\tx = 1\n", [1]),
    ("%%capture out\n%%time\n  # note\n  for x in y:\n    !ls\n", [1, 2, 5]),
    ("  %%prun\n      x = 1", [1]),
    ("#@title Form\n\n%%capture out\n%%time\nx = 1", [3, 4]),
    ("%%time?", [1]),
    ("pip install torch", [1]),
    ("cd ..\n", [1]),
    ("'''\n%a\n''' + f(\n1\n)\n%b", [6]),
    ("s = 'it''s'\n!ls", [2]),
    ('s = """a\\"""b"""\n!ls', [2]),
    ("s = 'a\\\r\n!b'\r\n!ls\r\n", [3]),
    ("\r%foo\rx", [2]),
]
PYTHON = [
    "x = 1",
    "print('a=%s' % x)",
    "y = (3\n% 2)",
    "y = 3 \\\n% 2",
    "'''\n%magic\n!bang\nx?\n'''",
    "x = 1  # why?",
    "s = 'why?'",
    "s = ['=!', '=%']",
    "x = {1:\n!r}",
    "x != y",
    "x %= 3",
    "ls = 3",
    "cat(3)",
    "pip = 1\nls",
    "plt.plot(x);",
    "",
    "\n\n",
    "await f()",
]


@pytest.mark.parametrize(("source", "rows"), NOT_PYTHON)
def test_rows_that_only_ipython_understands(source: str, rows: list[int]) -> None:
    found = covers(source)
    assert found is not None
    assert sorted(found[0]) == rows


@pytest.mark.parametrize("source", PYTHON)
def test_python_is_left_alone(source: str) -> None:
    assert covers(source) == ({}, 0)


@pytest.mark.parametrize(
    "source",
    [
        "%%bash\nls",
        "%%html",
        "#@title A\n%%shell\nls",
        "%%sql x\n",
        ">>> x = 1\n>>> y",
        "In [1]: x",
    ],
)
def test_cells_that_are_no_python_as_a_whole(source: str) -> None:
    assert covers(source) is None


@pytest.mark.parametrize(
    ("source", "stands"),
    [
        ("%time a, b = f()", "a, b = {}"),
        ("%time a == f()", "pass  # {}"),
        ("%run other.ipynb", "from {} import *"),
        ("run other.py", "from {} import *"),
        ("if a:\n    %run other.py", "    pass  # {}"),
        ("x = %pwd", "x = {}"),
    ],
)
def test_names_that_a_magic_binds_are_bound(source: str, stands: str) -> None:
    found = covers(source)
    assert found is not None
    assert "{}".join(found[0][max(found[0])]) == stands


@pytest.mark.parametrize("source", [source for source, _ in NOT_PYTHON])
def test_what_stands_for_them_is_python(source: str) -> None:
    notebook = assembled([Cell(1, source)])
    ast.parse(notebook.text)
    assert notebook.sources(notebook.text) == (source,)


@pytest.mark.parametrize(
    "source", [source for source, _ in NOT_PYTHON if not source.startswith(("#@", "pip", "cd"))]
)
def test_ipython_itself_takes_them(source: str) -> None:
    """Colab's comment above a cell magic aside, and what goes without ``%``, which depends on the
    names there are."""
    transformer = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager()
    ast.parse(transformer.transform_cell(source))


@pytest.mark.parametrize(
    ("body", "valid"),
    [
        ("    x = 1\n    y = 2", True),
        ("\n  # note\n  x = 1", True),
        ("# note\n  x = 1", False),
    ],
)
@pytest.mark.parametrize("magic", ["%%time", "%%timeit", "%%capture out", "%%prun"])
def test_an_indented_body_is_python_where_ipython_dedents_it(
    magic: str, body: str, valid: bool
) -> None:
    transformer = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager()
    ours = assembled([Cell(1, "a = 1"), Cell(2, f"{magic}\n{body}"), Cell(3, "b = 1")]).text
    for text in (transformer.transform_cell(body), ours):
        try:
            ast.parse(text)
        except SyntaxError:
            assert not valid
        else:
            assert valid


@pytest.mark.parametrize(
    "source", [*PYTHON, "x = (!ls)", "lambda: !ls", "f(a)?", "x != !ls", "x += !ls", "$x"]
)
def test_ipython_itself_does_not_change_or_take_these(source: str) -> None:
    transformer = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager()

    def accepted(text: str) -> bool:
        try:
            ast.parse(text)
        except SyntaxError:
            return False
        return True

    assert accepted(transformer.transform_cell(source)) is accepted(
        assembled([Cell(1, source)]).text
    )


def test_long_cells_take_linear_time() -> None:
    for source in (
        "%x\n" * 50_000,
        "%x\n" + '"""' * 50_000,
        "%x\n" + "(" * 100_000,
        "a=" * 50_000 + "\n!x",
        "'\\" * 50_000 + "\n%x",
    ):
        assert covers(source) is not None
