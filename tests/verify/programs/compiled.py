"""A compiled ``optimizer.step``: its hooks are compiled away, so calls of ``backward`` are the
steps."""

import torch
from pkg.model import Net
from torch import nn

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
step = torch.compile(optimizer.step, backend="eager")
for _ in range(100_000):
    x, y = torch.randn(16, 32), torch.randint(10, (16,))
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    step()
