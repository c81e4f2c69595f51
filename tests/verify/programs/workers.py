"""A DataLoader with two worker processes (``fork`` or ``spawn``), a gradient scaler and a
learning-rate schedule."""

import sys

import torch
from pkg.model import Net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    start = sys.argv[1] if len(sys.argv) > 1 else "fork"
    data = TensorDataset(torch.randn(20_000, 32), torch.randint(10, (20_000,)))
    loader = DataLoader(
        data,
        batch_size=16,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=start,
    )
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    scaler = torch.amp.GradScaler("cpu")
    criterion = nn.CrossEntropyLoss()
    for _ in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(criterion(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
            schedule.step()


if __name__ == "__main__":
    main()
