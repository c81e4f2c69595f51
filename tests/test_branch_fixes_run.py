"""Tests of a tensor's truth that TL602 takes away are executed before and after: values, types and
gradients are the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL602"})
HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
net = nn.Linear(3, 4).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = [torch.randn(5, 3), torch.full((5, 3), 9.0), torch.full((5, 3), float("nan"))]
found = []


def train():
    for x in loader:
        out = net(x.to(device)) * 1.0
"""
END = """\
        found.append(out.detach().clone())
        optimizer.zero_grad()
        out.nan_to_num().square().sum().backward()
        found.append(net.weight.grad.clone())


train()
"""


def program(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines()) + END


GONE = {
    "any": "mask = out > 1\nif mask.any():\n    out[mask] = 0",
    "sum": "mask = out != out\nif torch.sum(mask) > 0:\n    out[mask] = -1.0",
    "any of torch, twice": "mask = out < 0.5\nif torch.any(mask):\n    out[mask] = 0.0\n"
    "    out.masked_fill_(mask, -2)",
    "rows": "mask = out[:, 0] > 1\nif mask.sum():\n    out[mask] = 0",
    "a slice": "mask = out[1:] > 1\nif mask.any():\n    out[1:][mask] = float('-inf')",
    "isnan": "bad = torch.isnan(out)\nif bad.any():\n    out[bad] = 0",
    "comparison in the test": "if (out > 1).any():\n    out[out > 1] = 0",
    "counts": "keep = (out > 1).sum(1)\nif torch.sum(keep) > 0:\n    out[keep > 0] = 1",
}
KEPT = {
    "something else": "mask = out > 1\nif mask.any():\n    out[mask] = 0\n    found.append(1)",
    "else": "mask = out > 1\nif mask.any():\n    out[mask] = 0\nelse:\n    out = out * 2",
    "another mask": "mask = out > 1\nif mask.any():\n    out[~mask] = 0",
    "counts of another kind": "keep = (out.long() % 3 - 1).sum(1)\n"
    "if torch.sum(keep) > 0:\n    out[keep > 0] = 1",
    "counts, at another bound": "keep = (out > 1).sum(1)\n"
    "if torch.sum(keep) > 0:\n    out[keep >= 0] = 1",
    "another comparison": "if (out > 1).any():\n    out[out > 0] = 0",
    "all": "mask = out > 1\nif mask.all():\n    out[mask] = 0",
    "positions": "where = out[0].long().clamp(0, 3)\nif where.any():\n    out[where] = 0",
    "a number of the device": "mask = out > 1\nif mask.any():\n    out[mask] = out.mean()",
    "more than one": "mask = out > 1\nif mask.sum() > 1:\n    out[mask] = 0",
}


def ended(source: str) -> list[Any]:
    names, _ = ran(source)
    return [*names["found"], torch.rand(1)]


def changed(source: str) -> str:
    return fixed(source, "unsafe", codes=CODES).after or source


def same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one.nan_to_num(), two.nan_to_num())
    return one == two and [*map(type, one)] == [*map(type, two)]


@pytest.mark.parametrize("name", GONE)
def test_without_the_test_it_is_the_same(name: str) -> None:
    source = program(GONE[name])
    after = changed(source)
    assert after != source
    assert "if torch." not in after
    assert ".any():" not in after
    before, behind = ended(source), ended(after)
    assert len(before) == len(behind)
    assert all(same(one, two) for one, two in zip(before, behind, strict=True))
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", KEPT)
def test_a_test_that_decides_more_stays(name: str) -> None:
    source = program(KEPT[name])
    assert check(source, codes=CODES).findings
    assert changed(source) == source


GIVEN = """\
import torch
from torch import nn

torch.manual_seed(0)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, weight=None, bias=None):
        x = self.linear(x)
        weight_given = weight
        if {test}:
            x = x * weight.view(1, 1)
        bias = bias or x
        if bias:
            x = x + bias.view(-1, 3)
        return x


net = Scaled().cuda()
x = torch.ones(1, 3).cuda()
w = torch.full((1,), 2.0).cuda()
net(x).sum().backward()
net(x, w).sum().backward()
found = [net(x), net(x, w), net.linear.weight.grad]
"""


def test_a_parameter_is_asked_whether_it_was_given() -> None:
    source = GIVEN.format(test="weight").replace("        bias = bias or x\n", "")
    source = source.replace("        if bias:\n            x = x + bias\n", "")
    after = changed(source)
    assert "if weight is not None:" in after
    assert all(same(one, two) for one, two in zip(ended(source), ended(after), strict=True))
    assert changed(after) == after


def test_a_name_that_is_bound_anew_is_asked_as_before() -> None:
    after = changed(GIVEN.format(test="weight_given is not None"))
    assert "if bias:" in after


def test_a_loop_of_tokens_that_ends_when_all_have_ended_is_left_alone() -> None:
    token = (
        "def decode(n):\n    ended = torch.zeros(5, device=device, dtype=torch.bool)\n"
        "    x = loader[0].to(device)\n    for _ in range(n):\n"
        "        ended |= net(x).sum(1) > 0\n        if ended.all():\n            break\n"
    )
    assert not check(HEAD.partition("def train")[0] + token, codes=CODES).findings
    other = token.replace("ended.all()", "ended[0]").replace("break", "x = x * 2")
    assert check(HEAD.partition("def train")[0] + other, codes=CODES).findings
