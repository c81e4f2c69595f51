"""What a method gives load_state_dict is a checkpoint, not a batch on the device."""

from __future__ import annotations

import pytest

from tests.checking import check

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.decay = 0.9
        self.step = 0

    {restores}

    def forward(self, x):
        alpha = min(1 - 1 / (self.step + 1), self.decay)
        if self.step > 10:
            x = x * alpha
        self.step += 1
        return self.body(x)


def train(loader, opt):
    model = Net(nn.Linear(3, 3)).cuda()
    for x, y in loader:
        loss = model(x.cuda(non_blocking=True)).sum()
        loss.backward()
        opt.step()
"""

CHECKPOINTS = [
    """def load_state_dict(self, state_dict, *args, **kwargs):
        self.body.load_state_dict(state_dict["body"])
        self.decay = state_dict.get("decay", 0.99)
        self.step = state_dict.get("step", 0)""",
    """def resume(self, saved):
        self.body.load_state_dict(saved["body"], strict=False)
        self.step = saved["step"]""",
    """def restore(self, state):
        self.body.load_state_dict(state_dict=state["body"])
        self.step, self.decay = state["step"], state["decay"]""",
]
BATCHES = [
    """def warm(self, batch):
        self.body(batch["x"])
        self.step = batch["step"]""",
    """def warm(self, given):
        given["x"].mean()
        self.step = given["step"]""",
    """def warm(self, given):
        self.body.load_state_dict(given["body"])
        self.body(given["x"])
        self.step = given["step"]""",
]


def _found(restores: str) -> int:
    text = NET.format(restores=restores)
    return len(check(text, codes=frozenset(("TL602",))).findings)


@pytest.mark.parametrize("restores", CHECKPOINTS)
def test_what_is_restored_is_no_tensor_of_the_step(restores: str) -> None:
    assert not _found(restores)


@pytest.mark.parametrize("restores", BATCHES)
def test_what_the_network_is_given_is_one(restores: str) -> None:
    assert _found(restores)
