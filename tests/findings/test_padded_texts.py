"""Texts that are all padded to one length: a hint where a transformer of the project reads them."""

from __future__ import annotations

import pytest

from tests.findings.test_fresh_misreadings import messages

DATASET = """\
import torch
from torch import nn
{given}


class Texts(torch.utils.data.Dataset):
    def __getitem__(self, i):
        return self.tokenizer(self.texts[i], padding="max_length", max_length={length})
"""
MODEL = """\
from transformers import AutoModel


def train(loader):
    model = AutoModel.from_pretrained("x").to("cuda")
"""


@pytest.mark.parametrize("length", ["512", "self.longest", "LIMIT"])
def test_the_length_is_named(length: str) -> None:
    (said,) = messages(DATASET.format(given=MODEL, length=length), "TL912")
    assert f"fewer than {length} tokens" in said


@pytest.mark.parametrize(
    "given",
    ["model = nn.LSTM(4, 4)", f"{MODEL}\nhead = nn.Conv1d(4, 4, 3)", f"{MODEL}\nimport torch_xla"],
)
def test_what_may_need_one_length_is_left_alone(given: str) -> None:
    assert not messages(DATASET.format(given=given, length="512"), "TL912")
