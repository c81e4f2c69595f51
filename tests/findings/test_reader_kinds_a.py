"""What readers of findings in unknown projects objected to: remedies that do not fit where a batch
comes from, what a loss is, and how many parameters a network has."""

from __future__ import annotations

import pytest

from tests.checking import check
from torchlint.base.finding import Finding, Severity

HEAD = """\
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loader_of(dataset):
    return DataLoader(dataset, num_workers=4, batch_size=4)


"""
STEP = """\
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


def of(code: str, source: str) -> list[Finding]:
    return list(check(source, codes=frozenset({code})).findings)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("Variable(torch.stack(parts))", False),
        ("Variable(torch.cat(parts, 0), requires_grad=False)", False),
        ("Variable(torch.stack(parts) / 255)", False),
        ("Variable(parts)", True),
    ],
)
def test_joined_in_the_step(made: str, told: bool) -> None:
    source = (
        f"{HEAD}def train(given):\n    for parts in given:\n        x = {made}\n"
        f"        x = x.to(device)\n{STEP}"
    )
    assert bool(of("TL103", source)) is told


@pytest.mark.parametrize(
    ("body", "taken", "cut"),
    [
        ("for at in range(0, len(data), 4):\n        yield data[at : at + 4]", "x", True),
        ("for at in range(9):\n        yield data[at : at + 4], data[at + 1 :]", "x, y", True),
        ("while True:\n        rows = data[:4]\n        yield rows", "x", True),
        ("for batch in data:\n        yield batch[:4]", "x", False),
        ("for batch in data:\n        yield batch", "x", False),
        (
            "it = iter(data)\n    while True:\n        rows = next(it)\n        yield rows[:4]",
            "x",
            False,
        ),
        (
            "data = data.pin_memory()\n    for at in range(9):\n        yield data[at : at + 4]",
            "x",
            False,
        ),
    ],
)
def test_cut_by_a_generator(body: str, taken: str, cut: bool) -> None:
    source = (
        f"{HEAD}def batches(data):\n    {body}\n\n\ndef train(data):\n"
        f"    for {taken} in batches(data):\n        x = x.to(device)\n{STEP}"
    )
    found = of("TL103", source)
    assert len(found) == 1
    assert ("pin it first (.pin_memory())" in found[0].message) is cut
    assert not cut or (found[0].fix is None and found[0].severity is Severity.INFO)


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        ("state = [each.to(device) for each in state]", False),
        ("state = tuple(each.cuda() for each in state)", False),
        ("state = {str(each): each.cuda() for each in state}", False),
        ("x = x.to(device)", True),
    ],
)
def test_a_state_is_no_batch_for_another_comprehension(moved: str, told: bool) -> None:
    source = (
        f"{HEAD}def train(data, given, state):\n    for x in given:\n        {moved}\n"
        f"        state = tuple([each.data for each in state])\n{STEP}"
    )
    assert bool(of("TL103", source)) is told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mae_criterion", False),
        ("loss_fn", False),
        ("criterion", False),
        ("predictor", True),
        ("scorer", True),
    ],
)
def test_a_criterion_is_no_network(name: str, told: bool) -> None:
    source = f"""\
import torch
from torch import nn

device = torch.device("cuda")


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x).abs().mean()


{name} = Mean().to(device)
rows = torch.ones(64, 4)
found = []
with torch.no_grad():
    for i in range(len(rows)):
        found.append({name}(rows[i].unsqueeze(0).to(device)))
"""
    assert bool(of("TL609", source)) is told


PARAMETERS = """\
import torch
from torch import nn


class Center(nn.Module):
    def __init__(self, classes, gpu):
        super().__init__()
{made}

    def forward(self, x, y):
        return (x - self.centers[y]).pow(2).mean()


center = Center(3, True).cuda()
model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.load("data"):
    optimizer.zero_grad()
    center(model(x.cuda()), y.cuda()).backward()
    for p in center.parameters():
        p.grad.data *= 4.0
    optimizer.step()
"""
ONE = "        self.centers = nn.Parameter(torch.randn(classes, 4))"


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (ONE, False),
        (f"        if gpu:\n    {ONE}\n        else:\n    {ONE}", False),
        (f"{ONE}\n        self.act = nn.ReLU()", False),
        (f"{ONE}\n        self.scale = nn.Parameter(torch.ones(1))", True),
        (f"{ONE}\n        self.head = nn.Linear(4, 4)", True),
        (f"{ONE}\n        for n in range(3):\n            setattr(self, str(n), {ONE[23:]})", True),
    ],
)
def test_one_parameter_needs_no_list(made: str, told: bool) -> None:
    assert bool(of("TL510", PARAMETERS.format(made=made))) is told
