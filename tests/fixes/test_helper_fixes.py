"""Functions of a project that make a tensor of sizes, which callers move, are told the device: the
programs run before and after, and must agree; near misses stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import fixed
from torchlint.cli.commands import main

torch = pytest.importorskip("torch")

from tests.executed import differences, execute  # noqa: E402 - it imports torch

CODES = frozenset({"TL102"})
HELPER = """\
def causal(length, low=0.0):
    mask = torch.full((length, length), low)
    mask.fill_(1.0)
    return torch.triu(mask, diagonal=1).unsqueeze(0).to(bool)
"""
PROGRAM = """\
import torch
from torch import nn

device = torch.device("cuda")
outs = []


{helper}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        mask = {call}
        return self.layer(x).masked_fill(mask[0], 0.0)


net = Net().to(device)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    x = torch.ones(4, 4, device=device)
    loss = net(x).sum()
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    outs.append(loss.detach())
outs.append(causal(3))
"""
CALL = "causal(x.size(1)).to(x.device)"


def program(old: str = "", new: str = "", call: str = CALL) -> str:
    return PROGRAM.format(helper=HELPER.replace(old, new) if old else HELPER, call=call)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (CALL, "causal(x.size(1), device=x.device)"),
        ("causal(x.size(1), low=1.0).cuda()", 'causal(x.size(1), low=1.0, device="cuda")'),
        ("causal(len(x), 0.0).to(device=device)", "causal(len(x), 0.0, device=device)"),
    ],
)
def test_a_function_that_makes_a_tensor_of_sizes_is_told_the_device(call: str, told: str) -> None:
    before = program(call=call)
    after = fixed(before, "safe", codes=CODES).after
    assert told in after
    assert "def causal(length, low=0.0, device=None):" in after
    assert "torch.full((length, length), low, device=device)" in after
    (bad, bad_rng), (good, good_rng) = execute(before), execute(after)
    assert not differences("outs", bad["outs"], good["outs"])
    assert torch.equal(bad_rng, good_rng)
    assert all(out.device.type == "meta" for out in execute(after, "meta")[0]["outs"][:-1])
    assert not fixed(after, "unsafe", codes=CODES).after.replace(after, "")


@pytest.mark.parametrize(
    ("old", "new", "call"),
    [
        ("torch.full((length, length), low)", "torch.rand(length, length)", CALL),
        ("mask.fill_(1.0)", "mask = mask + torch.ones(length, length)", CALL),
        ("mask.fill_(1.0)", "mask = (mask * 0.3).sin()", CALL),
        ("mask.fill_(1.0)", "mask *= 0.3", CALL),
        ("mask.fill_(1.0)", "print(mask)", CALL),
        ("mask.fill_(1.0)", "if length > 2:\n        mask.fill_(1.0)", CALL),
        ("def causal(length, low=0.0)", "def causal(length, low=0.0, **rest)", CALL),
        ("def causal(length, low=0.0)", "def causal(length, low=0.0, device=0)", CALL),
        ("def causal", "@torch.no_grad()\ndef causal", CALL),
        ("mask.fill_(1.0)", "mask[0] = low", "causal(x.size(1), x.cpu()[0]).to(x.device)"),
    ],
)
def test_a_function_that_does_more_stays_as_it_is(old: str, new: str, call: str) -> None:
    before = program(old, new, call)
    after = fixed(before, "unsafe", codes=CODES).after or before
    assert "device=None" not in after
    assert call in after


MASKS = """\
import torch


def causal(length):
    return torch.triu(torch.ones(length, length), diagonal=1).to(torch.bool)


def show(length):
    print(causal(length))


def decode(net, x):
    net.eval()
    with torch.no_grad():
        for _ in range(4):
            x = net(x, causal(x.size(1)).to(x.device))
    return x
"""
NETS = """\
import torch
from torch import nn

from masks import causal, decode


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, mask=None):
        mask = causal(x.size(1)).to(x.device)
        return self.layer(x).masked_fill(mask, 0.0)


def train(loader):
    net = Net().cuda()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        loss = net(x.cuda(non_blocking=True)).sum()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    return decode(net, torch.ones(4, 4).cuda())
"""


def test_all_calls_of_the_project_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "masks.py").write_text(MASKS, encoding="utf-8")
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    options = ("--isolated", "--no-cache", "--select", "TL102", "--apply")
    assert main(["fix", *options, str(tmp_path)], standalone_mode=False) == 0
    masks, nets = ((tmp_path / f"{name}.py").read_text("utf-8") for name in ("masks", "nets"))
    assert "def causal(length, device=None):" in masks
    assert "print(causal(length))" in masks
    assert "net(x, causal(x.size(1), device=x.device))" in masks
    assert "mask = causal(x.size(1), device=x.device)" in nets


METHOD = """\


class Other(nn.Module):
    def build(self, length):
        return torch.zeros(length, length)
"""


@pytest.mark.parametrize("other", ["", METHOD])
def test_a_method_of_which_another_class_has_its_own(other: str) -> None:
    helper = HELPER.replace("low=0.0", "low=0.0") + other
    before = PROGRAM.format(helper=helper, call="self.build(x.size(1)).to(x.device)").replace(
        "    def forward",
        "    def build(self, length):\n"
        "        return torch.ones(length, length).triu(1).bool()[None]\n\n    def forward",
    )
    after = fixed(before, "safe", codes=CODES).after or before
    assert ("device=None" in after) is (not other)
    assert ("self.build(x.size(1), device=x.device)" in after) is (not other)
