"""``--explain`` says what the host waits for on a line, also where no rule reports it."""

from __future__ import annotations

import pytest

from tests.engine.explaining import explained, program, report
from torchlint.report.explained import render

SIZED = "only values on the device say how many elements there are"
CHECKED = "a distribution checks on the host what it is given, unless validate_args=False"
POSITIONS = "the positions are copied to the device"
INFINITE = "a gradient scaler reads whether gradients are infinite"
AGAIN = "it waits again"
UNSEEN = "the network may wait, as its code is not in view"

WAITING = [
    ("kept = out[y > 1]", f"`out[y > 1]`: {SIZED}"),
    ("rows = out[[0, 2]]", f"`out[[0, 2]]`: {POSITIONS}"),
    ("rows = out[list(rank)]", f"`out[list(rank)]`: {POSITIONS}"),
    ("out[[0, 2]] = 0", f"`out[[0, 2]]`: {POSITIONS}"),
    ("d = torch.distributions.Normal(out, 1)", f"`torch.distributions.Normal(out, 1)`: {CHECKED}"),
    ("torch.amp.GradScaler().step(optimizer)", INFINITE),
    ("w = torch.tensor([1, 2], device=rank)", "device, if `rank` is the GPU"),
    ("total = out.sum().item()", "`out.sum().item()`: Python reads it on the host"),
]
SILENT = (
    "rows = out[1:3]",
    "rows = out[y]",
    "rows = host[[0, 2]]",
    "d = torch.distributions.Normal(host, 1)",
    "d = torch.distributions.Normal(out, 1, validate_args=False)",
    "torch.amp.GradScaler(enabled=False).step(optimizer)",
    "again = model(x)",
    "loss.backward()",
)


@pytest.mark.parametrize(("statement", "words"), WAITING, ids=[each for each, _ in WAITING])
def test_a_line_that_waits(statement: str, words: str) -> None:
    source, row = program(statement, "hot")
    assert any(words in each for each in explained(source, row).waits)


@pytest.mark.parametrize("statement", SILENT)
def test_a_line_that_waits_for_nothing(statement: str) -> None:
    source, row = program(statement, "hot")
    assert explained(source, row).waits == ()


LOG_PROB = """import torch
from torch import nn
net = nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
while True:
    p = net(torch.ones(3, 2, device="cuda"))
    {made}
    loss = -d.log_prob(p.detach()).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "waits"),
    [
        ("d = torch.distributions.Normal(p, 1.0)", True),
        ("d = torch.distributions.Normal(p, 1.0) if p is net else None", False),
        ("d = torch.distributions.Normal(p, 1.0, validate_args=False)", False),
        ("d = net.own(p)", False),
    ],
)
def test_what_a_distribution_is_asked(made: str, waits: bool) -> None:
    found = explained(LOG_PROB.format(made=made), 8).waits
    assert any(CHECKED in each for each in found) is waits


LOSS = """import torch
from torch import nn


class Loss(nn.Module):
    def forward(self, out: torch.Tensor, y: torch.Tensor):
        {chosen}
        return kept.sum()


def train(loader, net: nn.Module):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    criterion = Loss()
    for x, y in loader:
        out = net(x.cuda())
        loss = criterion(out, y.cuda())
        {here}
        loss.backward()
        optimizer.step()
        later = out[out > 3]
"""


@pytest.mark.parametrize(
    ("chosen", "here", "place"),
    [
        ("kept = out[y > 0]", "pass", "`out[y > 0]`"),
        ("kept = out", "loss = loss + out[y.cuda() > 1].sum()", "`out[y.cuda() > 1]`"),
        ("kept = out", "loss = loss + out[[0, 1]].sum()", "`out[[0, 1]]`"),
        ("kept = out * (y > 0)", "pass", ""),
        ("kept = out[0]", "loss = loss + out[:2].sum()", ""),
    ],
)
def test_a_backward_pass_waits_for_what_the_forward_pass_chose(
    chosen: str, here: str, place: str
) -> None:
    found = explained(LOSS.format(chosen=chosen, here=here), 18).waits
    words = f"`loss.backward()`: for the gradient of {place} it waits again"
    assert found == ((words,) if place else ())


def test_a_network_of_another_package() -> None:
    found = explained(LOSS.format(chosen="kept = out", here="pass"), 15)
    assert any(UNSEEN in each for each in found.waits)
    assert "if `" not in "".join(found.waits)


def test_the_text_says_it() -> None:
    source, row = program("kept = out[y > 1]", "hot")
    text = " ".join(render([report(source, row)], color=False).split())
    assert f"What the host waits for `out[y > 1]`: {SIZED}" in text
