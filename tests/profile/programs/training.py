"""Trains a little of everything, and prints what came of it."""

import hashlib
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        hidden = self.first(x)
        if hidden.mean() > 10:  # torchlint: ignore[TL607] a break of the graph is wanted
            hidden = hidden / 2
        hidden = checkpoint(torch.tanh, hidden, use_reentrant=False)
        for scale in (1.0, 0.5):
            hidden = hidden + scale * torch.relu(hidden)
        return self.last(self.drop(hidden))


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 + 0 * x


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(Double.apply(model(x)), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _epoch in range(3):
        for x, y in DataLoader(data, batch_size=16, shuffle=True):
            losses.append(step(model, optimizer, x, y))
    with torch.no_grad():
        compiled = torch.compile(model.eval(), fullgraph=False, backend="eager")
        out = compiled(data.tensors[0])
    tensors = [*model.state_dict().values(), torch.tensor(losses), out]
    digest = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in tensors))
    sys.stdout.write(f"{digest.hexdigest()} {len(losses)} {sys.argv[1:]}\n")


if __name__ == "__main__":
    main()
