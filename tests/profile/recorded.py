"""A program to record: each statement that calls torch stands in a mark with its line."""

from __future__ import annotations

import torch
from torch.profiler import record_function


def plain(x: torch.Tensor) -> torch.Tensor:
    with record_function("line 10"):
        y = x.mm(x)
    with record_function("line 12"):
        y = y.relu()
    with record_function("line 14"):
        if y.sum() > 0:
            with record_function("line 16"):
                y = torch.tanh(y)
    with record_function("line 18"):
        z = float(y.mean())
    with record_function("line 20"):
        return y * z + x


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with record_function("line 31"):
            x = self.first(x)
        with record_function("line 33"):
            x = torch.sigmoid(x)
        with record_function("line 35"):
            return self.second(x).softmax(-1)


def main(steps: int) -> list[float]:
    net, kept = Net(), []
    with record_function("line 41"):
        x = torch.randn(16, 16)
    for _ in range(steps):
        with record_function("line 44"):
            y = plain(x)
        with record_function("line 46"):
            y = net(y)
        with record_function("line 48"):
            kept.append(y.max().item())
        with record_function("line 50"):
            total = torch.zeros(3).sum()
        with record_function("line 52"):
            kept.append(float(total) if bool(total) else 0.0)
    return kept
