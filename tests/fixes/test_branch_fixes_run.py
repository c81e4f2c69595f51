"""Tests of a tensor's truth that TL602 takes away are executed before and after: values, types and
gradients are the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL602"})
HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
net = nn.Linear(3, 4).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = [torch.randn(5, 3), torch.full((5, 3), 9.0), torch.full((5, 3), float("nan"))]
found = []


def train():
    for x in loader:
        out = net(x.to(device)) * 1.0
"""
END = """\
        found.append(out.detach().clone())
        optimizer.zero_grad()
        out.nan_to_num().square().sum().backward()
        found.append(net.weight.grad.clone())


train()
"""


def program(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.splitlines()) + END


RETURNED = {
    "a constant for one value": "if error == 0:\n    return float('inf')\n"
    "return 20 * torch.log10(1 / torch.sqrt(error))",
    "a number": "if error > 2:\n    return 0.5\nreturn error * 2",
    "of NaN": "if error != error:\n    return -1.0\nreturn error.exp()",
}
NOT_RETURNED = {
    "nothing": "if error == 0:\n    return None\nreturn error * 2",
    "one that is asked for its truth": "if error:\n    return 0.0\nreturn error * 2",
    "a count": "count = (x > 0).sum()\nif count:\n    return 0.0\nreturn error * 2",
    "of several numbers": "if error == 0:\n    return 0.0\nreturn x * error",
    "something happens before": "if error == 0:\n    return 0.0\nfound.append(1)\nreturn error",
    "more than it": "if error == 0:\n    found.append(1)\n    return 0.0\nreturn error * 2",
}
BEST = {
    "nothing yet": "best = loss if best is None or loss < best else best",
    "a number to begin with": "best = loss if loss < best else best",
    "the other way round": "best = best if best <= loss else loss",
}


def ended(source: str) -> list[Any]:
    names, _ = ran(source)
    return [*names["found"], torch.rand(1)]


def changed(source: str) -> str:
    return fixed(source, "unsafe", codes=CODES).after or source


def same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one.nan_to_num(), two.nan_to_num())
    return one == two and [*map(type, one)] == [*map(type, two)]


GIVEN = """\
import torch
from torch import nn

torch.manual_seed(0)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, weight=None, bias=None):
        x = self.linear(x)
        weight_given = weight
        if {test}:
            x = x * weight.view(1, 1)
        bias = bias or x
        if bias:
            x = x + bias.view(-1, 3)
        return x


net = Scaled().cuda()
x = torch.ones(1, 3).cuda()
w = torch.full((1,), 2.0).cuda()
net(x).sum().backward()
net(x, w).sum().backward()
found = [net(x), net(x, w), net.linear.weight.grad]
"""


def test_a_parameter_is_asked_whether_it_was_given() -> None:
    source = GIVEN.format(test="weight").replace("        bias = bias or x\n", "")
    source = source.replace("        if bias:\n            x = x + bias\n", "")
    after = changed(source)
    assert "if weight is not None:" in after
    assert all(same(one, two) for one, two in zip(ended(source), ended(after), strict=True))
    assert changed(after) == after


def test_a_name_that_is_bound_anew_is_asked_as_before() -> None:
    after = changed(GIVEN.format(test="weight_given is not None"))
    assert "if bias:" in after


def test_a_loop_of_tokens_that_ends_when_all_have_ended_is_left_alone() -> None:
    token = (
        "def decode(n):\n    ended = torch.zeros(5, device=device, dtype=torch.bool)\n"
        "    x = loader[0].to(device)\n    for _ in range(n):\n"
        "        ended |= net(x).sum(1) > 0\n        if ended.all():\n            break\n"
    )
    assert not check(HEAD.partition("def train")[0] + token, codes=CODES).findings
    other = token.replace("ended.all()", "ended[0]").replace("break", "x = x * 2")
    assert check(HEAD.partition("def train")[0] + other, codes=CODES).findings


MEASURED = (
    HEAD.partition("def train")[0]
    + """\
def measure(x):
    error = x.square().mean()
{body}


for x in [*loader, torch.zeros(5, 3)]:
    found.append(measure(x.to(device)))
    found.append(net(x.to(device)))
"""
)


def measured(body: str) -> str:
    return MEASURED.format(body="".join(f"    {line}\n" for line in body.splitlines()).rstrip())


@pytest.mark.parametrize("body", RETURNED.values(), ids=RETURNED)
def test_a_number_that_is_returned_early_is_chosen_on_the_device(body: str) -> None:
    source = measured(body)
    after = changed(source)
    assert "return torch.where(" in after
    before, now = (
        [float(torch.as_tensor(v).detach().sum()) for v in ended(s)] for s in (source, after)
    )
    assert str(before) == str(now)


@pytest.mark.parametrize("body", NOT_RETURNED.values(), ids=NOT_RETURNED)
def test_what_else_is_returned_early_is_left(body: str) -> None:
    assert changed(measured(body)) == measured(body)


TRAINED = (
    HEAD.partition("def train")[0]
    + """\
best = {start}
for x in loader * 2:
    loss = net(x.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    {line}
    found.append(f"{{best}}")
"""
)


@pytest.mark.parametrize("name", BEST)
def test_the_best_is_kept_on_the_device(name: str) -> None:
    start = "None" if name == "nothing yet" else "float('inf')"
    source = TRAINED.format(start=start, line=BEST[name].replace("\n", "\n    "))
    after = changed(source)
    assert "torch.where(" in after
    assert str(ended(source)) == str(ended(after))


@pytest.mark.parametrize(
    "line",
    [
        "if loss < best:\n        best = loss\n        found.append(1)",
        "best = loss if loss < 3 else best",
        "best = loss if loss - best else best",
        "best = loss if best is None and loss < 3 else best",
    ],
)
def test_more_than_the_best_is_left(line: str) -> None:
    source = TRAINED.format(start="float('inf')", line=line)
    assert changed(source) == source
