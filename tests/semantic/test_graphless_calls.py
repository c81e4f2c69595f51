"""Which texts call a method without autograd: what counts is where the switch holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import job
from torchlint.engine.analyse import analyse
from torchlint.rules.training._eval_without_no_grad.graphless_calls import (
    calls_method,
    calls_without_graph,
)
from torchlint.run.projects import forget, outside_of

OFF = {
    "in a block": "with torch.no_grad():\n    net.compress(x)\n",
    "in a decorated function": "@torch.inference_mode()\ndef run(net):\n    net.compress(x)\n",
    "below a caller in a block": (
        "def run(net):\n    net.compress(x)\n\ndef main():\n    with no_grad():\n        run(net)\n"
    ),
    "below a caller's method": (
        "class Run:\n    def run(self):\n        net.compress(x)\n\n    @no_grad()\n"
        "    def main(self):\n        self.run()\n"
    ),
    "in a file that switches it off": "torch.set_grad_enabled(False)\nnet.compress(x)\n",
    "where something decides": (
        "def run(train):\n    with torch.set_grad_enabled(train):\n        net.compress(x)\n"
    ),
    "where a context is chosen": (
        "def run(train):\n    context = nullcontext() if train else torch.no_grad()\n"
        "    with context:\n        net.compress(x)\n"
    ),
    "what is no Python": "with no_grad():\n    print net.compress(x)\n",
}
ON = {
    "the block is another one": "with torch.no_grad():\n    net.test(x)\nnet.compress(x)\n",
    "another function is decorated": (
        "@torch.no_grad()\ndef test(net):\n    net(x)\n\n\ndef train(net):\n    net.compress(x)\n"
    ),
    "a comment": "# with torch.no_grad():\nnet.compress(x)\n",
    "a text": 'with torch.no_grad():\n    print("net.compress(x)")\n',
    "an import": "from torch import no_grad\n\nnet.compress(x)\n",
    "switched on": "torch.set_grad_enabled(True)\nnet.compress(x)\n",
    "the caller's block is another one": (
        "def run(net):\n    net.compress(x)\n\ndef main():\n    with no_grad():\n"
        "        test(net)\n    run(net)\n"
    ),
}


@pytest.mark.parametrize("name", OFF)
def test_calls_without_graph(name: str) -> None:
    assert calls_without_graph("compress", OFF[name])


@pytest.mark.parametrize("name", ON)
def test_other_calls(name: str) -> None:
    assert not calls_without_graph("compress", ON[name])


def test_a_call_is_code() -> None:
    assert calls_method("compress", "net.compress(x)\n")
    assert not calls_method("compress", "# net.compress(x)\nnet.compress_all(x)\n")


AGENT = """
import torch
from torch import nn
class Agent:
    def __init__(self, obs):
        self.net = nn.Linear(3, 2).cuda()
    def act(self, obs):
        return self.net(obs).detach()
"""
RUNNER = """
import torch
from agent import Agent
class Runner:
    def learn(self, env):
        for _ in range(9):
            {around}
                env.step(self.alg.{called}(env.obs))
"""


@pytest.mark.parametrize(
    ("around", "called", "found"),
    [
        ("with torch.inference_mode():", "act", False),
        ("with torch.no_grad():", "act", False),
        ("with torch.enable_grad():", "act", True),
        ("with torch.no_grad():", "play", True),
    ],
)
def test_an_object_that_is_not_known_may_be_called_where_autograd_is_off(
    tmp_path: Path, around: str, called: str, *, found: bool
) -> None:
    files = {
        "agent.py": AGENT,
        "runner.py": RUNNER.format(around=around, called=called),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    forget()
    report = analyse(job(files["agent.py"], name="agent.py", root=str(tmp_path)), outside_of)
    assert any(each.code == "TL501" for each in report.findings) is found
