"""A method with a plain name that a file calls on what it is handed: it runs as often there, where
another file makes an object of its class under that very name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.semantic.test_project import analysed, probe
from torchlint.semantic.time.heat import heat_of

BUFFERS = """
import torch

class {cls}:
    def __init__(self):
        self.rows = []

    def sample(self, count):
        probe(self.rows[:count])
"""
LEARNER = """
class Learner:
    def train(self, {memory}):
        batch = {memory}.sample(32)
        loss = self.net(batch).mean()
        loss.backward()
        self.optimizer.step()
"""
TRAINER = """
class Trainer:
    def __init__(self, agent):
        self.agent = agent

    def run(self, net, optimizer):
        for _ in range(1000):
            loss = net(self.agent.memory.sample(32)).mean()
            loss.backward()
            optimizer.step()
"""
LOOP = """
def learn(net, optimizer, memory):
    while True:
        loss = net(memory.sample(32)).mean()
        loss.backward()
        optimizer.step()
"""
MAIN = """
import buffers
from learner import {learner}

memory = buffers.{cls}()
"""


def heat(folder: Path, files: dict[str, str]) -> bool:
    module = analysed(folder, files, "buffers.py")
    return heat_of(module, probe(module)).train


PROGRAMS = {
    "Learner": LEARNER.format(memory="memory"),
    "Trainer": TRAINER,
    "learn": LOOP,
}


@pytest.mark.parametrize("learner", PROGRAMS)
def test_what_is_handed_on_is_known_by_the_name_it_was_made_with(
    tmp_path: Path, learner: str
) -> None:
    main = MAIN.format(cls="Replay", learner=learner)
    files = {"buffers.py": BUFFERS.format(cls="Replay"), "learner.py": PROGRAMS[learner]}
    assert heat(tmp_path, {**files, "main.py": main})


@pytest.mark.parametrize("learner", PROGRAMS)
@pytest.mark.parametrize("twin", ["another name", "another class", "another program", "known"])
def test_a_name_that_tells_nothing(tmp_path: Path, learner: str, twin: str) -> None:
    main = MAIN.format(cls="Replay", learner=learner)
    files = {"buffers.py": BUFFERS.format(cls="Replay"), "learner.py": PROGRAMS[learner]}
    if twin == "another name":
        main = main.replace("memory =", "kept =")
    elif twin == "another class":
        files["draws.py"] = "class Draws:\n    def sample(self, count):\n        return count\n"
    elif twin == "another program":
        main = main.replace(f"from learner import {learner}\n", "")
    else:
        known = "import torch\nmemory = torch.distributions.Normal(0.0, 1.0)\n"
        text = PROGRAMS[learner].replace("self.agent.memory", "memory")
        files["learner.py"] = known + text.replace(", memory)", ")")
    assert not heat(tmp_path, {**files, "main.py": main})


MAPPED = """
import torch

class Replay:
    def __init__(self):
        self.rows = []

    def sample(self, count):
        return tuple({applied})

    def tensor(self, row):
        return probe(row)
"""


@pytest.mark.parametrize(
    ("applied", "often"),
    [
        ("map(self.tensor, self.rows)", True),
        ("filter(self.tensor, self.rows)", True),
        ("self.rows.mapped(self.tensor)", True),
        ("map(self.other, self.rows)", False),
        ("self.rows", False),
    ],
)
def test_a_method_that_is_handed_on_runs_as_often_as_other_files_come_to_it(
    tmp_path: Path, applied: str, often: bool
) -> None:
    files = {
        "buffers.py": MAPPED.format(applied=applied),
        "learner.py": PROGRAMS["Learner"],
        "main.py": MAIN.format(cls="Replay", learner="Learner"),
    }
    assert heat(tmp_path, files) is often
