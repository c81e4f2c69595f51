"""Loops that TL604 lets go over one ``tolist()`` are executed before and after: what they print and
keep is the same, in value and in type."""

from __future__ import annotations

import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL604"})
HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
net = nn.Linear(3, 4).to(device)
loader = [torch.randn(5, 3) for _ in range(3)]
names = ["a", "b", "c", "d"]
found = []


def train():
    for x in loader:
        out = net(x.to(device)).detach()
"""
END = "\n\ntrain()\nprint(found)\n"


def program(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines()) + END


GONE = {
    "a loop": "best = out.argmax(1)\nfor i in best:\n    found.append(names[i.item()])",
    "two tensors": "value, index = torch.max(out, dim=-1)\nfor v, i in zip(value, index):\n"
    "    if i.item() == 2:\n        continue\n    found.append((names[i.item()], v.item()))",
    "counted": "best = out.argmax(1)\nfor k, i in enumerate(best):\n    if k > 3:\n        break\n"
    "    found.append(names[i.item()] + str(k))\nelse:\n    found.append(0)",
    "rows of one": "best = out[:, :1]\nfor i in best:\n    found.append(i.item())",
    "a list of rows of one": "best = out[:, :1]\nfound.extend([i.item() for i in best])",
    "rows of one, cast": "best = out[:, :1]\nfound.extend(float(i) + 1 for i in best)",
    "of truth": "best = out[:, 0] > 0\nfor yes in best:\n    found.append(bool(yes))",
    "whole numbers": "best = out[:, 0] * 10\nfor i in best:\n    found.append(int(i))",
    "mapped": "best = out[:, :1]\nfor i in map(float, best):\n    found.append(i)",
    "bound to itself": "best = out.argmax(1)\nfor i in best:\n    # as a number\n"
    "    i = i.item()\n    found.append(names[i])",
    "one line": "best = out.argmax(1)\nfor i in best: found.append(i.item())",
}
KEPT = {
    "the last one is looked at": "best = out.argmax(1)\nfor i in best:\n"
    "    found.append(names[i.item()])\nfound.append(repr(i))",
    "the tensor itself": "best = out.argmax(1)\nfor i in best:\n"
    "    found.append((i.item(), i.dtype))",
}


def output(source: str) -> str:
    return ran(source)[1]


def changed(source: str) -> str:
    return fixed(source, "unsafe", codes=CODES).after or source


@pytest.mark.parametrize("name", GONE)
def test_one_read_gives_the_same_elements(name: str) -> None:
    source = program(GONE[name])
    after = changed(source)
    assert "tolist()" in after, after
    assert ".item()" not in after
    assert "i = i\n" not in after
    assert output(after) == output(source)
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", KEPT)
def test_a_loop_that_needs_the_tensors_stays(name: str) -> None:
    source = program(KEPT[name])
    assert changed(source) == source


def test_near_torchscript_the_elements_stay_tensors() -> None:
    source = program(
        "half = lambda: torch.jit.script(net)\nbest = out.argmax(1)\nfor i in best:\n"
        "    found.append(i.item())"
    )
    after = changed(source)
    assert "for i in best.cpu():\n" in after
    assert "found.append(i.item())" in after
    assert output(after) == output(source)


def test_the_note_tells_of_layouts() -> None:
    source = program("best = out.to_sparse().to_dense()[:, 0]\nfor i in best:\n    print(i.item())")
    (found,) = check(source, codes=CODES).findings
    assert found.fix is not None
    assert "sparse" in found.fix.note


def test_the_note_tells_when_the_elements_are_read() -> None:
    (found,) = check(program(GONE["a loop"]), codes=CODES).findings
    assert found.fix is not None
    assert "read before the first iteration" in found.fix.note
    assert "a number" in found.fix.note
