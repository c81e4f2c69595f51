"""Two independent trainers, started by ``torch.multiprocessing.spawn``: the launcher itself does no
step."""

import torch
import torch.multiprocessing as mp
from pkg.model import Net
from torch import nn


def train(rank: int) -> None:
    torch.manual_seed(rank)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for _ in range(100_000):
        x, y = torch.randn(16, 32), torch.randint(10, (16,))
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
