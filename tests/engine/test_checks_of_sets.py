"""What lies in a set has no place there: rules that follow a value into one say so, and do not
fail."""

from __future__ import annotations

import pytest

from tests.checking import check

PROGRAM = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(x)
        kept = {y, x}
        return kept


def evaluate(net, loader):
    found = []
    for x in loader:
        y = net(x.cuda())
        BOUND
        found.append(len(both))
    return found


net = Net().cuda().eval()
"""


@pytest.mark.parametrize(
    "bound", ["both = {y, x}", "both = one = {y}", "both = {y, *x}", "both, one = {y, x}"]
)
def test_a_tensor_in_a_set(bound: str) -> None:
    report = check(PROGRAM.replace("BOUND", bound))
    assert not report.notes
    assert {"TL103"} <= {each.code for each in report.findings}
