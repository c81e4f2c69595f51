"""A loop that waits for what a person types is no loop over data; the tokens of an answer are."""

from __future__ import annotations

import pytest

from tests.checking import check

CHAT = """\
import torch
from torch import nn

net = nn.Linear(8, 8).cuda().eval()


def encode(text):
    return torch.ones(1, 8).cuda()


@torch.no_grad()
def chat(texts):
    LOOP
        out = net(encode(text))
        print(out.max().item())
        BELOW
"""


@pytest.mark.parametrize(
    ("loop", "below", "rows"),
    [
        ("while True:\n        text = input('You: ')", "pass", set()),
        ("for _ in range(99):\n        text = input('> ').strip()", "pass", set()),
        ("while (text := input('> ')) != 'q':", "pass", set()),
        (
            "while True:\n        text = input('> ')",
            "for _ in range(64):\n            out = net(out)\n            print(out.sum().item())",
            {19},
        ),
        ("for text in texts:", "pass", {15}),
        ("for text in texts:\n        text = net.input(text)", "pass", {16}),
    ],
)
def test_a_loop_that_asks_a_person(loop: str, below: str, rows: set[int]) -> None:
    source = CHAT.replace("LOOP", loop).replace("BELOW", below)
    found = check(source, codes=frozenset({"TL101", "TL105"})).findings
    assert {each.start.row for each in found} == rows
