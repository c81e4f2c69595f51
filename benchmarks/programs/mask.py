"""The example of PyTorch's profiler tutorial, in a training loop.

A mask in double precision goes to the host, NumPy searches it, and what it found comes back.
"""

import numpy as np
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 10)

    def forward(self, x, mask):
        out = self.linear(x)
        threshold = out.sum(axis=1).mean().item()
        places = np.argwhere(mask.cpu().numpy() > threshold)
        places = torch.from_numpy(places).to(mask.device)
        return out, places


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    side = 100 if device.type == "cuda" else 30
    model = Masked(500).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.rand(128, 500, device=device)
    mask = torch.rand((side, side, side), dtype=torch.double, device=device)
    for _ in range(3000):
        out, places = model(x, mask)
        loss = (out.mean() - places.float().mean() / side).square()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
