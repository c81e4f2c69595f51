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
    "a dictionary": 'return {"loss": loss.item(), "extra": extra.item()}',
    "formatted": 'return f"{loss.item():.4f} of {extra.item():.2f}, {loss.item() / 2}"',
    "by a method": 'return "{:.3f} {:.3f}".format(loss.data.item(), extra.data.item())',
    "arguments": "kept[len(kept)] = max(loss.item(), extra.item(), 0.5)",
    "attributes": (
        "self.angle = np.degrees(torch.mean(out).item())\n"
        "self.other = math.exp(-extra.item())\nreturn self.angle"
    ),
    "ends that a message says again": (
        "kept[len(kept)] = ((x.cuda().amin().item() > 0) and (x.cuda().amax().item() < 9),\n"
        "    f'{x.cuda().amin().item()} to {x.cuda().amax().item()}')"
    ),
    "two of one tensor": "return [(out > 5).all().item(), (out < 9).all().item()]",
}
APART = {
    "one alone": 'return {"loss": loss.item()}',
    "both of a test": "kept[len(kept)] = (out > 5).any().item() and (out < 9).all().item()",
    "of two kinds": 'return {"loss": loss.item(), "hits": (out > 0.5).sum().item()}',
    "one depends on the other": (
        "self.angle = loss.item()\nself.other = (extra * self.angle).item() + 1"
    ),
    "something happens in between": (
        "def change():\n    extra.data.zero_()\n    return 1\n\n"
        "return [loss.item(), change(), extra.item()]"
    ),
    "changed in between": (
        "self.angle = loss.item() + out.data.zero_()[0, 0].item()\nself.other = extra.item() * 2"
    ),
    "it may raise": "return [loss.item(), out[5:].max().item() if len(out) > 5 else 0.0]",
    "a comment between": (
        "self.angle = 2 * loss.item()\n# The other one.\nself.other = 2 * extra.item()"
    ),
    "in a try": "try:\n    kept[0] = [2 * loss.item(), extra.item()]\nexcept ValueError:\n    pass",
    "a taken name": (
        "loss_value = 3\nkept[0] = {'a': loss.item(), 'b': extra.item(), 'c': loss_value}"
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
