"""libcst's nodes with our methods: the same identity, the same types, the same trees, validation as
ever."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from torchlint.semantic.code.quick_nodes import SHARED, patch_libcst_nodes, unchecked
from torchlint.semantic.code.tree import children

_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_FILES = (
    "dataclasses.py",
    "typing.py",
    "asyncio/tasks.py",
    "json/decoder.py",
    "test/test_generators.py",
)


def _concrete(base: type) -> Iterator[Any]:
    for each in type.__subclasses__(base):
        if not getattr(each, "__abstractmethods__", ()):
            yield each
        yield from _concrete(each)


@pytest.fixture(autouse=True)
def quickened() -> None:
    patch_libcst_nodes()


def test_nodes_are_keys_by_identity() -> None:
    one, other = cst.Name("x"), cst.Name("x")
    assert one == one
    assert one != other
    assert {one: 1}.get(other) is None
    assert hash(one) == hash(one)
    assert one.deep_equals(other)


def test_types_answer_as_python_says() -> None:
    nodes = [
        cst.Name("x"),
        cst.Integer("1"),
        cst.Pass(),
        cst.SimpleString("'a'"),
        cst.Call(cst.Name("f")),
    ]
    classes = set(_concrete(cst.CSTNode)) | {
        cst.BaseExpression,
        cst.BaseSmallStatement,
        cst.BaseNumber,
        cst.CSTNode,
    }
    for node in nodes:
        for each in classes:
            assert isinstance(node, each) is (each in type(node).__mro__)
            assert issubclass(type(node), each) is (each in type(node).__mro__)
    assert not isinstance("x", cst.Name)


@pytest.mark.parametrize("name", _FILES)
def test_a_parse_without_validation_gives_the_same_tree(name: str) -> None:
    path = _STDLIB / name
    if not path.exists():
        pytest.skip(f"this Python comes without {name}")
    text = path.read_text(encoding="utf-8")
    usual = cst.parse_module(text)
    with unchecked():
        quick = cst.parse_module(text)
    assert quick.deep_equals(usual)
    assert quick.code == usual.code


def test_every_concrete_node_has_a_quick_way_to_be_made() -> None:
    usual = {
        each.__name__: each
        for each in set(_concrete(cst.CSTNode))
        if getattr(cst, each.__name__, None) is each
    }
    with unchecked() as quick:
        left = {name for name, each in usual.items() if getattr(quick, name) is each}
    assert len(usual) > 150
    assert not left
    assert all(getattr(cst, name) is each for name, each in usual.items())


def test_only_what_the_walk_skips_is_shared() -> None:
    text = (
        "class A:\n    x = [1, 2][0:1:2]\n    if x: pass; y = f(a=(1), b=2).c\nmatch x:\n    "
        "case {'a': 1, }: pass\n"
    )
    with unchecked():
        tree = cst.parse_module(text)
    seen: Counter[int] = Counter()
    todo: list[cst.CSTNode] = [tree]
    while todo:
        node = todo.pop()
        seen[id(node)] += 1
        assert type(node).__name__ not in SHARED
        todo.extend(children(node))
    assert set(seen.values()) == {1}
    commas = [node.comma for node in tree.body[0].body.body[0].body[0].value.value.elements]
    assert commas[0] is not commas[1]
    with unchecked():
        other = cst.parse_module(text)
    assert other.body[0].body.header is not tree.body[0].body.header


def test_nodes_that_we_make_are_validated() -> None:
    with pytest.raises(cst.CSTValidationError):
        cst.Name("")
    with unchecked() as quick:
        quick.Name("")
    with pytest.raises(cst.CSTValidationError):
        cst.Name("")


def test_validation_is_back_after_an_error() -> None:
    with pytest.raises(cst.ParserSyntaxError), unchecked():
        cst.parse_module("def")
    with pytest.raises(cst.CSTValidationError):
        cst.Name("")


def test_defaults_that_are_made_anew_are_not_shared() -> None:
    with unchecked() as quick:
        one, other = quick.Call(cst.Name("f")), quick.Call(cst.Name("g"))
    assert one.whitespace_after_func is not other.whitespace_after_func
    assert one.deep_equals(cst.Call(cst.Name("f")))


def test_the_first_text_that_is_parsed_may_be_a_long_one() -> None:
    code = "from torchlint.semantic.code import quick_nodes as q, text; import libcst as cst\n"
    code += "print(len(q.parsed(cst.parse_module, 'x = 1\\n' * 999).body))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("999\n", "")
