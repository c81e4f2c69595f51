"""A program that sets its device to the CPU, and that no other file uses, waits for no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, job
from tests.semantic.test_broken import project_of
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

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


SWITCHED = """\
import torch
from torch import nn
import pytorch_util as ptu

{first}


def fit(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for x in batches:
        loss = model(x.to(ptu.device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


{then}
print(fit(nn.Linear(8, 2).to(ptu.device), torch.load("batches")))
{last}
"""
OFF, ON = "ptu.set_gpu_mode(False)", "ptu.set_gpu_mode(True)"


@pytest.mark.parametrize(
    ("first", "then", "last", "count"),
    [
        (OFF, "", "", 0),
        (ON, OFF, "", 0),
        (OFF, "", ON, 0),
        (OFF, "", f"{ON}\nprint(fit(nn.Linear(8, 2).to(ptu.device), []))", 1),
        (OFF, ON, "", 1),
        (ON, "", OFF, 1),
        ("ptu.set_gpu_mode(torch.cuda.is_available())", "", "", 1),
    ],
)
def test_a_switch_that_turns_the_gpu_off(first: str, then: str, last: str, count: int) -> None:
    text = SWITCHED.format(first=first, then=then, last=last)
    found = check(text, codes=frozenset({"TL101"}), name="main.py")
    assert len(found.findings) == count


AGENT = """\
import torch
from torch import nn


class Agent:
    def __init__(self, size, device={default}):
        self.device = device
        self.net = nn.Linear(size, 2).to(device)

    def train(self, batches):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for x in batches:
            loss = self.net(x.to(self.device)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if loss > 3:
                loss = loss * 2
            print(loss.item())
"""


@pytest.mark.parametrize(
    ("made", "others", "told"),
    [
        ("Agent(8, device='cpu')", "", False),
        ("Agent(8, torch.device('cpu'))", "", False),
        ("Agent(device='cpu', size=8)", "other = Agent(4, 'cpu')", False),
        ("Agent(8)", "", True),
        ("Agent(8, device='cpu')", "other = Agent(4)", True),
        ("Agent(8, device='cpu')", "class Other(Agent):\n    pass", True),
        ("Agent(8, device=choice)", "", True),
    ],
)
def test_objects_that_are_given_the_cpu(tmp_path: Path, made: str, others: str, told: bool) -> None:
    text = AGENT.format(default="'cuda' if torch.cuda.is_available() else 'cpu'")
    run = (
        f"import torch\nfrom agent import Agent\n\n{others}\nif __name__ == '__main__':\n"
        f"    agent = {made}\n    agent.train(torch.load('x'))\n"
    )
    project_of(tmp_path, {"agent.py": text, "run.py": run})
    forget()
    job_ = job(text, name="agent.py", root=str(tmp_path))
    codes = {each.code for each in analyse_job(job_).findings}
    assert bool(codes & {"TL101", "TL105", "TL103", "TL602"}) is told
