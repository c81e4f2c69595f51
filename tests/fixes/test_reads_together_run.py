"""Several reads of scalars beside each other become one; programs are executed before and after,
and everything is the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import fixed

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from tests.executed import differences, ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL101", "TL105"})
HEAD = """\
import math

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
found, kept = [], {}


class Step:
    angle = other = 0.0

    def run(self, x):
        out = net(x.cuda())
        loss = (out ** 2).mean()
        extra = out.exp().mean()
        third = out.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
END = """\


step = Step()
for x in [torch.rand(4, 3) for _ in range(3)]:
    found.append(step.run(x))
found.append((step.angle, step.other, kept))
"""


def program(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines()) + END


TOGETHER = {
    "a dictionary": 'return {"loss": loss.item(), "extra": extra.item(), "third": third.item()}',
    "formatted": 'return f"{loss.item():.4f} of {extra.item():.2f}, {loss.item() / third.item()}"',
    "by a method": 'return "{} {:.3f}".format(loss.data.item(), extra.data.item() + third.item())',
    "arguments": "kept[len(kept)] = max(loss.item(), extra.item(), third.item(), 0.5)",
    "attributes": (
        "self.angle = np.degrees(torch.mean(out).item())\n"
        "self.other = math.exp(-extra.item() + third.item())\nreturn self.angle"
    ),
    "a choice that cannot raise": (
        "self.angle = torch.mean(out).item() if len(out) > 0 else 0\n"
        "self.other = loss.item() if len(out) > 0 else 0\nkept[len(kept)] = third.item()"
    ),
    "ends that a message says again": (
        "kept[len(kept)] = ((out.amin().item() > 0) and (out.amax().item() < 9),\n"
        "    f'{out.amin().item()} to {out.amax().item()} around {loss.item()}')"
    ),
    "of one tensor": "return [(out > 5).all().item(), (out < 9).all().item(), "
    "(out < 8).all().item()]",
    "each of a test": "kept[len(kept)] = (out > 5).any().item() and (out < 9).all().item()"
    " and (out < 8).any().item()",
}
THREE = "kept[0] = loss.item()\nkept[1] = extra.item()\nkept[2] = third.item()\n"
TOGETHER["lines"] = THREE
MEASURE = "def measure(y):\n    kept[len(kept)] = 1\n    return y.mean()\n\n"
LOCAL = "a = measure(out).item()\nb = measure(out ** 2).item()\nc = measure(out.exp()).item()\n"
TOGETHER["calls in their order"] = f"{MEASURE}{LOCAL}return a, b, c"
TOGETHER["calls, the last one kept"] = MEASURE + LOCAL.replace("c =", "kept[0] =") + "return a, b"
TOGETHER["in a row"] = f"{MEASURE}return measure(out), loss.item(), extra.item(), third.item()"
TOGETHER["ends of a batch"] = (
    "y = x.cuda()\nlow, high, top = y.min().item(), y.max().item(), y.amax().item()\n"
    "return low + high + top"
)
TOGETHER["lines and what is no read"] = f"{THREE}kept[3] = len(out)"
APART = {
    "another kind stays behind them": f"{THREE}kept[3] = (out > 0.5).sum().item()",
    "what may have dimensions stays behind them": f"{THREE}kept[3] = abs(loss * self.other).item()",
    "another kind stays before them": f"kept[3] = (out > 0.5).sum().item()\n{THREE}",
    "an unknown kind stays behind them": f"{THREE}kept[3] = (loss * self.other).item()",
    "one alone": 'return {"loss": loss.item()}',
    "a pair": 'return {"loss": loss.item(), "extra": extra.item(), "again": loss.item()}',
    "of two kinds": 'return {"a": loss.item(), "b": extra.item(), "c": (out > 0.5).sum().item()}',
    "one depends on the other": (
        "self.angle = loss.item() - third.item()\nself.other = (extra * self.angle).item() + 1"
    ),
    "something happens in between": (
        "def change():\n    extra.data.zero_()\n    return 1\n\n"
        "return [loss.item(), third.item(), change(), extra.item()]"
    ),
    "changed in between": (
        "self.angle = loss.item() + third.item() + out.data.zero_()[0, 0].item()\n"
        "self.other = extra.item() * 2"
    ),
    "it may raise": "return [loss.item(), extra.item(),"
    " out[5:].max().item() if len(out) > 5 else 0.0]",
    "a call that reads what is kept": (
        "def measure(y):\n    return y.mean() * kept[0]\n\n"
        "kept[0] = loss.item()\nkept[1] = measure(out).item()\nkept[2] = third.item()"
    ),
    "a call that reads an attribute": (
        "def measure(y):\n    return y.mean() * self.angle\n\n"
        "self.angle = loss.item()\nself.other = measure(out).item()\nkept[2] = third.item()"
    ),
    "a call beside other work": (
        "def measure(y):\n    kept[9] = 2\n    return y.mean()\n\n"
        "a = loss.item() + len(kept)\nb = measure(out).item()\nreturn a, b, third.item()"
    ),
    "a comment between": (
        "self.angle = 2 * loss.item() + third.item()\n"
        "# The other one.\nself.other = 2 * extra.item()"
    ),
    "in a try": "try:\n    kept[0] = [2 * loss.item(), extra.item(), third.item()]\n"
    "except ValueError:\n    pass",
    "a taken name": (
        "loss_value = 3\n"
        "kept[0] = {'a': loss.item(), 'b': extra.item(), 'c': loss_value, 'd': third.item()}"
    ),
}


def ended(source: str) -> list[Any]:
    names, text = ran(source)
    return [names["found"], names["kept"], torch.rand(1), text]


def changed(source: str, safety: str = "unsafe") -> str:
    return fixed(source, safety, codes=CODES).after or source


@pytest.mark.parametrize("name", TOGETHER)
def test_read_at_once_it_is_the_same(name: str) -> None:
    source = program(TOGETHER[name])
    after = changed(source)
    assert after.count(".tolist()") == 1, after
    assert ".item()" not in after
    assert differences("ended", ended(source), ended(after)) == []
    assert fixed(source, "safe", codes=CODES, strict=True).after in ("", source)
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", APART)
def test_what_cannot_be_read_at_once_stays(name: str) -> None:
    assert ".tolist()" not in changed(program(APART[name]))


LOSS = """\
import torch
from torch import nn


class Ratio(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, energy, x):
        ratio = {ratio}
        loss = -ratio.mean()
        return loss, {{{numbers}}}


def train(energy, loader, optimizer):
    criterion = Ratio()
    for x in loader:
        x = x.cuda(non_blocking=True)
        loss, numbers = criterion(energy, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
STATE = "self.log_z = nn.Parameter(torch.zeros(()))"
BUFFER = 'self.register_buffer("log_z", torch.zeros(()))'
RATIO = "-energy(x) - self.log_z"
LAYER = "self.net(x) - self.log_z"
OWN = '"e": self.log_z.exp().item(), "log_z": self.log_z.item()'
BOTH = f'"loss": loss.item(), {OWN}'


@pytest.mark.parametrize(
    ("init", "ratio", "numbers", "safe"),
    [
        (STATE, RATIO, BOTH, False),
        (BUFFER, RATIO, BOTH, False),
        (STATE, RATIO, BOTH.replace("self.log_z.item", "ratio.max().item"), False),
        (STATE, RATIO, BOTH.replace("self.log_z", "ratio.max()"), True),
        (f"{STATE}; self.net = nn.Linear(3, 1)", LAYER, BOTH, True),
        (f"{STATE}; self.b = {STATE[13:]}", RATIO, f'"b": self.b.item(), {OWN}', True),
    ],
)
def test_a_scalar_that_may_have_stayed_on_the_host_is_not_stacked_safely(
    init: str, ratio: str, numbers: str, safe: bool
) -> None:
    text = LOSS.format(init=init, ratio=ratio, numbers=numbers)
    after = fixed(text, "safe", codes=CODES, name="src/losses.py").after
    assert ("torch.stack(" in after) is safe


def test_a_scalar_of_the_host_computes_with_others_but_does_not_stack() -> None:
    host, device = torch.zeros(()), torch.zeros(3, device="meta")
    assert (device - host).device == device.device
    with pytest.raises(RuntimeError):
        torch.stack((device.mean(), host)).add(1).tolist()
