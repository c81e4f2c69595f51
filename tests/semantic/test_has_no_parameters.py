"""What networks of other packages' layers record: those without parameters nothing."""

from __future__ import annotations

import pytest

from tests.checking import check

PROGRAM = """\
import torch
import torchaudio
from torch import nn
from speech import Encoder


class Extractor(nn.Module):
    pass


class Features(Extractor):
    def __init__(self, rate=16000, padding="center"):
        super().__init__()
        self.rate = rate
        self.padding = padding
        {part}

    def forward(self, audio):
        return torch.log(self.part(audio) + 1e-6)


def infer(paths):
    features = Features().cuda()
    for path in paths:
        audio, rate = torchaudio.load(path)
        print(path, features(audio.cuda()).mean(-1))
"""
FOUND = ["TL501"]


@pytest.mark.parametrize(
    ("part", "codes"),
    [
        ("self.part = torchaudio.transforms.MelSpectrogram(n_fft=1024)", []),
        ("self.part = torchaudio.transforms.Resample(44100, rate)", []),
        ("self.part = nn.AvgPool1d(2)\n        self.device = torch.device('cuda')", []),
        ("self.part = torchaudio.models.Conformer(80, 4, 128, 4, 31)", FOUND),
        ("self.part = torchaudio.transforms.Resample()\n        self.mix = nn.Linear(2, 2)", FOUND),
        ("self.part = nn.AvgPool1d(2)\n        self.scale = nn.Parameter(torch.ones(1))", FOUND),
        ("self.part = Encoder(rate)", FOUND),
        ("self.part: nn.Module = nn.Linear(2, 2)", FOUND),
        ("self.part: nn.Module = nn.AvgPool1d(2)", []),
        ("self.register_parameter('part', nn.Parameter(torch.ones(1)))", FOUND),
    ],
)
def test_what_a_network_is_made_of(part: str, codes: list[str]) -> None:
    source = PROGRAM.format(part=part)
    found = check(source, codes=frozenset({"TL501"})).findings
    assert [each.code for each in found] == codes
