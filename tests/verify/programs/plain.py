"""A loop as in a tutorial: random batches, Adam, cross entropy. ``--steps N`` ends it by itself."""

import sys

import torch
from pkg.model import Net
from torch import nn

steps = 100_000
if sys.argv[1:2] == ["--steps"]:
    steps = int(sys.argv[2])
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for _ in range(steps):
    x, y = torch.randn(16, 32), torch.randint(10, (16,))
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
