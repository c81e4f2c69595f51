"""Fixes in evaluation and behind the last epoch are reached, compared and counted, and what was cut
is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verify.projects import planted
from torchlint.verify.model import Report
from torchlint.verify.script import script_mode

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("zygotes")

PROGRAM = """import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(TensorDataset(torch.randn(4000, 8), torch.randint(4, (4000,))), batch_size=4, shuffle=True)
held_out = DataLoader(TensorDataset(torch.randn(4000, 8), torch.randint(4, (4000,))), batch_size=4)
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate():
    model.eval()
    with torch.no_grad():
        for x, y in held_out:
            model(x.to(device) + torch.zeros(8).to(device))


for epoch in range(50):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    evaluate()
    last = torch.ones(3).to(device)
"""  # noqa: E501


@pytest.mark.slow
def test_fixes_in_evaluation_are_reached_counted_and_compared(project: Callable[..., Path]) -> None:
    root = project("plain")
    (root / "train.py").write_text(PROGRAM, encoding="utf-8")
    request = planted(
        root,
        EVAL=("torch.zeros(8).to(device)", "torch.zeros(8, device=device)"),
        WRONG=("torch.zeros(8).to(device))", "torch.ones(8).to(device))"),
        BEHIND=("torch.ones(3).to(device)", "torch.ones(3, device=device)"),
    )
    report: Report = script_mode.run(request, lambda line: None, lambda line: None)
    found = {variant.id.partition(":")[2].partition("@")[0]: variant for variant in report.variants}
    assert [found[name].exercised for name in ("EVAL", "WRONG", "BEHIND")] == [True, True, True]
    counts = found["EVAL"].counts
    assert counts is not None
    assert counts.evaluation is not None
    assert counts.syncs == (2.0, 2.0)
    assert counts.evaluation.syncs == (2.0, 1.0)
    assert found["EVAL"].equality is not None
    assert found["EVAL"].equality.ok
    assert found["WRONG"].equality is not None
    assert not found["WRONG"].equality.ok, (
        "outputs of evaluation are compared, as losses and weights show nothing"
    )
    assert any(
        "epochs shortened to 6 steps" in each and "evaluation ran" in each
        for each in report.warnings
    )
