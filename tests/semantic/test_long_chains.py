"""The analysis of a long chain costs in proportion to its length: counted in calls of Python, not
in seconds."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys

import pytest

import torchlint.engine
import torchlint.semantic
from torchlint.base.regex import LatePattern
from torchlint.run.worker import analyse_job
from torchlint.testing.source import job

HEAD = (
    "import torch\n\n\ndef train(model, loader, opt):\n    for x in loader:\n        loss = "
    "model(x.cuda()).sum()\n"
)
TAIL = "        loss.backward()\n        opt.step()\n"
CHAINS = {
    "sum": lambda count: " + ".join(["loss"] * count),
    "product of calls": lambda count: " * ".join(["torch.ones(3)"] * count),
    "and": lambda count: " and ".join(["loss"] * count),
    "comparison": lambda count: " < ".join(["loss"] * count),
    "calls": lambda count: "loss" + ".relu()" * count,
    "attributes": lambda count: "loss" + ".data" * count,
    "subscripts": lambda count: "loss" + "[0]" * count,
    "list": lambda count: f"[{', '.join(['torch.ones(3)'] * count)}]",
    "texts": lambda count: " + ".join(["'a'"] * count),
}


def cost(expression: str) -> int:
    """Return how many functions are called to analyse a training step with this expression."""
    task = job(f"{HEAD}        y = {expression}\n{TAIL}")
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(note)
    try:
        analyse_job(task)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", CHAINS)
def test_twice_the_length_is_about_twice_the_work(kind: str) -> None:
    chain = CHAINS[kind]
    cost(chain(3))  # what is imported and remembered once
    empty, short, long = (cost(chain(count)) for count in (3, 150, 300))
    assert (long - empty) / (short - empty) < 2.4


@pytest.mark.cpu(20)
def test_blank_lines_cost_nothing_much() -> None:
    """Patterns that let white space run over line ends took more than 30 s for these."""
    report = analyse_job(
        job(f"import torch\n{chr(10) * 60_000}{HEAD}        print(loss.item())\n{TAIL}")
    )
    assert [finding.code for finding in report.findings] == ["TL103", "TL105"]


@pytest.mark.cpu(20)
def test_no_pattern_for_whole_files_runs_over_their_blank_lines() -> None:
    packages = (torchlint.engine, torchlint.semantic)
    names = [
        each.name
        for top in packages
        for each in pkgutil.walk_packages(top.__path__, f"{top.__name__}.")
    ]
    held = [value for name in names for value in vars(importlib.import_module(name)).values()]
    patterns = {
        each
        for each in held
        if isinstance(each, (re.Pattern, LatePattern)) and each.flags & re.MULTILINE
    }
    assert len(patterns) > 10
    for pattern in patterns:
        text = "\n" * 100_000 + "x"
        pattern.search(text if isinstance(pattern.pattern, str) else text.encode())
