"""What a fix writes is not found again."""

from __future__ import annotations

import pytest

from tests.checking import check

LOOP = """import torch

def train(model, loader, optimizer):
    model.cuda()
    log = []
    for x, y in loader:
        out = model(x.cuda())
        loss = (out - y.cuda()).pow(2).mean()
        other = out.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
    return log
"""


def found(line: str) -> bool:
    """Say whether TL113 finds something in a training step with the line."""
    report = check(LOOP.format(line=line), codes=frozenset({"TL113"}), name="src/train.py")
    return any(finding.code == "TL113" for finding in report.findings)


@pytest.mark.parametrize(
    "line",
    [
        "a, b = torch.stack((loss, other)).tolist()",
        "log.append(torch.stack([loss, other]).tolist())",
        "log += torch.stack((loss.detach(), other, out.max())).tolist()",
    ],
)
def test_values_read_together_are_not_found_again(line: str) -> None:
    assert not found(line)


@pytest.mark.parametrize(
    "line",
    [
        "log.append(out.tolist())",
        "log.append(torch.stack((loss, other)).cpu())",
        "log.append(torch.stack((out,)).tolist())",
        "log.append(torch.stack((torch.ones(9).cuda(), torch.ones(9).cuda())).tolist())",
    ],
)
def test_other_copies_are_still_found(line: str) -> None:
    assert found(line)
