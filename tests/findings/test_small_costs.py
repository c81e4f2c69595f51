"""What is true but costs next to nothing is an info that says so: a few launches, a wait in an
evaluation that waits in any case."""

from __future__ import annotations

import pytest

from tests.checking import check
from torchlint.base.finding import Finding, Severity


def found(source: str, code: str, part: str) -> Finding:
    report = check(source, codes=frozenset({code}), name="train.py")
    return next(
        each
        for each in report.findings
        if part in each.message.partition(" waits for the GPU in ")[0]
    )


INFO, WARNING = Severity.INFO, Severity.WARNING


SCORED = """\
import torch
from torch import nn

device = "cuda"
model = nn.Linear(4, 3).to(device)


@torch.no_grad()
def validate(batches):
    kept = []
    for batch in batches:
        out = model(batch.to(device))
        weight = torch.ones(3).to(device)
        kept.append((out * weight).sum(){gathered})
    return torch.stack(kept)


validate([torch.ones(2, 4)])
"""


@pytest.mark.parametrize(("gathered", "level"), [("", WARNING), (" + out[out > 0].sum()", INFO)])
def test_an_upload_of_an_evaluation_that_gathers_as_well(gathered: str, level: Severity) -> None:
    finding = found(SCORED.format(gathered=gathered), "TL102", "torch.ones")
    assert finding.severity is level
    assert ("waits for the device as well" in finding.message) is (level is INFO)


TWO = """\
import torch
from torch import nn

model = nn.Linear(4, 3).cuda()


@torch.no_grad()
def validate(batches):
    kept = []
    for x in batches:
        out = model(x.cuda())
        for k in range(30):
            others = (out != k).nonzero()
            kept += [others, (out == k).nonzero()]
    return kept


validate([torch.ones(2, 4)])
"""


def test_of_two_gathers_of_an_evaluation_the_first_is_a_warning() -> None:
    first, second = (found(TWO, "TL107", f"(out {sign} k)") for sign in ("!=", "=="))
    assert (first.severity, second.severity) == (WARNING, INFO)


CLIPPED = """\
import timm
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n, last):
        super().__init__()
        self.n = n
        self.body = nn.Sequential(nn.Linear(n, n), nn.ReLU(), {layers})
        {more}

    def forward(self, x):
        return self.body(x)


class Agent:
    def __init__(self, n):
        self.net = Net(n, nn.Linear(n, n)).to("cuda")
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def update(self, batches):
        for x in batches:
            self.sgd.zero_grad()
            self.net(x.cuda()).mean().backward()
            for p in self.net.parameters():
                {clip}
            self.sgd.step()


Agent(4).update([torch.ones(2, 4)])
"""
CLIP = "p.grad.data.clamp_(-1, 1)"


@pytest.mark.parametrize(
    ("layers", "more", "clip", "level"),
    [
        ("nn.Linear(n, n)", "pass", CLIP, INFO),
        (", ".join(["nn.Linear(n, n)"] * 4), "pass", CLIP, INFO),
        (", ".join(["nn.Linear(n, n)"] * 18), "pass", CLIP, WARNING),
        (", ".join(["nn.Linear(n, n)"] * 6), "pass", f"p.grad.mul_(2).mul_(2); {CLIP}", WARNING),
        ("last", "pass", CLIP, INFO),
        ("nn.LSTM(n, n)", "pass", CLIP, INFO),
        ("nn.Linear(n, n)", "self.body.append(nn.Linear(n, n))", CLIP, INFO),
        ("nn.Linear(n, n)", "self.more = Net(n - 1, last) if n else None", CLIP, INFO),
        (
            "nn.Linear(n, n)",
            "for i in range(n): setattr(self, f'layer{i}', nn.Linear(n, n))",
            CLIP,
            INFO,
        ),
        ("*[nn.Linear(n, n) for _ in range(n)]", "pass", CLIP, INFO),
        ("nn.Linear(n, n, bias=False)", "self.other = nn.BatchNorm1d(n)", CLIP, INFO),
        (
            "nn.Linear(n, n)",
            "self.heads = nn.ModuleList([nn.Linear(n, n) for _ in range(n)])",
            CLIP,
            INFO,
        ),
    ],
)
def test_a_loop_of_a_few_launches_is_an_info(
    layers: str, more: str, clip: str, level: Severity
) -> None:
    source = CLIPPED.format(layers=layers, more=more, clip=clip)
    finding = found(source, "TL510", "one after the other")
    assert finding.severity is level
    assert ("launches at most" in finding.message or "grows with" in finding.message) is (
        level is INFO
    )
