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
