"""Reads through masks that TL107 replaces are executed before and after: values, shapes, dtypes,
gradients and what else refers to the tensors are the same, to the last bit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL107"})
HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 6).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = [torch.randn(5, 3) for _ in range(3)]
found = []


"""
TRAIN = """\
for x in loader:
    out = net(x.cuda())
    optimizer.zero_grad()
    loss = near(out)
    loss.backward()
    found.append(net.weight.grad.clone())
    optimizer.step()
"""


def near(body: str) -> str:
    return f"def near(out):\n{body}\n\n{TRAIN}"


def turns(turn: str, start: str = "", end: str = "return torch.max(best, -1)[0].sum()") -> str:
    lines = "".join(f"        {line}\n" for line in turn.splitlines())
    begin = "".join(f"    {line}\n" for line in start.splitlines())
    return near(f"{begin}    for i in range(5):\n{lines}    {end}\n")


NEW = "best = torch.full(out.shape, 9.0).cuda() * 1.0"
LONG = "squared_distance_to_the_prototype_of_the_class_that_it_is_of_now"
"""Longer than what a message shows."""
SAFE = {
    "made here": (
        turns("dist = (out - out[i]) ** 2\nmask = dist < best\nbest[mask] = dist[mask]", NEW),
        "best = torch.where(mask, dist, best)",
    ),
    "summed up": (
        turns(
            "dist = (out - out[i]) ** 2\nmask = dist < best\nbest[mask] = dist[mask]",
            NEW,
            "return best.sum()",
        ),
        "best.copy_(torch.where(mask, dist, best))",
    ),
    "the comparison in the index": (
        turns("dist = (out - out[i]) ** 2\nbest[dist < best] = dist[dist < best]", NEW),
        "best = torch.where(dist < best, dist, best)",
    ),
    "known elsewhere": (
        turns(
            "dist = (out - out[i]) ** 2\nmask = dist < best\nbest[mask] = dist[mask]",
            f"{NEW}\nalso = best\nrow = best[0]",
            "return best.sum() + also.mean() + row.sum()",
        ),
        "best.copy_(torch.where(mask, dist, best))",
    ),
    "names that a message cuts": (
        turns(f"{LONG} = (out - out[i]) ** 2\nbest[{LONG} < best] = {LONG}[{LONG} < best]", NEW),
        f"best = torch.where({LONG} < best, {LONG}, best)",
    ),
    "one line": (
        turns(
            "dist = (out - out[i]) ** 2\nmask = dist < best\n"
            "if i != 2: best[mask] = dist[mask]\nelse: continue",
            NEW,
        ),
        "best = torch.where(mask, dist, best)",
    ),
    "a closure reads it": (
        turns(
            "dist = (out - out[i]) ** 2\nmask = dist < best\nbest[mask] = dist[mask]",
            f"{NEW}\ndef now():\n    return best.sum()",
            "return now()",
        ),
        "best.copy_(torch.where(mask, dist, best))",
    ),
}
UNSAFE = {
    "one of them is compared": (
        turns("dist = (out - out[i]) ** 2\nmask = dist < 0.5\nbest[mask] = dist[mask]", NEW),
        "torch.where(mask, dist, best)",
    ),
}
LEFT = {
    "another mask": turns(
        "dist = (out - out[i]) ** 2\nmask = dist < best\nother = dist > best\n"
        "if mask.sum() == other.sum():\n    best[mask] = dist[other]",
        NEW,
    ),
    "another mask, behind what a message shows": turns(
        f"{LONG} = (out - out[i]) ** 2\nif i > 4:\n"
        f"    best[{LONG} < first] = {LONG}[{LONG} < best]",
        f"{NEW}\nfirst = torch.full(out.shape, 9.0).cuda() * 1.0",
    ),
    "a mask of rows": turns(
        "dist = (out - out[i]) ** 2\nmask = dist[:, 0] < best[:, 0]\nbest[mask] = dist[mask]", NEW
    ),
    "compared before it was bound anew": turns(
        "dist = (out - out[i]) ** 2\nmask = dist < best\ndist = dist[:, :, None].expand(5, 6, 2)\n"
        "best = best[:, :, None].repeat(1, 1, 2)\nbest[mask] = dist[mask]\nbest = best[:, :, 0]",
        NEW,
    ),
}


def ended(source: str) -> list[Any]:
    names, _ = ran(source)
    return [*names["found"], names["loss"], *names["net"].parameters(), torch.rand(1)]


def changed(source: str, safety: str) -> str:
    return fixed(source, safety, codes=CODES).after or source


@pytest.mark.parametrize("name", [*SAFE, *UNSAFE])
def test_without_the_number_of_elements_it_is_the_same(name: str) -> None:
    program, new = {**SAFE, **UNSAFE}[name]
    source = HEAD + program
    after = changed(source, "safe" if name in SAFE else "unsafe")
    assert new in after, after
    before, behind = ended(source), ended(after)
    assert len(before) == len(behind)
    for one, two in zip(before, behind, strict=True):
        assert torch.equal(one, two)
        assert (one.dtype, one.requires_grad) == (two.dtype, two.requires_grad)
        assert one.stride() == two.stride()
    assert changed(after, "unsafe") == after, "the second run changes something"


@pytest.mark.parametrize("name", UNSAFE)
def test_what_is_not_proven_is_not_safe(name: str) -> None:
    source = HEAD + UNSAFE[name][0]
    assert changed(source, "safe") == source


@pytest.mark.parametrize("name", LEFT)
def test_what_needs_the_elements_stays(name: str) -> None:
    source = HEAD + LEFT[name]
    assert check(source, codes=CODES).findings
    assert changed(source, "unsafe") == source
