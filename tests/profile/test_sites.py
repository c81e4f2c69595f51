"""Lines of calls: where the source has one place alone that can have made a call it is told, and
nothing is told that is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from torchlint.profile.align import Aligner, Called
from torchlint.profile.sites import Source, Sources

TEXT = """import torch

def plain(x, flags):
    y = x.cuda()
    if y.sum() > 0:
        y = helper(y)
    def inner():
        return x.item()
    return (
        y
        .item()
    )

@torch.no_grad()
@other
def decorated(x):
    return x.to("cpu"), x.to("cuda")

class A:
    def forward(self, x):
        for each in x:
            print(float(each))

def several(x):
    return float(x), int(x)

class B(A):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(2, 2)

value = torch.ones(3).tolist()
"""
SOURCE = Source("/home/me/project/pkg/train.py", "pkg/train.py", TEXT)


def found(function: str, first: int, *calls: Called, builtins: bool = True) -> list[str]:
    """Return the lines of a function's calls; "?" before those that are probable."""
    body = SOURCE.body(function, first, inline=False)
    assert body is not None
    lines = Aligner(body, builtins=builtins).lines(calls)
    return [f"{'' if one.only else '?'}{one.line}" for one in lines]


def builtin(name: str) -> Called:
    return Called("builtin", name)


def operator(name: str) -> Called:
    return Called("operator", name)


def python(name: str, line: int = 1, **more: Any) -> Called:
    return Called("function", name, line, **more)


def module(name: str) -> Called:
    return Called("module", name)


@pytest.mark.parametrize(
    ("function", "first", "called", "line"),
    [
        ("plain", 3, builtin("item"), "11"),
        ("plain", 3, builtin("cuda"), "4"),
        ("plain", 3, python("helper"), "6"),
        ("plain", 3, operator("gt"), "5"),
        ("plain", 3, operator("is_nonzero"), "5"),
        ("plain", 3, operator("mm"), "?0"),
        ("plain", 3, builtin("tolist"), "?0"),
        ("decorated", 14, builtin("to"), "17"),  # both stand in one line
        ("<module>", 7, builtin("tolist"), "32"),
        ("forward", 20, operator("item"), "22"),
        ("several", 24, operator("item"), "25"),
        ("__init__", 28, python("__init__"), "?29"),
        ("__init__", 28, python("__init__", classes=frozenset({"A", "B"})), "29"),
        ("<module>", 1, python("A", 19), "19"),
    ],
)
def test_a_line_is_told_where_it_is_the_only_one(
    function: str, first: int, called: Called, line: str
) -> None:
    assert found(function, first, called) == [line]


def test_operators_without_calls_around_them_are_calls_too() -> None:
    """Where a trace leaves built-in functions out, an operator may be a method's or the test's."""
    assert found("plain", 3, operator("item"), builtins=False) == ["?5"]
    assert found("plain", 3, operator("sum"), builtins=False) == ["5"]


ORDER = """def loop(x, fn):
    y = x.item()
    for each in x:
        y += each.item()
        if y > 3:
            y = step(y)
        else:
            y = step(y).abs()
        fn(y)
    return y.item(), y.relu()

class Net(Module):
    def __init__(self):
        self.first = Linear(2, 2)
        self.second = Linear(2, 2)
        self.act = make()

    def forward(self, x):
        x = self.first(x)
        x = self.act(x)
        x = self.second(x)
        for each in self.several:
            x = each(x)
        return x

def over(items):
    total = 0
    for one in produce(items):
        total += use(one)
    more = produce(items)
    kept = [use(each) for each in items]
    x, y = total.T
    with guard(x):
        y[0] = -x
    return f"{y}" + str(kept)
"""


def ordered(function: str, first: int, *calls: Called) -> list[str]:
    body = Source("/a.py", "a.py", ORDER).body(function, first, inline=False)
    assert body is not None
    lines = Aligner(body, builtins=True).lines(calls)
    return [f"{'' if one.only else '?'}{one.line}" for one in lines]


def test_the_order_of_calls_tells_their_lines() -> None:
    item, step = builtin("item"), python("step")
    turn = (item, step, builtin("abs"), python("other"))
    assert ordered("loop", 1, item, *turn, *turn, item, builtin("relu")) == [
        *("?2", "?4", "?8", "8", "?9", "?4", "?8", "8", "?9", "?10", "10")
    ]
    assert ordered("loop", 1, item, item, step, item, step, python("other"), item) == [
        *("?2", "?4", "?6", "?4", "?6", "?9", "?10")
    ]


def test_what_no_place_explains_has_no_line() -> None:
    assert ordered("loop", 1, builtin("item"), builtin("relu"), builtin("item")) == [
        *("?0", "10", "?0")  # either of two may be the first, and there is no way back
    ]


def test_modules_are_known_by_their_class() -> None:
    linear = module("Linear")
    assert ordered("forward", 18, linear, module("ReLU"), linear, linear, linear) == [
        *("?19", "?20", "?21", "?23", "?23")
    ]


def test_syntax_calls_methods_of_protocols() -> None:
    produce = python("produce", generator=True)
    assert ordered(
        "over", 26, produce, python("use"), produce, python("use"), produce,
        python("<listcomp>", 31, same=True), operator("numpy_T"), python("__iter__"),
        python("guard"), python("__enter__"), operator("neg"), operator("fill_"),
        python("__exit__"), python("__format__"), python("__repr__"),
    ) == [
        *("28", "29", "28", "29", "28", "31", "32", "?32"),
        *("33", "33", "34", "34", "33", "35", "35"),
    ]  # fmt: skip


def test_a_wrapper_is_seen_through() -> None:
    wrapper = python("decorate_context", inner=frozenset({"step", "clone"}))
    assert ordered("over", 26, replace(wrapper, inner=frozenset({"use"}))) == ["?29"]
    assert ordered("over", 26, replace(wrapper, own=frozenset({"use"}))) == ["29"]


def test_classes_are_known_with_their_heirs() -> None:
    other = Source("/b.py", "b.py", "class C(pkg.B):\n    pass\n\nclass D(C, A):\n    pass\n")
    sources = Sources([SOURCE, other])
    assert sources.heirs("A") == {"A", "B", "C", "D"}
    assert sources.heirs("C") == {"C", "D"}
    assert SOURCE.owner("__init__", 28) == "B"
    assert SOURCE.owner("plain", 3) == ""


def test_functions_are_known_by_name_and_first_line() -> None:
    for name, first, there in (
        ("decorated", 14, True),
        ("decorated", 16, False),
        ("other", 3, False),
        ("<module>", 7, True),
        ("<lambda>", 4, False),
    ):
        assert SOURCE.holds(name, first) == there
    one = Source(
        "/a.py", "a.py", "x = [f(a) for a in b] + [\n    g(a) for a in b]\nh = lambda: 1\n"
    )
    assert one.body("<listcomp>", 1, inline=False) is None  # two of them begin there
    assert not one.one_line("<listcomp>", 1)
    assert one.one_line("<lambda>", 3)
    assert SOURCE.nested("inner", 7)
    assert not SOURCE.nested("plain", 3)


def test_a_file_that_is_no_python_has_no_functions() -> None:
    assert not Source("/a.py", "a.py", "def f(:\n").holds("f", 1)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("pkg/train.py", True),
        ("train.py", True),
        ("other/train.py", False),
        ("/home/me/project/pkg/train.py", True),
        ("/elsewhere/pkg/train.py", True),
        ("pkg/test.py", False),
    ],
)
def test_a_path_of_a_trace_finds_its_file(path: str, found: bool) -> None:
    assert (Sources([SOURCE]).of(path) is SOURCE) == found


def test_two_files_of_one_name_are_told_apart_or_not_at_all() -> None:
    other = Source("/home/me/project/b/train.py", "b/train.py", "")
    both = Sources([SOURCE, other])
    assert both.of("pkg/train.py") is SOURCE
    assert both.of("b/train.py") is other
    assert both.of("train.py") is None


def test_files_that_lie_elsewhere_are_read_there(tmp_path: Path) -> None:
    (tmp_path / "new" / "sub").mkdir(parents=True)
    (tmp_path / "new" / "sub" / "a.py").write_text("def f():\n    pass\n")
    (tmp_path / "outside.py").write_text("")
    known = Source(str(tmp_path / "new" / "b.py"), "b.py", "")
    sources = Sources([SOURCE, known], [("/ci/app/", str(tmp_path / "new"))])
    found = sources.of("/ci/app/sub/a.py")
    assert found is not None
    assert found.holds("f", 1)
    assert sources.of("/ci/app/b.py") is known
    assert sources.of("/ci/app/../outside.py") is None
    assert sources.of("/ci/application/sub/a.py") is None
    assert sources.of("pkg/train.py") is SOURCE
    one = Sources([], [("/ci/one.py", str(tmp_path / "outside.py"))])
    assert one.of("/ci/one.py") is not None
