"""A bias before batch norm stays where another file of the program takes it for granted: the
program runs before and after."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tests.checking import job
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

pytest.importorskip("torch")

NET = """\
from torch import nn

net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
"""
FIXED = NET.replace("nn.Conv2d(3, 4, 3)", "nn.Conv2d(3, 4, 3, bias=False)")
GRANTED = """\
from torch import nn

from net import net


def initialise(module):
    if isinstance(module, nn.Conv2d):
        nn.init.xavier_normal_(module.weight)
        module.bias.data.zero_()


net.apply(initialise)
"""
ASKED = GRANTED.replace(
    "        module.bias.data.zero_()\n",
    "        if module.bias is not None:\n            module.bias.data.zero_()\n",
)
OWN = """\
import torch
from torch import nn

from net import net


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.bias


Shift()(net(torch.ones(2, 3, 4, 4)))
"""
LOADS = """import os

import torch

from net import net

if os.path.exists("saved.pt"):
    net.load_state_dict(torch.load("saved.pt"))
"""
COUNTS = """\
from net import net

nBiases = sum(value.numel() for name, value in net.named_parameters() if "bias" in name)
print(nBiases)
"""
SAYS = '"""Shows the number of weights and biases."""\nfrom net import net\n\nprint(net)\n'
ASSERTS = """\
from net import net

assert sum(value.numel() for value in net.parameters()) == 120
"""
PAIRS = """\
from torch import nn

from net import net

other = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
for ours, theirs in zip(net.parameters(), other.parameters()):
    ours.data.copy_(theirs)
"""
PRINTS = """\
from net import net

print(sum(value.numel() for value in net.parameters()))
"""
COPIES = PAIRS.replace("from torch import nn\n", "import copy\n").replace(
    "nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))", "copy.deepcopy(net)"
)
ALONE = """\
from net import net

for value, scale in zip(net.parameters(), [0.5] * 9):
    value.data.mul_(scale)
"""


@pytest.mark.parametrize(
    ("train", "after"),
    [
        *((GRANTED, NET), (ASKED, FIXED), (OWN, FIXED), (LOADS, NET), (COUNTS, NET)),
        *(
            (SAYS, NET),
            (ASSERTS, NET),
            (PAIRS, NET),
            (PRINTS, FIXED),
            (COPIES, FIXED),
            (ALONE, FIXED),
        ),
    ],
    ids=[
        *("granted", "asked", "own", "in saved weights", "counts biases", "says so", "asserts"),
        *("pairs", "prints a number", "pairs copies", "pairs with numbers"),
    ],
)
def test_another_file_may_need_the_bias(
    train: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget()
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "train.py").write_text(train)
    one = job(NET, name="net.py", codes=frozenset({"TL409"}), fix="unsafe", root=str(tmp_path))
    done = analyse_job(one)
    assert [finding.code for finding in done.findings] == ([] if after == FIXED else ["TL409"])
    assert (done.after or NET) == after
    (tmp_path / "net.py").write_text(after)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        runpy.run_path("train.py", run_name="__main__")
    finally:
        sys.modules.pop("net", None)


TRAINS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, x):
        return self.layers(x)


torch.save(Net().state_dict(), "net.pt")
"""
OTHER = TRAINS.replace('torch.save(Net().state_dict(), "net.pt")\n', "")
LOADED = (
    "import torch\nfrom other import Net\nnet = Net()\nnet.load_state_dict(torch.load('net.pt'))\n"
)
RENAMED = {"other.py": OTHER.replace("class Net", "class Other")}


@pytest.mark.parametrize(
    ("files", "applied"),
    [
        ({"other.py": OTHER, "track.py": LOADED}, False),
        ({"track.py": OTHER + "net = Net()\nnet.load_state_dict(torch.load('net.pt'))\n"}, False),
        ({"sub/other.py": OTHER, "sub/track.py": LOADED}, False),
        ({"other.py": OTHER}, True),
        ({**RENAMED, "track.py": LOADED.replace("Net", "Other")}, True),
        ({"track.py": "# class Net loads by load_state_dict(\nclass Network: ...\n"}, True),
    ],
)
def test_a_copy_of_the_class_elsewhere_keeps_its_bias(
    tmp_path: Path, files: dict[str, str], applied: bool
) -> None:
    """Weights that one saves are loaded into the other, in a program that does not import it."""
    forget()
    (tmp_path / "sub").mkdir()
    for name, text in {"train.py": TRAINS, **files}.items():
        (tmp_path / name).write_text(text)
    done = analyse_job(
        job(TRAINS, name="train.py", codes=frozenset({"TL409"}), fix="unsafe", root=str(tmp_path))
    )
    assert len(done.findings) == (0 if applied else 1)
    assert all("class `Net`, too" in each.message for each in done.findings)
    assert ("bias=False" in (done.after or "")) is applied
