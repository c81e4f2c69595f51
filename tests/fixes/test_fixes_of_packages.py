"""Fixes of what a package offers to callers that are not in view are only shown; a program that
calls it, or a result without a graph, has them applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import job
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

PREDICT = """\
import torch


def predict_all(model, test_loader, device):
    model.eval().to(device)
    found = []
    for x in test_loader:
        found.append(model(x.to(device)){end})
    return found
"""
ENGINE = """\
import torch


class Engine:
    def __init__(self, model, device="cuda"):
        self.model, self.device = model.to(device), device

    def evaluate_scores(self, val_loader):
        self.model.eval()
        return [self.score(x) for x in val_loader]

    def validate_all(self, val_loader, seen):
        self.model.eval()
        for x in val_loader:
            seen(self.model(x.to(self.device)))
"""
LOADER = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.paths[index]))


{make}
"""
FIT = """\
def fit_files(paths, device="cuda"):
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(Files(paths), shuffle=True):
        optimizer.zero_grad()
        model(x.to(device)).square().mean().backward()
        optimizer.step()
"""
FITTER = """\
class Fitter:
    def __init__(self, model, device="cuda"):
        self.model = model.to(device)
        self.device = device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def make_batches(self, paths):
        return DataLoader(Files(paths), shuffle=True)

    def fit_files(self, paths):
        for x in self.make_batches(paths):
            self.optimizer.zero_grad()
            self.model(x.to(self.device)).square().mean().backward()
            self.optimizer.step()
"""
NET = """\
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return self.norm(self.conv(x))


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(8), Block(8))

    def forward(self, x):
        return self.body(x)
"""
LAYERS = """\
from torch import nn


def stacked(width):
    return nn.Sequential(nn.Conv2d(width, width, 3), nn.BatchNorm2d(width), nn.ReLU())
"""
FILES = {
    "predict": ("TL501", PREDICT.format(end=""), "predict_all(model, loader, 'cuda')"),
    "engine": ("TL501", ENGINE, "Engine(model).validate_all(loader, print)"),
    "fit": ("TL201", LOADER.format(make=FIT), "fit_files([])"),
    "fitter": ("TL201", LOADER.format(make=FITTER), "Fitter(model).fit_files([])"),
    "net": ("TL409", NET, "Tower()"),
    "layers": ("TL409", LAYERS, "stacked(8)"),
}
"""The rule, a module of a package, and a call of what it offers."""


def applied(folder: Path, name: str, text: str, code: str, **beside: str) -> bool:
    for path, each in {name: text, **beside}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(each, encoding="utf-8")
    forget()
    given = {"name": name, "root": str(folder), "codes": frozenset((code,)), "library_infos": True}
    asked = job(text, fix="unsafe", **given)
    assert analyse_job(job(text, **given)).findings
    return (analyse_job(asked).after or text) != text


PACKAGE = {"kit/__init__.py": "from kit.part import *\n"}


@pytest.mark.parametrize("kind", FILES)
def test_callers_out_of_view_keep_what_they_have(tmp_path: Path, kind: str) -> None:
    code, text, _ = FILES[kind]
    assert not applied(tmp_path, "kit/part.py", text, code, **PACKAGE)


@pytest.mark.parametrize("kind", FILES)
def test_a_test_is_no_caller(tmp_path: Path, kind: str) -> None:
    code, text, call = FILES[kind]
    test = f"import pytest\nfrom kit import *\n\n\ndef test_it(model, loader):\n    {call}\n"
    assert not applied(tmp_path, "kit/part.py", text, code, **PACKAGE, **{"test_kit.py": test})


@pytest.mark.parametrize("kind", FILES)
def test_a_script_that_calls_it_is_in_view(tmp_path: Path, kind: str) -> None:
    code, text, call = FILES[kind]
    script = f"from kit import *\nfrom setup import model, loader\n\n{call}\n"
    assert applied(tmp_path, "kit/part.py", text, code, **PACKAGE, **{"run.py": script})


@pytest.mark.parametrize("kind", FILES)
def test_a_program_of_its_own_is_in_view(tmp_path: Path, kind: str) -> None:
    code, text, _ = FILES[kind]
    guard = "\n\nif __name__ == '__main__':\n    print(1)\n"
    assert applied(tmp_path, "kit/part.py", text + guard, code, **PACKAGE)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_no_package_is_in_view(tmp_path: Path, kind: str) -> None:
    code, text, _ = FILES[kind]
    assert applied(tmp_path, "part.py", text, code)


@pytest.mark.parametrize("end", [".detach()", ".argmax(1).cpu().numpy()", ".sum().item()"])
def test_a_result_without_a_graph_is_nobody_s_to_train_on(tmp_path: Path, end: str) -> None:
    text = PREDICT.format(end=end)
    assert applied(tmp_path, "kit/part.py", text, "TL501", **PACKAGE)
