"""Where a rule puts facts into its sentence, or chooses between several, the right words are
told."""

from __future__ import annotations

import textwrap

import pytest

from tests.checking import check

LOOP = """
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel as DDP


def train(network, loader, optimizer, k):
    model = {model}
    for i, x in enumerate(loader):
        {before}
        model(x).sum().backward()
        {after}
"""
FORWARD = """
from torch import nn
import torch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4).cuda()

    def forward(self, x, y):
        out = self.layer(x)
        {body}
"""
OPTIMIZER = """
import torch


class {name}(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.mul_(0.9).add_(p.grad).add_(p.data)


cuda = torch.device("cuda")
"""


def loop(model: str = "network", before: str = "pass", after: str = "optimizer.step()") -> str:
    return LOOP.format(model=model, before=before, after=textwrap.indent(after, " " * 8).strip())


def forward(body: str) -> str:
    return FORWARD.format(body=textwrap.indent(body, " " * 8).strip())


SAVE = "optimizer.step()\ntorch.save(model.state_dict(), 'a')"
MASTER = "optimizer.step()\nif dist.get_rank() == 0:\n    torch.save(model.state_dict(), 'a')"
TOGETHER = "optimizer.step()\ndcp.save(model.state_dict(), checkpoint_id='a')"
EVERY_K = "if (i + 1) % k == 0:\n    optimizer.step()"
LAST = "if i + 1 == len(loader):\n    optimizer.step()"
PAIRS = """\
for i in range(x.shape[0]):
    for j in range(y.shape[0]):
        out[i, j] = (x[i] - y[j]).pow(2).sum()
return out"""
NESTED_ROWS = """\
for i in range(x.shape[0]):
    for part in (1, 2, 3):
        out[i] = x[i].pow(part).sum()
return out"""
TWO_INDICES = """\
n = 3
for i in range(x.shape[0]):
    out[i, n] = x[i].pow(2).sum()
return out"""
NO_GRAD = "with torch.no_grad():\n    return torch.tensor([self.layer(x).mean()])"
OLDER = "from torch import nn\nfrom transformers import AdamW\nmodel = nn.Linear(2, 2).cuda()\n"
OLDER += "AdamW(model.parameters(){more})\n"
CASES = [
    ("TL503", loop(before="optimizer.zero_grad()", after=EVERY_K), "only every k micro-batches"),
    ("TL503", loop(before="optimizer.zero_grad()", after=LAST), "only now and then"),
    ("TL506", OPTIMIZER.format(name="Adam"), "torch.optim.Adam updates"),
    ("TL506", OPTIMIZER.format(name="my_sgd"), "torch.optim.SGD updates"),
    ("TL506", OLDER.format(more=""), "where they are left out)."),
    ("TL506", OLDER.format(more=", correct_bias=False"), "always corrects the bias"),
    ("TL508", loop("DDP(network)", after=SAVE), "runs on every step, on every rank"),
    ("TL508", loop("DDP(network)", after=MASTER), "runs on every step;"),
    ("TL508", loop("DDP(network)", after=TOGETHER), "runs on every step;"),
    ("TL508", loop(after=SAVE), "runs on every step;"),
    ("TL601", forward(PAIRS), "Nested Python loops"),
    ("TL601", forward(NESTED_ROWS), "Python loop over tensor elements"),
    ("TL601", forward(TWO_INDICES), "Python loop over tensor elements"),
    ("TL606", forward("return torch.tensor([out.mean(), 1.0])"), "drops their gradients"),
    (
        "TL606",
        forward("return torch.tensor([v for v in (out.mean(), out.std())])"),
        "drops their gradients",
    ),
    (
        "TL606",
        forward("return torch.tensor([(out > 0).sum(), (out > 1).sum()])"),
        "reads each of them back",
    ),
    ("TL606", forward(NO_GRAD), "reads each of them back"),
    (
        "TL606",
        forward("return torch.tensor([v.item() for v in out.flatten()])"),
        "numbers that .item() reads",
    ),
]


@pytest.mark.parametrize(
    ("code", "source", "words"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)]
)
def test_the_sentence_says(code: str, source: str, words: str) -> None:
    told = [finding.message for finding in check(source, codes=frozenset({code})).findings]
    assert len(told) == 1
    assert words in told[0]


@pytest.mark.parametrize(
    ("loop", "severity"), [("for x, y in loader:", "warning"), ("for x in parts:", "info")]
)
def test_a_tensor_grown_in_cold_code_is_a_hint(loop: str, severity: str) -> None:
    step = (
        "loss = model(x).sum()\n        loss.backward()\n        optimizer.step()\n        "
        if "loader" in loop
        else ""
    )
    text = f"""import torch

def collect(model, loader, optimizer, parts):
    out = torch.zeros(0, 3)
    {loop}
        {step}out = torch.cat([out, x.detach()])
    return out
"""
    (found,) = (f for f in check(text, codes=frozenset({"TL603"})).findings if f.code == "TL603")
    assert found.severity.value == severity
