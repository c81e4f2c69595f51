"""TL101's suggestion for running sums: the kind of number that comes out is known, or there is no
suggestion."""

from __future__ import annotations

import pytest

from tests.checking import check

_STEP = """import torch
def train(loader, model, optimizer, scale):
    total = {start}
    device = torch.device("cuda")
    model.to(device)
    for x in loader:
        x = x.to(device, non_blocking=True)
        loss = {loss}
        model(x).sum().backward()
        optimizer.step()
        total += loss.item()
    return total
"""


@pytest.mark.parametrize(
    ("start", "loss", "method"),
    [
        ("0", "(x * scale).mean()", "double"),
        ("0.0", "(x * scale).mean()", "double"),
        ("0", "model(x).mean()", "double"),
        ("0", "torch.nn.functional.mse_loss(model(x), x)", "double"),
    ],
)
def test_an_integer_start_does_not_make_an_integer_sum(start: str, loss: str, method: str) -> None:
    found = [
        finding
        for finding in check(_STEP.format(start=start, loss=loss)).findings
        if finding.code == "TL101"
    ]
    assert len(found) == 1
    text = found[0].fix.edits[0].text if found[0].fix else ""
    assert text == f"detach().{method}"
