"""What the analysis believes of a program is held against a run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import truth

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
import torch
from torch import nn


def train(batches, epochs):
    model = nn.Linear(8, 3).cuda()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for _ in range(epochs):
        for x, y in batches:
            x, y = x.cuda(), y.cuda()
            loss = nn.functional.cross_entropy(
                model(x), y)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            read = getattr(loss, "item")
            total += read()
            print(
                "loss",
                loss.item(),
            )
    return total


def many(x: torch.Tensor) -> int:
    return len(x)
"""
DRIVER = """\
import sys

import torch
import train

train.many([1, 2])
print(train.train([(torch.rand(4, 8), torch.zeros(4, dtype=torch.long))] * 4, int(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_run_is_held_against_what_is_believed(tmp_path: Path) -> None:
    """A hidden read waits unnamed, one on several lines is named; a list comes where the text says
    a tensor."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(PROGRAM)
    driver, out = tmp_path / "drive.py", tmp_path / "found.json"
    driver.write_text(DRIVER)
    command = [sys.executable, str(ROOT / "benchmarks/truth.py"), "--json", str(out)]
    done = subprocess.run(
        [*command, str(project), str(driver), "2"], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(out.read_text())
    assert (found["failure"], found["ledger"], found["refuted"]) == ("", "", [])
    assert found["steps"] == 6, "of the eight the first and the last hold what is around them"
    assert found["beliefs"] > 15
    lie = {"place": "train.py:27", "expression": "x", "believed": "tensor, but list"}
    assert lie in found["false"]
    unnamed = {each["place"]: each for each in found["waiting, not named"]}
    assert "train.py:18" in unnamed, "the hidden read"
    assert unnamed["train.py:18"]["source"].strip() == "total += read()"
    assert unnamed["train.py:18"]["steps"] == 1.0
    assert "every training step" in unnamed["train.py:18"]["pace"]
    assert not {"train.py:19", "train.py:20", "train.py:21"} & set(unnamed), "TL105 names it"
    assert not list(tmp_path.glob(".truth-*")), "nothing is left"


SUM = """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Linear(8, 3).cuda()
loader = DataLoader(TensorDataset(torch.rand(12, 8), torch.zeros(12, dtype=torch.long)), 4)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0.0
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    total += loss.item()
print(total, time.time(), torch.rand(1))
torch.save(net.state_dict(), "net.pt")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "differs"),
    [("", "nothing"), ("print(len(open(__file__).read()))\n", "what is printed")],
)
def test_what_safe_fixes_leave_as_it_was(tmp_path: Path, last: str, differs: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SUM + last)
    command = [sys.executable, str(ROOT / "benchmarks/truth.py"), "--fixed"]
    done = subprocess.run([*command, str(project), "train.py"], capture_output=True, text=True)
    assert "files changed by the safe fixes: train.py" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == f"what differs: {differs}"
    assert done.returncode == int(bool(last))
    assert (project / "train.py").read_text() == SUM + last


BELIEF = {
    "kind": "tensor",
    "loose": False,
    "device": None,
    "dtype": None,
    "rank": None,
    "grad": None,
    "cuda": None,
}
SEEN = {
    "kinds": ["tensor"],
    "type": "Tensor",
    "made": False,
    "cuda": True,
    "dtype": "float32",
    "rank": 2,
    "graph": True,
    "grad": True,
    "enabled": True,
}
HOST = {"kinds": ["bool", "number", "plain"], "type": "bool"}
ABSENT = {"kinds": ["none", "plain"], "type": "NoneType"}


@pytest.mark.parametrize(
    ("belief", "seen", "wrong"),
    [
        ({}, SEEN, ""),
        ({"cuda": True, "dtype": "float", "rank": 2, "grad": True}, SEEN, ""),
        ({}, HOST, "tensor, but bool"),
        ({}, ABSENT, ""),
        ({"loose": True}, {"kinds": ["list", "plain", "tuple"], "type": "tuple"}, ""),
        ({"loose": True}, HOST, "tensor, but bool"),
        ({"kind": "number"}, HOST, ""),
        ({"kind": "number"}, SEEN, "number, but Tensor"),
        ({"cuda": False}, SEEN, "on the host, but not"),
        ({"cuda": True}, {**SEEN, "cuda": False}, "on the GPU, but not"),
        ({"cuda": True}, {**SEEN, "cuda": False, "made": True}, ""),
        ({"dtype": "int"}, SEEN, "int, but float32"),
        ({"rank": 0}, SEEN, "rank 0, but 2"),
        ({"grad": False}, SEEN, "without a graph, but with one"),
        ({"grad": True}, {**SEEN, "grad": False}, "with a graph, but without one"),
        ({"grad": True}, {**SEEN, "grad": False, "enabled": False}, ""),
    ],
)
def test_what_of_a_belief_is_false(
    belief: dict[str, Any], seen: dict[str, Any], wrong: str
) -> None:
    assert truth.false_of({**BELIEF, **belief}, seen) == wrong


def test_a_step_ends_where_an_optimizer_comes_round() -> None:
    class Ledger:
        ended = 0

        def mark_step(self) -> None:
            self.ended += 1

    ledger, first, second = Ledger(), object(), object()
    steps = truth._Steps(ledger)
    seen = []
    for optimizer in (first, first, second, first, second, first):
        steps(optimizer)
        seen.append(ledger.ended)
    assert seen == [0, 1, 1, 2, 2, 3]


def test_rows_of_statements(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("if a:\n    print(\n        1,\n    )\nb = 2\n")
    rows = truth.statements(path)
    assert rows == {2: range(2, 5), 3: range(2, 5), 4: range(2, 5), 5: range(5, 6)}
