"""A network that is given a tensor on the host, and moves none, lies on the host itself."""

from __future__ import annotations

import pytest

from tests.checking import check

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.body = nn.Embedding(10, 3)
        self.tokenizer = tokenizer

    def forward(self, x, {second}):
        {forward}

    def predict(self, texts: list[str], more: list[list[int]]):
        x = nn.utils.rnn.pad_sequence(self.tokenizer(texts), batch_first=True)
        {lines}
        scores = {call}
        found = scores.detach().cpu()
        return torch.topk(found, k=2)


def train(net, loader, opt):
    net.cuda()
    for x, y in loader:
        loss = net(x.cuda(non_blocking=True), y.cuda(non_blocking=True)).sum()
        loss.backward()
        opt.step()
"""
ADDS = "return self.body(x) + other"
MADE = "other = torch.stack([torch.tensor(each).reshape(1, -1) for each in more]).long()"
CALL = "self(x, other)"

HOST = [
    ("other", ADDS, MADE, CALL),
    ("other", ADDS.replace("(x)", "(x.to(torch.long))"), "other = torch.empty(3)", CALL),
    ("other=None", ADDS, "other = torch.zeros(len(texts), 3)", "self(x, other=other)"),
]
MAYBE = [
    ("other", ADDS, MADE.replace(".long()", ".cuda()"), CALL),
    ("other", "return self.body(x) + other.to(x.device)", MADE, CALL),
    ("other", "return self.body(x) + other.cuda()", MADE, CALL),
    ("lengths", "return self.body(x)[:, : max(lengths)]", "other = torch.ones(3)", CALL),
    ("other", ADDS, "other = torch.tensor(0.5)", CALL),
    ("other", ADDS, "x = x.cuda()\n        other = torch.empty(3)", CALL),
    ("other", ADDS, "other = self.tokenizer(more)", CALL),
]


def _found(second: str, forward: str, lines: str, call: str) -> list[str]:
    text = NET.format(second=second, forward=forward, lines=lines, call=call)
    found = check(text, codes=frozenset(("TL113", "TL101"))).findings
    return [each.message for each in found if "scores" in each.message]


@pytest.mark.parametrize("parts", HOST)
def test_what_it_gives_is_no_copy(parts: tuple[str, str, str, str]) -> None:
    assert not _found(*parts)


@pytest.mark.parametrize("parts", MAYBE)
def test_what_may_lie_on_a_device_is_one(parts: tuple[str, str, str, str]) -> None:
    assert len(_found(*parts)) == 1
