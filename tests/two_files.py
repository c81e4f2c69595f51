"""A program of two files: batches are copied in the one and loaded in the other, so that TL103
changes both."""

DATA = """\
import torch
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((8,), float(index)), torch.tensor(index % 2)


def get_loaders(n):
    train = DataLoader(Pairs(), n, num_workers=1)
    val = DataLoader(Pairs(), n)
    return train, val
"""
TRAIN = """\
import torch
from torch import nn

from data import get_loaders


def train_epoch(model, loader, optimizer, device):
    total = torch.zeros((), device=device)
    for x, y in loader:
        x = x.to(device)
        y = y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train, val = get_loaders(2)
    for _ in range(2):
        print(train_epoch(model, train, optimizer, device).item())


if __name__ == "__main__":
    main()
"""
PINNED = "num_workers=1, pin_memory=torch.cuda.is_available())"
MOVED = "x.to(device, non_blocking=True)"
