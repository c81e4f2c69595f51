"""A loop that calls a function of another file that is one training step is a training loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.semantic.test_project import analysed, probe
from torchlint.semantic.time.heat import heat_of

ENGINE = """
def train_step(model, optimizer, batches):
    optimizer.zero_grad()
    for x, y in batches:
        loss = model(x, y)
        loss.backward()
    optimizer.step()
    return loss

def train_epoch(model, optimizer, loader):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()

def evaluate(model, x):
    return model(x).mean()

def outer_step(model, optimizer, batches):
    return train_step(model, optimizer, batches)

class Agent:
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer

    def learn(self, memory):
        loss = self.net(memory.sample()).mean()
        loss.backward()
        self.optimizer.step()

    def act(self, state):
        return self.net(state)

class Heir(Agent):
    pass
"""
LOOP = """
import engine
from engine import Agent, Heir, evaluate, outer_step, train_epoch, train_step
from torch import nn

def main(net, optimizer, draw):
    agent, heir = Agent(net, optimizer), Heir(net, optimizer)
    step = 0
    while step < 1000:
        batches = draw()
        loss = {}
        step += 1
        probe(loss)
"""


@pytest.mark.parametrize(
    ("call", "hot"),
    [
        ("train_step(net, optimizer, batches)", True),
        ("engine.train_step(net, optimizer=optimizer, batches=batches)", True),
        ("outer_step(net, optimizer, batches)", True),
        ("agent.learn(batches)", True),
        ("heir.learn(batches)", True),
        ("train_epoch(net, optimizer, batches)", False),
        ("evaluate(net, batches)", False),
        ("agent.act(batches)", False),
        ("agent.unheard_of(batches)", False),
        ("Agent(net, optimizer)", False),
    ],
)
def test_a_step_in_another_file(tmp_path: Path, call: str, hot: bool) -> None:
    found = analysed(tmp_path, {"engine.py": ENGINE, "train.py": LOOP.format(call)}, "train.py")
    assert heat_of(found, probe(found)).hot is hot
