"""What is called a prediction trains as well, where a forward pass or a loss is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_misread_programs import found_in

WORLD = """\
import torch
import torch.nn.functional as F
from torch import nn
{imports}

class World({base}):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 8)
        self.head = nn.Linear(8, 8)

    def predict(self, z):
        return self.head(torch.relu(self.embed(z)))

    def rollout(self, z, steps):
        for _ in range(steps):
            z = torch.cat([z, self.predict(z)[:, -1:]], dim=1)
        return z
"""
FORWARD = """
    def forward(self, z):
        return {"loss": F.mse_loss(self.predict(z[:, :-1]), z[:, 1:])}
"""
BEHIND = """
    def predict_next(self, z):
        return z + self.predict(z)

    def training_loss(self, z):
        return F.mse_loss(self.predict_next(z[:, :-1]), z[:, 1:])
"""
DERIVED = """\
from world import World


class Robot(World):
    def forward(self, z):
        return {"loss": (self.predict(z[:, :-1]) - z[:, 1:]).abs().mean()}
"""
ABSTRACT = """\
from torch import nn


class Base(nn.Module):
    def forward(self, z):
        return {"loss": (self.predict(z[:, :-1]) - z[:, 1:]).abs().mean()}
"""
OBJECT = """\
import torch.nn.functional as F

from world import World


def loss_of(model: World, z):
    return F.mse_loss(model.predict(z[:, :-1]), z[:, 1:])
"""
SHOWN = """
    def show(self, z):
        return F.mse_loss(self.predict(z[:, :-1]), z[:, 1:])
"""
EVALUATED = """
    def evaluate_step(self, z):
        return {"error": F.mse_loss(self.predict(z[:, :-1]), z[:, 1:])}
"""


@pytest.mark.parametrize(
    ("method", "other", "base", "said"),
    [
        (FORWARD, "", "nn.Module", False),
        (BEHIND, "", "nn.Module", False),
        ("", DERIVED, "nn.Module", False),
        ("", ABSTRACT, "Base", False),
        ("", OBJECT, "nn.Module", False),
        ("", "", "nn.Module", True),
        (SHOWN, "", "nn.Module", True),
        (EVALUATED, "", "nn.Module", True),
    ],
)
def test_a_loss_of_what_is_predicted(
    method: str, other: str, base: str, said: bool, tmp_path: Path
) -> None:
    imports = "\nfrom other import Base\n" if base == "Base" else ""
    files = {"world.py": WORLD.format(imports=imports, base=base) + method}
    if other:
        files["other.py"] = other
    found = found_in(tmp_path, files, "world.py")
    assert ("TL501" in {code for _, code in found}) is said
