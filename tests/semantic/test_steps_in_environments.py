"""A loop each of whose iterations takes a step in an environment runs as often as the training,
where the updates of that step have a loop of their own."""

from __future__ import annotations

import pytest

from tests.semantic.test_project import probe
from tests.semantic.test_questions import analysed
from torchlint.semantic.time.heat import heat_of

AGENT = """
import torch


class Agent:
    def __init__(self, net):
        self.net = net.cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def act(self, state):
        return self.net(state).argmax().item()

    def update(self, batch):
        loss = self.net(batch).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

"""
WHILE = """
def run(agent: Agent, env, memory):
    for episode in range(100):
        state, done = env.reset(), False
        while not done:
            probe(agent.act(state))
            for _ in range(4):
                agent.update(memory.draw())
            state, reward, done, _ = env.step(agent.act(state))
"""
FOR = """
def run(agent: Agent, env, memory):
    state = env.reset()
    for t in range(100000):
        state, reward, done, cut, info = env.step(probe(state))
        if t % 50 == 0:
            for _ in range(50):
                agent.update(memory.draw())
"""
ENVIRONMENTS = """
def run(agent: Agent, envs, memory):
    state = envs.reset()
    while memory.open:
        with torch.no_grad():
            probe(agent.act(state))
        following, reward, done, _ = envs.step(agent.act(state))
        for batch in memory.draws():
            agent.update(batch)
        state = following
"""
PROGRAMS = {"while": WHILE, "for": FOR, "environments": ENVIRONMENTS}


TWINS = {
    "a rollout, and then the updates": """
def run(agent: Agent, env, memory):
    for iteration in range(100):
        probe(memory)
        for t in range(2048):
            state, reward, done, _ = env.step(agent.act(memory.state))
        for batch in memory.draws():
            agent.update(batch)
""",
    "a scheduler": """
def run(agent: Agent, scheduler, loader):
    for epoch in range(100):
        for batch in loader:
            agent.update(batch)
        probe(loader)
        rate = scheduler.step(epoch)
""",
    "what is asked for no action": """
def run(agent: Agent, logs, memory):
    for epoch in range(100):
        for _ in range(500):
            agent.update(memory.draw())
        probe(memory)
        losses, times, rates, sizes = logs.step()
""",
}


def trains(program: str) -> bool:
    module = analysed(AGENT + program)
    return heat_of(module, probe(module)).train


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_with_updates_of_their_own(name: str) -> None:
    assert trains(PROGRAMS[name])


@pytest.mark.parametrize("name", TWINS)
def test_near_misses(name: str) -> None:
    assert not trains(TWINS[name])
