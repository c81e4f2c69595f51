"""A loop that calls a function of another file that runs a model is a loop over data."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.semantic.test_project import analysed, probe
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.uses.networks import runs_module_method

ENGINE = """
import torch

def run_one(net, image, device):
    return net(torch.from_numpy(image).to(device))

def outer(net, image, device):
    return run_one(net, image, device)

def run_all(net, images, device):
    for image in images:
        run_one(net, image, device)

def size_of(net, image, device):
    return sum(p.numel() for p in net.parameters()) / image.size

def plot_features(net, image, device):
    return net(torch.from_numpy(image).to(device))

class Runner:
    def __init__(self, net, device):
        self.net, self.device = net, device

    def process(self, image):
        return self.net(torch.from_numpy(image).to(self.device))

    def weigh(self, image):
        return image.size

class Heir(Runner):
    pass
"""
LOOP = """
import torch
import engine
from engine import Heir, Runner, outer, plot_features, run_all, run_one, size_of

def main(net, names, device):
    runner, heir = Runner(net, device), Heir(net, device)
    for name in {over}:
        image = open_image(name)
        out = {call}
        probe(out)
"""


@pytest.mark.parametrize(
    ("over", "call", "hot"),
    [
        ("names", "run_one(net, image, device)", True),
        ("names", "engine.run_one(net, image, device)", True),
        ("names", "outer(net, image, device)", True),
        ("names", "runner.process(image)", True),
        ("names", "heir.process(image)", True),
        ("names", "runner.weigh(image)", False),
        ("names", "runner.unheard_of(image)", False),
        ("names", "run_all(net, image, device)", False),
        ("names", "size_of(net, image, device)", False),
        ("names", "plot_features(net, image, device)", False),
        ("range(3)", "run_one(net, image, device)", False),
        ("checkpoints", "run_one(net, image, device)", False),
    ],
)
def test_a_model_that_another_file_runs(tmp_path: Path, over: str, call: str, hot: bool) -> None:
    loop = LOOP.format(over=over, call=call)
    found = analysed(tmp_path, {"engine.py": ENGINE, "infer.py": loop}, "infer.py")
    assert (heat_of(found, probe(found)).grade is Grade.EVAL) is hot


BASE = """
import torch
from torch import nn

class Base({base}):
    def __init__(self, generator):
        super().__init__()
        self.generator = generator
    {decorator}
    def generate(self, z):
        return self.generator(z)
"""
GAN = """
from base import Base

class Gan(Base):
    def loss(self, z):
        probe(self.generate(z))
"""


@pytest.mark.parametrize(
    ("base", "decorator", "runs"),
    [
        ("nn.Module", "", True),
        ("nn.Module", "@torch.no_grad()", False),
        ("object", "", False),
    ],
)
def test_what_a_network_inherits_runs_it(
    tmp_path: Path, base: str, decorator: str, runs: bool
) -> None:
    files = {"base.py": BASE.format(base=base, decorator=decorator), "gan.py": GAN}
    found = analysed(tmp_path, files, "gan.py")
    call = probe(found).args[0].value
    assert isinstance(call, cst.Call)
    assert runs_module_method(found, call) is runs
