"""Lines of calls: where the source has one place alone that can have made a call it is told, and
nothing is told that is not known."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("function", "first", "called", "line"),
    [
        ("plain", 3, "<built-in method item of Tensor object at 0x7f>", 11),
        ("plain", 3, "<built-in method cuda of Tensor object at 0x7f>", 4),
        ("plain", 3, "pkg/other.py(12): helper", 6),
        ("plain", 3, "aten::is_nonzero", 0),  # the test, or .item() where frames are left out
        ("plain", 3, "aten::mm", 0),
        ("decorated", 14, "<built-in method to of Tensor object at 0x7f>", 0),
        ("decorated", 16, "<built-in method to of Tensor object at 0x7f>", None),
        ("other", 3, "aten::item", None),
        ("plain", 4, "aten::item", None),
        ("<lambda>", 4, "aten::item", 0),
        ("<listcomp>", 9, "aten::item", 0),
        ("<module>", 7, "<built-in method tolist of Tensor object at 0x7f>", 32),
        ("A", 19, "aten::mm", 0),
        ("forward", 20, "aten::item", 22),
        ("several", 24, "aten::item", 0),
        ("plain", 3, "nn.Module: Linear_0", 0),
        ("__init__", 28, "torch/nn/modules/linear.py(96): __init__", 0),
        ("__init__", 28, "<built-in method empty of type object at 0x7f>", 0),
        ("<module>", 1, "<built-in method tolist of Tensor object at 0x7f>", 32),
    ],
)
def test_a_line_is_told_where_it_is_the_only_one(
    function: str, first: int, called: str, line: int | None
) -> None:
    assert SOURCE.line(function, first, called) == line


def test_a_file_that_is_no_python_has_no_functions() -> None:
    assert Source("/a.py", "a.py", "def f(:\n").line("f", 1, "aten::item") is None


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
