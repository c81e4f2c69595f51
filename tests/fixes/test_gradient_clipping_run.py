"""Loops that clip each gradient by value are executed before and after TL510's fix: gradients and
parameters end as they did."""

from __future__ import annotations

import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL510"})
PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(9)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
most = 0.01
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(5, 4).cuda()).square().sum().backward()
{loop}    optimizer.step()
"""
CLIPPED = {
    "data": "for p in net.parameters():\n    p.grad.data.clamp_(-0.01, 0.01)\n",
    "gradient": "for p in net.parameters():\n    p.grad.clamp_(min=-most, max=most)\n",
    "list": "params = list(net.parameters())\nfor p in params:\n    p.grad.clamp_(-1e-3, 1e-3)\n",
}
NEAR = {
    "other bounds": "for p in net.parameters():\n    p.grad.data.clamp_(-0.01, 0.02)\n",
    "weights": "for p in net.parameters():\n    p.data.clamp_(-0.01, 0.01)\n",
    "a comment": "for p in net.parameters():\n    p.grad.data.clamp_(-0.01, 0.01)  # why\n",
    "read later": "for p in net.parameters():\n    p.grad.data.clamp_(-1, 1)\nq = p\n",
    "more": "for p in net.parameters():\n    p.grad.data.clamp_(-1, 1)\n    p.grad.mul_(2)\n",
}


def program(loop: str) -> str:
    return PROGRAM.format(loop="".join(f"    {line}\n" for line in loop.splitlines()))


@pytest.mark.parametrize("name", CLIPPED)
def test_clip_grad_value_does_the_same(name: str) -> None:
    source = program(CLIPPED[name])
    after = fixed(source, "unsafe", codes=CODES).after
    assert "torch.nn.utils.clip_grad_value_(" in after
    assert "clamp_" not in after
    before, now = (ran(each)[0]["net"] for each in (source, after))
    for one, two in zip(before.parameters(), now.parameters(), strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one.grad, two.grad)


@pytest.mark.parametrize("name", NEAR)
def test_what_does_something_else_stays(name: str) -> None:
    assert check(program(NEAR[name]), codes=CODES).findings
    assert fixed(program(NEAR[name]), "unsafe", codes=CODES).after == ""
