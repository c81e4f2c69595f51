"""A branch that gives a constant where there is one element at most is no branch of the step."""

from __future__ import annotations

import pytest

from tests.checking import check

LOSS = """\
import torch


def smooth_loss(x, weight):
    x = x.cuda(non_blocking=True)
    {lines}
    loss = torch.var(x, dim=1).mean()
    return loss * weight


def train(model, loader, opt):
    model.cuda()
    for x, y in loader:
        loss = smooth_loss(model(x.cuda(non_blocking=True)), 2)
        loss.backward()
        opt.step()
"""
FILLED = "torch.FloatTensor(1).fill_(0.)[0].to(x.device)"

DEGENERATE = [
    f"if x.shape[1] <= 1:\n        return {FILLED}",
    "if len(x) < 2:\n        return torch.zeros(1).to(x.device)",
    "n = x.size(0)\n    if not n > 1:\n        return torch.tensor(0.0).to(x.device)",
]
ORDINARY = [
    f"if x.shape[1] <= 17:\n        return {FILLED}",
    f"if x.shape[1] > 1:\n        return {FILLED}",
    f"if weight <= 1:\n        return {FILLED}",
    "if x.shape[1] <= 1:\n        x = x * torch.zeros(1).to(x.device)",
    "if x.shape[1] == 1:\n        return torch.zeros(1).to(x.device)",
]


def _found(lines: str) -> int:
    codes = frozenset(("TL102", "TL106"))
    return len(check(LOSS.format(lines=lines), codes=codes).findings)


@pytest.mark.parametrize("lines", DEGENERATE)
def test_a_constant_for_one_element_at_most_is_left(lines: str) -> None:
    assert not _found(lines)


@pytest.mark.parametrize("lines", ORDINARY)
def test_what_may_be_so_in_each_step_is_found(lines: str) -> None:
    assert _found(lines) == 1
