"""Imports that fixes leave without a use go with them."""

from __future__ import annotations

import textwrap

import pytest

from tests.checking import check, fixed

HEAD = """\
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 8) for _ in range(3)]


def train():
    for x in batches:
        model(x).sum().backward()
        optimizer.step()
"""
CALL = "        gc.collect()\n"


def after(source: str, **settings: object) -> str:
    return fixed(source, "unsafe", codes=frozenset({"TL702"}), **settings).after or source


def test_an_import_goes_with_its_last_use() -> None:
    assert after("import gc\n\n" + HEAD + CALL) == HEAD


def test_what_fixes_take_away_together_is_asked_only_where_they_are_applied() -> None:
    source = "import gc\n\n" + HEAD + CALL + CALL
    fixes = [each.fix for each in check(source, codes=frozenset({"TL702"})).findings]
    assert len(fixes) == 2
    for fix in fixes:
        assert fix is not None
        assert len(fix.edits) == 1
        assert not fix.uses
    assert after(source) == HEAD


def test_it_goes_with_the_last_of_several_fixes() -> None:
    more = "        optimizer.zero_grad()\n"
    assert after("import gc\n" + HEAD + CALL + more + CALL + CALL) == HEAD + more


@pytest.mark.parametrize(
    ("before", "expected"),
    {
        "one of two": ("import gc, sys", "import sys"),
        "the last of two": ("import sys, gc", "import sys"),
        "under another name": ("import gc as garbage", None),
        "a name of it": ("from gc import collect", None),
        "one of its names": ("from gc import freeze, collect", "from gc import freeze"),
    }.values(),
)
def test_what_of_an_import_goes(before: str, expected: str | None) -> None:
    call = "        garbage.collect()\n" if "garbage" in before else CALL
    call = "        collect()\n" if "from" in before else call
    gone = f"{expected}\n" if expected else ""
    assert after(f"{before}\n{HEAD}{call}") == gone + HEAD


def test_an_import_with_a_comment_in_it_stays_and_the_call_goes() -> None:
    line = "from gc import (\n    collect,  # frees memory\n)\n"
    assert after(f"{line}{HEAD}        collect()\n") == line + HEAD


def test_an_import_of_several_lines_goes() -> None:
    assert after(f"from gc import (\n    collect,\n)\n{HEAD}        collect()\n") == HEAD


def test_an_import_inside_a_function_goes() -> None:
    head = HEAD.replace("def train():\n", "def train():\n    import gc\n\n")
    assert after(head + CALL) == HEAD
    other = "\n\ndef report():\n    import gc\n\n    return gc.get_count()\n"
    assert after(head + CALL + other) == HEAD + other


KEPT = {
    "another use": ("import gc", "print(gc.isenabled())"),
    "a use in an annotation": ("import gc", "def f(x: gc.Any): ..."),
    "a use in a quoted annotation": ("import gc", 'def f(x: "gc.Any"): ...'),
    "a use in a doctest": ("import gc", 'def f():\n    """\n    >>> gc.get_count()\n    """'),
    "a use in a type comment": ("import gc", "x = []  # type: list[gc.Any]"),
    "exported": ("import gc", '__all__ = ["gc"]'),
    "looked up by a string": ("import gc", 'print(eval("g" + "c"))'),
    "a comment behind": ("import gc  # noqa", ""),
    "a comment above": ("import sys\n# for the memory\nimport gc", "print(sys)"),
    "beside another statement": ("import gc; import sys", "print(sys)"),
    "bound elsewhere too": ("import gc", "gc = gc"),
    "in a try": ("try:\n    import gc\nexcept ImportError:\n    raise", ""),
}


@pytest.mark.parametrize(("line", "more"), KEPT.values(), ids=KEPT)
def test_an_import_stays(line: str, more: str) -> None:
    source = f"{line}\n{HEAD}{CALL}\n\n{more}\n"
    assert after(source) in (source.replace(CALL, ""), source)


def test_an_import_stays_in_a_package_and_where_other_files_may_look() -> None:
    source = "import gc\n" + HEAD + CALL
    assert after(source, name="pkg/__init__.py") == source.replace(CALL, "")


def test_docstrings_that_speak_of_a_module_do_not_keep_it() -> None:
    says = '\n\ndef f():\n    """Return what gc.collect found."""\n'
    assert after("import gc\n" + HEAD + CALL + says) == HEAD + says


def test_assignments_take_an_import_away_together() -> None:
    before = textwrap.dedent("""\
        import os

        import torch

        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
        model = torch.nn.Linear(8, 4)
        """)
    result = fixed(before, "unsafe", codes=frozenset({"TL803"})).after
    assert result == "import torch\n\nmodel = torch.nn.Linear(8, 4)\n"
