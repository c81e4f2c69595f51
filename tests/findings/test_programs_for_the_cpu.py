"""A program that sets its device to the CPU, and that no other file uses, waits for no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check

PROGRAM = """\
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)
        self.log = []

    def learn(self, optimizer, batches):
        for x in batches:
            loss = self.net(x).sum()
            loss.backward()
            optimizer.step()
            self.log.append(loss.item())


def run(agent, batches):
    {taken}
    batches = [torch.zeros(4).to(device) for _ in batches]
    agent.learn(torch.optim.SGD(agent.parameters()), batches)


if __name__ == "__main__":
    device = {device}
    run(Agent().to(device), range(9))
"""


def waits(folder: Path, taken: str, device: str) -> bool:
    text = PROGRAM.format(taken=taken, device=device)
    (folder / "main.py").write_text(text)
    found = check(text, codes=frozenset({"TL101"}), name="main.py", root=str(folder))
    return bool(found.findings)


@pytest.mark.parametrize(
    "taken",
    [
        "device = next(agent.parameters()).device",
        "device = next(agent.net.parameters()).device",
        "agent.train()",
    ],
)
@pytest.mark.parametrize("device", ["'cpu'", "torch.device('cpu')"])
def test_it_is_left_alone(tmp_path: Path, taken: str, device: str) -> None:
    assert not waits(tmp_path, taken, device)


@pytest.mark.parametrize(
    ("taken", "device"),
    [("agent.train()", "'cuda'"), ("device = torch.device(agent.place)", "'cpu'")],
)
def test_its_twins_are_not(tmp_path: Path, taken: str, device: str) -> None:
    assert waits(tmp_path, taken, device)


MADE = """\
import numpy as np
import torch

model = torch.load("net")
optimizer = torch.optim.Adam(model.parameters())


def tensors(arrays, device{default}):
    return {{k: torch.tensor(v, device=device) for k, v in arrays.items()}}


def data():
    return {{"a": np.random.rand(9, 2)}}


def losses(net, inputs):
    return {{k: net(v).square().mean() for k, v in inputs.items()}}


for i in range(100):
    found = losses(model, tensors(data(){given}))
    loss = sum(found.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


@pytest.mark.parametrize(
    ("default", "given", "read"),
    [
        ("='cpu'", "", False),
        (": str = 'cpu'", "", False),
        ("='cpu'", ", device='cpu'", False),
        ("='cuda'", "", True),
        ("='cpu'", ", device='cuda'", True),
        ("='cpu', to=None", ", device=torch.device('cuda')", True),
        ("", ", best_device()", True),
    ],
)
def test_what_is_made_on_the_cpu_by_default(default: str, given: str, read: bool) -> None:
    found = check(
        MADE.format(default=default, given=given), codes=frozenset({"TL105"}), name="main.py"
    )
    assert bool(found.findings) is read
