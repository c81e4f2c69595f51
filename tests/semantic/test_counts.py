"""Numbers that count something are never negative, and ranges between such count up."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.semantic.test_values import module as parsed
from torchlint.semantic.module import Module
from torchlint.semantic.values.counts import counts_up, never_negative

NET = """
def f(x: torch.Tensor, k, flag):
    b, c = x.shape
    h, w = x.size()
    n = len(k)
    m = n // 2
    either = n
    if flag:
        either = k
    probe({code})
"""


def probed(code: str) -> tuple[Module, cst.BaseExpression]:
    module = parsed(NET.replace("{code}", code))
    (call,) = (c for c in module.nodes(cst.Call) if module.source_of(c.func) == "probe")
    return module, call.args[0].value


@pytest.mark.parametrize(
    "code",
    [
        "3",
        "b",
        "w",
        "x.size(0)",
        "x.shape[-1] + 1",
        "x.dim()",
        "x.numel()",
        "m",
        "int(0.5 * n)",
        "n / 2",
        "max(k, 0)",
        "max(k, n)",
        "min(n, b)",
        "round(n * 0.3)",
        "x.size()[0]",
    ],
)
def test_a_size_is_never_negative(code: str) -> None:
    assert never_negative(*probed(code))


@pytest.mark.parametrize(
    "code",
    [
        "k",
        "-1",
        "n - 1",
        "either",
        "max(k, flag)",
        "max(*k)",
        "max(k, key=len)",
        "min(n, k)",
        "int(k)",
        "k.size(0)",
        "k.shape[0]",
        "abs",
        "n % k",
        "pow(n, k)",
    ],
)
def test_what_may_be_negative_is_not_known_to_count(code: str) -> None:
    assert not never_negative(*probed(code))


@pytest.mark.parametrize(
    ("code", "up"),
    [
        ("range(n)", True),
        ("range(0, n)", True),
        ("range(k)", False),
        ("range(1, n)", False),
        ("range(0, n, 2)", False),
        ("range(*n)", False),
        ("range()", False),
    ],
)
def test_a_range_between_sizes_counts_up(code: str, up: bool) -> None:
    module, call = probed(code)
    assert isinstance(call, cst.Call)
    assert counts_up(module, call) is up
