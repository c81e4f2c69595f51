"""Loops that only compare, select and count, and whose tensors are copied to the host before them,
are executed before and after: everything is the same, to the last bit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import fixed

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL107", "TL601", "TL602"})
HEAD = """\
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 4).cuda().eval()
loader = [(torch.randn(6, 3), torch.randint(4, (6,))) for _ in range(3)]
loader.append((torch.randn(0, 3), torch.randint(4, (0,))))
found = []
hits, counts, wrong = np.zeros((4, 2)), {}, []


def test():
    with torch.no_grad():
        for points, target in loader:
            points, target = points.cuda(), target.cuda()
            choice = net(points).max(1)[1]
"""
END = """\
            found.append((choice + target).clone())


test()
found += [torch.from_numpy(hits), sorted(counts.items()), wrong]
"""


def program(body: str) -> str:
    return HEAD + "".join(f"            {line}\n" for line in body.splitlines()) + END


COPIED = {
    "accuracy of each class": (
        "for cat in np.unique(target.cpu()):\n"
        "    right = choice[target == cat].eq(target[target == cat].long().data).cpu().sum()\n"
        "    hits[cat, 0] += right.item() / float(points[target == cat].size()[0])\n"
        "    hits[cat, 1] += 1"
    ),
    "by torch.unique": (
        "for label in torch.unique(target):\n    mask = target == label\n"
        "    many = mask.sum().item()\n"
        "    right = (choice[mask] == target[mask]).sum().item()\n"
        "    c = label.item()\n    counts[c] = (counts.get(c, (0, 0))[0] + right, many)"
    ),
    "number by number": (
        "for c in range(4):\n    hits[c, 0] += (choice[target == c] == c).sum().item()\n"
        "    hits[c, 1] += (target == c).sum().item()"
    ),
    "elements": (
        "for k, (p, t) in enumerate(zip(choice, target)):\n    if p != t:\n"
        "        wrong.append((k, p.item(), int(t)))"
    ),
    "with break and continue": (
        "for p, t in zip(choice, target):\n    if p == t:\n        continue\n"
        "    wrong.append(p.item())\n    if len(wrong) > 3:\n        break\nelse:\n"
        "    wrong.append(-1)"
    ),
}
LEFT = {
    "a float sum": "for c in range(4):\n    hits[c, 0] += points[target == c].sum().item()",
    "kept copies": (
        "for p, t in zip(choice, target):\n    if p != t:\n        wrong.append(p.cpu())"
    ),
    "changed in the loop": (
        "for c in range(4):\n    hits[c, 0] += (choice[target == c] == c).sum().item()\n"
        "    target[c] = 0\n    choice[c] = 1"
    ),
    "used behind": (
        "for c in range(4):\n    mask = target == c\n    hits[c, 0] += choice[mask].sum().item()\n"
        "found.append(mask)"
    ),
    "only its shape": (
        "for c in range(4):\n    mask = target == c\n    hits[c, 0] += target[c:].shape[0]\n"
        "    found.append(choice[mask])"
    ),
    "meets what is not known": (
        "for t, other in zip(target, unknown):\n    if t == other:\n        wrong.append(1)"
    ),
    "read in the head alone": (
        "for c in range(int(target.max())):\n    found.append(points[choice == c])"
    ),
    "given away": ("for c in range(4):\n    mask = target == c\n    found.append(choice[mask])"),
    "a taken name": (
        "target_cpu = 1\nfor c in range(4):\n"
        "    hits[c, 0] += (choice[target == c] == c).sum().item()"
    ),
}


def ended(source: str) -> list[Any]:
    names, _ = ran(source)
    return [*names["found"], torch.rand(1)]


def changed(source: str, safety: str = "safe") -> str:
    return fixed(source, safety, codes=CODES).after or source


def same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    return bool(one == two) and repr(one) == repr(two)


@pytest.mark.parametrize("name", COPIED)
def test_with_copies_on_the_host_it_is_the_same(name: str) -> None:
    source = program(COPIED[name])
    after = changed(source)
    assert "target_cpu = " in after or "target_cpu, " in after or ", target_cpu" in after
    assert all(same(one, two) for one, two in zip(ended(source), ended(after), strict=True))
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", LEFT)
def test_what_stays_on_the_device_is_not_copied(name: str) -> None:
    after = changed(program(LEFT[name]), "unsafe")
    assert "_cpu, " not in after
    assert "= target.cpu()" not in after


def test_where_the_loop_writes_it_is_not_called_safe() -> None:
    body = (
        "for c in range(4):\n    hits[c, 0] += (choice[target == c] == c).sum().item()\n"
        "    points[c:] = 0"
    )
    source = program(body)
    assert changed(source, "safe") == source
    after = changed(source, "unsafe")
    assert "target.cpu()" in after
    assert all(same(one, two) for one, two in zip(ended(source), ended(after), strict=True))


def test_what_few_iterations_need_is_not_copied() -> None:
    body = (
        "for k, (p, t) in enumerate(zip(choice, target)):\n    if p != t:\n"
        "        wrong.append(points[k].sum().item())"
    )
    after = changed(program(body))
    assert "choice.cpu()" in after
    assert "points.cpu()" not in after
