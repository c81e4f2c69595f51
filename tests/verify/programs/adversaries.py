"""Two optimizers that take turns, as in a GAN; the second steps twice as often, so its steps are
the program's."""

import torch
from pkg.model import Net
from torch import nn

maker, judge = nn.Linear(8, 32), Net()
making = torch.optim.Adam(maker.parameters(), lr=1e-3)
judging = torch.optim.Adam(judge.parameters(), lr=1e-3)
for _ in range(100_000):
    making.zero_grad()
    judge(maker(torch.randn(16, 8))).mean().backward()
    making.step()
    for _ in range(2):
        judging.zero_grad()
        real = torch.randn(16, 32)
        with torch.no_grad():
            made = maker(torch.randn(16, 8))
        (judge(real).mean() - judge(made).mean()).tanh().backward()
        judging.step()
