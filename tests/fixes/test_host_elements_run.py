"""Loops that read elements of older tensors on the host, which are copied there once before them,
are executed before and after: everything is the same, to the last bit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import fixed

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL101", "TL602", "TL604"})
HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 4).cuda().eval()
loader = [torch.randn(6, 3) for _ in range(3)]
words, found = list("abcdefgh"), []


def test():
    with torch.no_grad():
        for points in loader:
            points = points.cuda().abs()
            scores = net(points)
            lengths = scores.argmax(1)
            best, places = torch.max(scores, dim=1)
"""
END = """\
            found.append((lengths + places, best * 2, scores.sum()))


test()
"""


def program(body: str) -> str:
    return HEAD + "".join(f"            {line}\n" for line in body.splitlines()) + END


COPIED = {
    "by position": (
        "for i in range(6):\n    found.append(points[i, : int(lengths[i])])\n"
        "    found.append(torch.roll(points, -int(lengths[i]), -1) + lengths[i])"
    ),
    "as a bound": "for i in range(6):\n    found.append(points[: lengths[i]])",
    "counted by torch": (
        "for i in torch.arange(6):\n    found.append(points[i, : lengths[i]].sum(dim=0))"
    ),
    "between two of them": (
        "for i in range(1, 6):\n"
        "    found.append(points[lengths[i - 1] : places[i] + lengths[i]])\n"
        "    found.append(list(range(lengths[i - 1], lengths[i])))"
    ),
    "in a list": (
        "for i in range(6):\n    if words[lengths[i]] == 'b':\n        continue\n"
        "    found.append(words[places[i].item()])"
    ),
    "in a test": (
        "for i, word in enumerate(words[:6]):\n    if lengths[i] > 1:\n        found.append(word)\n"
        "    found.append(scores * lengths[i])"
    ),
    "two positions": (
        "for i in range(6):\n    for j in range(4):\n        found.append(scores[i, j].item())"
    ),
    "element by element": (
        "for word, length in zip(words, lengths):\n    found.append(word * int(length))\n"
        "    found.append(words[:length])"
    ),
    "the elements as bounds": "for cut in lengths:\n    found.append(words[cut:])",
    "in a while": ("i = 0\nwhile i < 6:\n    found.append(points[: int(lengths[i])])\n    i += 1"),
    "with a copy already": "for i in range(6):\n    found.append(int(lengths[i].cpu()))",
}
LEFT = {
    "made in the loop": (
        "for i in range(6):\n    own = net(points).argmax(1)\n    found.append(int(own[i]))"
    ),
    "changed in the loop": (
        "for i in range(6):\n    found.append(int(lengths[i]))\n    lengths[i] = 0"
    ),
    "changed in place": (
        "for i in range(6):\n    found.append(int(lengths[i]))\n    lengths.add_(1)"
    ),
    "grown": "for i in range(6):\n    found.append(int(lengths[i]))\n    lengths += 1",
    "in a branch": ("for i in range(6):\n    if i == 3:\n        found.append(int(lengths[i]))"),
    "large": (
        "maps = net(points.view(1, 2, 3, 3)).abs()\n"
        "for i in range(2):\n    found.append(maps[0, i, 1, 2].item())"
    ),
    "with what stays": (
        "for i in range(6):\n    other = net(points).argmax(1)\n"
        "    found.append(int(lengths[i] + other[i]))"
    ),
    "divided": "for i in range(6):\n    found.append(float(best[i] / 3))",
    "given away": (
        "for length in lengths:\n    found.append(words[:length])\n    found.append(length)"
    ),
    "read behind": (
        "for length in lengths:\n    found.append(words[:length])\nfound.append(length)"
    ),
    "shown": "for length in lengths:\n    print(length)\n    found.append(int(length))",
    "later": ("for i in range(6):\n    found.append((lambda: int(lengths[i]))())"),
    "a taken name": ("lengths_cpu = 1\nfor i in range(6):\n    found.append(int(lengths[i]))"),
}


def ended(source: str) -> list[Any]:
    names, text = ran(source)
    return [*names["found"], torch.rand(1), text]


def changed(source: str, safety: str = "safe") -> str:
    return fixed(source, safety, codes=CODES).after or source


def same(one: Any, two: Any) -> bool:
    if isinstance(one, tuple):
        return all(same(a, b) for a, b in zip(one, two, strict=True))
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and one.stride() == two.stride() and torch.equal(one, two)
    return bool(one == two) and type(one) is type(two)


@pytest.mark.parametrize("name", COPIED)
def test_with_a_copy_on_the_host_it_is_the_same(name: str) -> None:
    source = program(COPIED[name])
    after = changed(source)
    assert ".cpu()" in after.replace("lengths[i].cpu()", "")
    assert all(same(one, two) for one, two in zip(ended(source), ended(after), strict=True))
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", LEFT)
def test_what_the_loop_makes_or_changes_is_not_copied(name: str) -> None:
    after = changed(program(LEFT[name]), "unsafe")
    assert ".cpu()" not in after


def test_what_may_share_memory_with_what_is_changed_is_not_called_safe() -> None:
    body = (
        "rows = points[:, 0]\nfor i in range(3):\n    found.append(words[: int(rows[i])])\n"
        "    points[i] = 0"
    )
    source = program(body)
    assert changed(source) == source
    assert "rows_cpu = rows.cpu()" in changed(source, "unsafe")


def test_a_copy_that_is_not_called_safe_stands_before_all_loops_but_that_over_steps() -> None:
    body = (
        "rows = points[:, 0]\nfor j in range(2):\n    for i in range(3):\n"
        "        found.append(words[: int(rows[i])])\n        other = points\n"
        "    other[j] = 0.5"
    )
    after = changed(program(body), "unsafe")
    assert "rows_cpu = rows.cpu()\n" in after
    assert after.index("rows_cpu") < after.index("for j in range(2)")


def test_a_tensor_of_the_whole_run_is_copied_once() -> None:
    source = (
        "import torch\nfrom torch import nn\n\nnet = nn.Linear(3, 4).cuda()\n"
        "found = []\n\n"
        "def run(loader):\n    starts = torch.arange(3, device='cuda') * 2\n"
        "    for x in loader:\n        out = net(x.cuda())\n"
        "        for i in range(3):\n            found.append(out[: int(starts[i])].sum())\n"
        "        out.sum().backward()\n\n\nrun([torch.ones(6, 3)] * 2)\n"
    )
    after = changed(source, "unsafe")
    assert "    starts_cpu = starts.cpu()\n    for x in loader:" in after
    assert all(same(one, two) for one, two in zip(ended(source), ended(after), strict=True))
