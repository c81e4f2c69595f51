"""LBFGS: one step of the optimizer calls ``backward`` several times in a closure."""

import torch
from pkg.model import Net
from torch import nn

model = Net()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(64, 32), torch.randint(10, (64,))


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    return loss


for _ in range(100_000):
    optimizer.step(closure)
