"""A program that trains nothing has no backward pass for anomaly detection to slow down."""

from __future__ import annotations

import pytest

from tests.checking import check

PROGRAM = """\
import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


{evaluate}


if __name__ == "__main__":
    torch.autograd.set_detect_anomaly(True)
    evaluate(torch.load("rows.pt"))
"""
DECORATED = """\
@torch.no_grad()
def evaluate(loader):
    for x in loader:
        print(model(x.cuda()))
"""
WITHIN = """\
@torch.no_grad()
def scores(x):
    return model(x.cuda())


def evaluate(loader):
    print([scores(x).tolist() for x in loader])
"""
NEVER_CALLED = """\
def run(loader, optimizer=None):
    for x in loader:
        loss = model(x.cuda()).mean()
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def evaluate(loader):
    model.eval()
    print(len(loader))
"""
TRAINS = """\
def evaluate(loader):
    for x in loader:
        model(x.cuda()).mean().backward()
        optimizer.step()
        with torch.no_grad():
            print(model(x.cuda()))
"""
TRAINS_BESIDE = DECORATED.replace("def evaluate", "def shown") + (
    "\n\ndef evaluate(loader):\n    for x in loader:\n        model(x.cuda()).mean().backward()\n"
    "        optimizer.step()\n        shown(loader)"
)


def sought(evaluate: str, program: str = PROGRAM) -> bool:
    source = program.replace("{evaluate}", evaluate.strip("\n"))
    return bool(check(source, codes=frozenset({"TL801"})).findings)


@pytest.mark.parametrize("evaluate", [DECORATED, WITHIN, NEVER_CALLED])
def test_a_program_that_only_evaluates_is_left_alone(evaluate: str) -> None:
    assert not sought(evaluate)


@pytest.mark.parametrize("evaluate", [TRAINS, TRAINS_BESIDE])
def test_one_that_may_train_is_not(evaluate: str) -> None:
    assert sought(evaluate)


def test_a_file_that_others_import_may_serve_a_training() -> None:
    imported = PROGRAM.partition("if __name__")[0] + "torch.autograd.set_detect_anomaly(True)\n"
    assert sought(DECORATED, imported)


def test_a_function_that_switches_it_on_and_trains_is_told() -> None:
    """Though nothing of this file calls it."""
    trains = TRAINS.replace("def evaluate(loader):", "def run(loader):").replace(
        "    for", "    torch.autograd.set_detect_anomaly(True)\n    for", 1
    )
    assert sought(f"{DECORATED}\n\n{trains}", PROGRAM.replace("    torch.autograd.set", "    # "))
