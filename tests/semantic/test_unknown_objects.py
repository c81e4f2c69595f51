"""A method that objects of an unknown class may have as well: what it returns is theirs, too."""

from __future__ import annotations

import pytest

from tests.checking import fixed

SOURCE = """
import torch
from torch import nn


class Trainer:
    def __init__(self, net: nn.Module):
        self.net = net.cuda()
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(self, x, y):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, loader):
        total = 0.0
        for x, y in loader:
            total += self.step(x, y)
        return total / len(loader)


class Meter:
    def step(self, x, y):
        return x + y


def beside(loader, team, env, pick, meter: Meter):
    for x, y in loader:
        print({call})


Trainer(nn.Linear(3, 3)).fit([])
"""
MAY_BE_ONE = (
    "team['a'].step(x, y)",
    "team.first.step(x, y)",
    "pick(team).step(x, y)",
    "team.step(*x)",
    "team.step(y=y, x=x)",
)
IS_ANOTHER = (
    "meter.step(x, y)",
    "env.step(x)",
    "env.step(x, y, team)",
    "env.step(action=x, y=y)",
    "torch.step(x, y)",
    "{}.step(x, y)",
)


@pytest.mark.parametrize("call", MAY_BE_ONE)
def test_what_an_object_that_may_be_one_is_given_stays_a_number(call: str) -> None:
    after = fixed(SOURCE.replace("{call}", call), "unsafe", codes=frozenset({"TL101"})).after
    assert "return loss.detach()" not in after


@pytest.mark.parametrize("call", IS_ANOTHER)
def test_calls_that_cannot_be_of_the_method_change_nothing(call: str) -> None:
    after = fixed(SOURCE.replace("{call}", call), "unsafe", codes=frozenset({"TL101"})).after
    assert "return loss.detach()" in after
