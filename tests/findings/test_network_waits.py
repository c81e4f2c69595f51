"""A wait that a network makes in each of its own runs is named beside the others of the step, with
its place."""

from __future__ import annotations

import pytest

from tests.checking import check

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchdiffeq import odeint

device = torch.device("cuda")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x, lengths):
        {inner}
        return self.gru(x)[1][0]


class Field(nn.Module):
    def forward(self, t, z):
        return -z


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.field = Field()
        self.head = nn.Linear(8, 3)

    def forward(self, x, lengths):
        {outer}
        z = self.encoder(x, lengths)
        {last}
        return self.head(z)


def train(loader: DataLoader):
    model = Net().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for x, lengths, y in loader:
        x = x.to(device, non_blocking=True)
        lengths = lengths.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        loss = criterion(model(x, lengths), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


train(DataLoader(range(8), batch_size=2))
"""
SPAN = "t = torch.tensor([0.0, 1.0], device=z.device); "


def told(inner: str = "pass", outer: str = "pass", last: str = "pass") -> str:
    source = PROGRAM.format(inner=inner, outer=outer, last=last)
    (finding,) = check(source, codes=frozenset({"TL101"}), name="train.py").findings
    return finding.message.partition(" waits for the GPU in ")[2]


@pytest.mark.parametrize(
    ("where", "line", "place"),
    [
        ("inner", "x = pack(x, lengths.cpu(), batch_first=True)", "lengths.cpu()"),
        ("inner", "x = x[:, : max(lengths.tolist())]", "lengths.tolist()"),
        ("outer", "assert not torch.isnan(x).any()", "torch.isnan(x).any()"),
        ("last", f"{SPAN}z = odeint(self.field, z, t)[-1]", "odeint(self.field, z, t)"),
        (
            "last",
            f"{SPAN}z = odeint(self.field, z, t, method='bosh3')[-1]",
            "odeint(self.field, z, t, method='bosh3')",
        ),
    ],
)
def test_a_wait_in_a_network_that_the_step_runs_is_named(where: str, line: str, place: str) -> None:
    assert told(**{where: line}).startswith(f"`model(x, lengths)` (`{place}`) as well")


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("inner", "size = int(x.shape[0]) + lengths.size(0)"),
        ("inner", "if self.gru.bias: lengths = lengths.cpu()"),
        ("outer", "assert x.dim() == 3 and lengths is not None"),
        ("outer", "if lengths is None: return x\n        lengths.cpu()"),
        ("last", f"{SPAN}z = odeint(self.field, z, t, method='rk4')[-1]"),
        ("last", f"{SPAN}z = odeint(self.field, z, t, method=self.method)[-1]"),
    ],
)
def test_what_may_not_wait_in_a_network_is_not_named(where: str, line: str) -> None:
    assert told(**{where: line}) == ""


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("torch.amp.GradScaler('cuda')", True),
        ("torch.amp.GradScaler('cuda', enabled=False)", False),
        ("torch.amp.GradScaler('cuda', enabled=loader.amp)", False),
    ],
)
def test_a_step_of_a_scaler_is_named_where_it_certainly_waits(made: str, named: bool) -> None:
    source = PROGRAM.format(inner="pass", outer="pass", last="pass")
    source = source.replace("total = 0.0", f"total, scaler = 0.0, {made}")
    source = source.replace("        total += loss.item()\n", "")
    source = source.replace("        loss = ", "        total += x.max().item()\n        loss = ")
    source = source.replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")
    (finding,) = check(source, codes=frozenset({"TL101"}), name="train.py").findings
    assert ("`scaler.step(optimizer)` as well" in finding.message) is named


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("torch.autograd.set_detect_anomaly(True)", True),
        ("torch.autograd.set_detect_anomaly(mode=True)", True),
        ("from torch import autograd; autograd.set_detect_anomaly(True)", True),
        ("torch.autograd.set_detect_anomaly(False)", False),
        ("torch.autograd.set_detect_anomaly(True, check_nan=False)", False),
        ("if device.index: torch.autograd.set_detect_anomaly(True)", False),
    ],
)
def test_a_backward_pass_that_looks_for_nan_is_named(line: str, named: bool) -> None:
    source = PROGRAM.format(inner="pass", outer="pass", last="pass")
    source = source.replace("\n\n\nclass Encoder", f"\n{line}\n\n\nclass Encoder")
    (finding,) = check(source, codes=frozenset({"TL101"}), name="train.py").findings
    assert ("`loss.backward()` (`" in finding.message) is named
    assert ("set_detect_anomaly" in finding.message) is named
