"""A fix is kept back by a wait of the same step that stays in a function of this or another file
which the step calls, or in one that such a function calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import job
from torchlint.base.finding import Safety
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

UTILS = """\
import numpy as np
import torch


def matches(scores, y):
    return (scores.cpu().numpy() == y.cpu().numpy()).sum()


def matches_if(scores, y, on=False):
    if on:
        return (scores.cpu().numpy() == y.cpu().numpy()).sum()
    return 0


def size(scores, y):
    return len(scores) + y.shape[0]


def described(scores, y):
    return np.zeros(3)[0] + torch.ones(3).cpu().sum()


class Scores:
    def of(self, scores, y):
        return matches(scores, y)
"""
STEPS = """\
import torch
from torch.cuda.amp import GradScaler

off = GradScaler(enabled=False)


def plain(model, x, y, criterion, sgd):
    loss = criterion(model(x), y)
    loss.backward()
    sgd.step()
    return loss, 0


def scaled(model, x, y, criterion, sgd, scaler: GradScaler):
    loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(sgd)
    scaler.update()
    return loss, 0


def unscaled(model, x, y, criterion, sgd):
    loss = criterion(model(x), y)
    off.scale(loss).backward()
    off.step(sgd)
    return loss, 0
"""
TRAIN = """\
import torch
from torch import nn
from tqdm import tqdm

import steps
from utils import {counts}, Scores

scores = Scores()


def inside(out, y):
    return {counts}(out, y)


def counted(model, x, y, criterion, sgd):
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    sgd.step()
    return loss, {counts}(out.detach(), y)


def train(model: nn.Module, loader, sgd, criterion, scaler, chosen):
    device = torch.device("cuda")
    model.to(device)
    total, right = 0.0, 0
    for data, target in tqdm(loader):
        x, y = data.to(device), target.to(device)
        {line}
        {log}
    return total, right


train(nn.Linear(4, 3), torch.load("loader"), None, nn.CrossEntropyLoss(), None, print)
"""
STEP = "out = model(x); loss = criterion(out, y); loss.backward(); sgd.step()"
DEEP = {
    "loss, n = counted(model, x, y, criterion, sgd)": "matches",
    "loss, n = steps.scaled(model, x, y, criterion, sgd, scaler)": "size",
    f"{STEP}; n = inside(out, y)": "matches",
    f"{STEP}; n = scores.of(out, y)": "matches",
}
SHALLOW = {
    "loss, n = counted(model, x, y, criterion, sgd)": "matches_if",
    "loss, n = steps.plain(model, x, y, criterion, sgd)": "matches",
    "loss, n = steps.unscaled(model, x, y, criterion, sgd)": "matches",
    f"{STEP}; n = inside(out, y)": "described",
    f"{STEP}; n = chosen(out, y)": "matches",
    f"{STEP}; n = inside(data, target)": "matches",
}


def safety(line: str, log: str, counts: str, code: str, where: Path) -> Safety:
    files = {
        "utils.py": UTILS,
        "steps.py": STEPS,
        "train.py": TRAIN.format(line=line, log=log, counts=counts),
    }
    for name, text in files.items():
        (where / name).write_text(text, encoding="utf-8")
    forget()
    codes = frozenset({"TL101", "TL105", "TL113"})
    done = job(files["train.py"], name="train.py", root=str(where), codes=codes)
    fixes = [each.fix for each in analyse_job(done).findings if each.code == code]
    assert len(fixes) == 1
    assert fixes[0] is not None
    return fixes[0].safety


@pytest.mark.parametrize("line", DEEP)
def test_no_step_shows_fewer_numbers_that_waits_all_the_same(line: str, tmp_path: Path) -> None:
    log = "print(loss.item())"
    assert safety(line, log, DEEP[line], "TL105", tmp_path) is Safety.SUGGESTION


@pytest.mark.parametrize("line", SHALLOW)
def test_a_step_that_does_not_wait_shows_fewer_numbers(line: str, tmp_path: Path) -> None:
    log = "print(loss.item())"
    assert safety(line, log, SHALLOW[line], "TL105", tmp_path) is Safety.UNSAFE


@pytest.mark.parametrize("line", [each for each in DEEP if "scaled" not in each])
def test_a_sum_beside_a_copy_two_calls_deep_gains_nothing(line: str, tmp_path: Path) -> None:
    log = "total += loss.item()"
    assert safety(line, log, DEEP[line], "TL101", tmp_path) is Safety.SUGGESTION


@pytest.mark.parametrize("line", [*SHALLOW, *(each for each in DEEP if "scaled" in each)])
def test_a_sum_beside_no_such_copy_does(line: str, tmp_path: Path) -> None:
    log = "total += loss.item()"
    counts = SHALLOW.get(line, "size")
    assert safety(line, log, counts, "TL101", tmp_path) is not Safety.SUGGESTION
