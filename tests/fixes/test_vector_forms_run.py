"""Loops that TL601 writes for all parts at once are executed before and after: values and gradients
agree but for rounding, dtypes, shapes and the random state are the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL601"})
HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Conv2d(2, 4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = [torch.rand(3, 2, 5, 6) for _ in range(2)]
found = []


class Loss(nn.Module):
    def __init__(self, classes=3, eps=1e-5, start=0.0):
        super().__init__()
        self.classes = classes
        self.eps = eps
        self.start = start

    def forward(self, pred, target):
        smooth = 1
"""
END = """\


criterion = Loss()
for x in loader:
    pred = net(x.cuda()).sigmoid()
    target = (pred.detach() > 0.5).float()
    loss = criterion(pred, target)
    optimizer.zero_grad()
    loss.sum().backward()
    found += [loss.detach(), net.weight.grad.clone()]
    optimizer.step()
"""


def program(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines()) + END


def turns(body: str, start: str = "total = 0.0", end: str = "return total", over: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return program(f"{start}\nfor i in range({over or 'pred.size(1)'}):\n{lines}{end}")


DICE = "2 * (pred[:, i] * target[:, i]).sum(1).sum(dim=1) / (pred[:, i].sum(1).sum(1) + smooth)"
NEW = {
    "sums one after another": (turns(f"total += {DICE}"), ".sum(2).sum(dim=2)"),
    "written out": (turns(f"total = total + {DICE}"), ".sum(2)"),
    "named on the way": (
        turns(
            "p = pred[:, i].contiguous()\nt = target[:, i].contiguous()\n"
            "both = (p * t).sum()\n"
            "total += (2 * both + smooth) / (p.sum() + t.sum() + smooth)"
        ),
        "both = (p * t).transpose(0, 1)",
    ),
    "a sum that goes on": (
        turns("total += (pred[:, i] * target[:, i]).sum()", start="total = pred.mean()"),
        "total +=",
    ),
    "whole numbers": (
        turns(
            "total += (pred[:, i] > 0.5).sum()",
            start="total = 0.0",
            end="return total + pred.sum()",
        ),
        "total += (pred > 0.5)",
    ),
    "rows written": (
        turns(
            "out[i] = (pred[i] - pred[i].detach() * 2).pow(2).mean()",
            start="out = torch.zeros(pred.shape[0], device=pred.device)",
            end="return out.sum()",
            over="pred.shape[0]",
        ),
        "out[:] = (pred - pred.detach() * 2).pow(2).",
    ),
    "columns written": (
        turns(
            "out[:, i] = pred[:, i].sum(1).sum(1) + pred[:, i].exp().mean(1).mean(1)",
            start="out = torch.zeros(pred.shape[:2], device=pred.device)",
            end="return out.sum()",
        ),
        "out[:, :] = pred.sum(2).sum(2) + pred.exp().mean(2).mean(2)",
    ),
    "rows by name": (
        turns("total += row.abs().sum() * 2", "scores = torch.relu(pred)\ntotal = 0.0").replace(
            "for i in range(pred.size(1))", "for row in scores"
        ),
        "scores.abs()",
    ),
    "one side or the other": (
        turns(
            "error = (pred[i, :] - target[i, :]).abs()\n"
            "if error.max() > 0.52:\n    total += error.pow(2).sum()\n"
            "else:\n    total += error.sum()",
            over="pred.size(0)",
        ),
        "torch.where(",
    ),
    "one side alone": (
        turns(
            "p = (pred[i, :] - target[i, :]).abs()\n"
            "if p.mean() > 0.51:\n    total += p.pow(3).mean()",
            start="total = pred.mean()",
            over="pred.size(0)",
        ),
        "torch.where(",
    ),
    "a constant on one side": (
        turns(
            "if pred[:, i].sum() > target[:, i].sum():\n    total += pred[:, i].mean()\n"
            "else:\n    total += 0.25"
        ),
        "0.25",
    ),
    "bound to a name": (
        turns(
            "p = (pred[i, :] - target[i, :]).abs().mean()\nif p > 0.5:\n    p = p * 2\n"
            "if p < 0.9:\n    q = p\nelse:\n    q = p.square()\ntotal += q",
            over="pred.size(0)",
        ),
        "p = torch.where(p > 0.5, p * 2, p)",
    ),
}
KEPT = {
    "a side that does more": turns(
        "if pred[:, i].mean() > 0.5:\n    total += pred[:, i].mean()\n    found.append(total)"
    ),
    "a number that is asked for its truth": turns(
        "if pred[:, i].sum():\n    total += pred[:, i].mean()"
    ),
    "whole numbers that are asked for their truth": turns(
        "if (pred[:, i] > 0.5).sum():\n    total += pred[:, i].mean()"
    ),
    "sides that do different things": turns(
        "if pred[:, i].mean() > 0.5:\n    total += pred[:, i].mean()\nelse:\n    total = 0.0"
    ),
    "a third side": turns(
        "if pred[:, i].mean() > 0.5:\n    total += pred[:, i].mean()\n"
        "elif pred[:, i].sum() > 9:\n    total += 1.0"
    ),
    "an iteration that is left out": turns(
        "if pred[:, i].mean() > 0.5:\n    continue\ntotal += pred[:, i].mean()"
    ),
    "a name of the iteration before": turns(
        "if pred[:, i].mean() > 0.5:\n    q = pred[:, i].mean()\ntotal += q",
        start="total, q = 0.0, pred.sum()",
    ),
    "another part": turns("total += (pred[:, i] * pred[:, 0]).mean()"),
    "the index itself": turns("total += pred[:, i].mean() * i"),
    "a tensor of unknown size": turns(
        "total += (pred[:, i] * w).mean()", start="total = 0.0\nw = target.flatten(1)[:, :6]"
    ),
    "read after the loop": turns("m = pred[:, i].mean()\ntotal += m", end="return total + m"),
    "along an unknown last dimension": turns("total += target[:, i].sum(-1).mean(0).sum(-1)"),
    "a dropout": turns("total += pred[:, i].bernoulli().mean()"),
    "the last one wins": turns("total = pred[:, i].mean()"),
    "all but the first": turns("total += pred[:, i].mean()", over="1, pred.shape[1]"),
    "a list": turns("rows.append(pred[i].mean())", "rows = []", "return torch.stack(rows).sum()"),
    "a branch": turns("if i > 0:\n    total += pred[:, i].mean()"),
}


def ended(source: str) -> list[Any]:
    names, _ = ran(source)
    return [*names["found"], *names["net"].parameters(), torch.rand(1)]


def changed(source: str, safety: str = "unsafe") -> str:
    return fixed(source, safety, codes=CODES).after or source


@pytest.mark.parametrize("name", NEW)
def test_all_at_once_it_is_the_same_but_for_rounding(name: str) -> None:
    source, new = NEW[name]
    after = changed(source)
    assert after != source
    assert new in after, after
    assert "for i in range" not in after
    before, behind = ended(source), ended(after)
    assert len(before) == len(behind)
    for one, two in zip(before, behind, strict=True):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        assert torch.allclose(one, two, rtol=1e-4, atol=1e-6)
    assert torch.equal(before[-1], behind[-1]), "the random state"
    assert changed(after) == after, "the second run changes something"
    assert changed(source, "safe") == source


@pytest.mark.parametrize("name", KEPT)
def test_what_has_no_certain_vector_form_stays(name: str) -> None:
    source = KEPT[name]
    assert changed(source) == source


def test_comments_stay() -> None:
    source = turns(
        "# the square\np = pred[:, i].pow(2)\ntotal += p.mean()  # of a class",
        start="total = 0.0  # nothing yet",
    )
    after = changed(source)
    assert after == source or all(
        each in after for each in ("# the square", "# of a class", "# nothing yet")
    )


def test_the_findings_stay_where_no_fix_is_known() -> None:
    assert all(
        check(KEPT[name], codes=CODES).findings for name in ("another part", "the index itself")
    )


SEED = Path(__file__).parents[2] / "fixtures" / "seeds" / "loss_with_control_flow.py"


def test_the_loss_of_the_seed_gets_a_whole_patch() -> None:
    source = re.sub(r"  # TL\d+$", "", SEED.read_text(encoding="utf-8"), flags=re.MULTILINE)
    after = fixed(source, "unsafe", codes=frozenset({"TL601", "TL602"})).after
    loss = after[after.index("class PickyLoss") : after.index("class CalmLoss")]
    assert "for i" not in loss
    assert " if " not in loss
    assert loss.count("torch.where(") == 2
    end = """
found = []
torch.manual_seed(3)
for scale in (0.1, 0.6, 1.0, 30.0):
    pred = (torch.randn(9, 8) * scale).requires_grad_()
    target = torch.zeros(9, 8)
    PickyLoss()(pred, target).backward()
    found += [PickyLoss()(pred, target).detach(), pred.grad.clone()]
"""
    before, behind = (ran(each + end)[0]["found"] for each in (source, after))
    for one, two in zip(before, behind, strict=True):
        assert torch.allclose(one, two, rtol=1e-5)
