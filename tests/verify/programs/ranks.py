"""Two ranks over gloo, started by ``torchrun``."""

import torch
import torch.distributed as dist
from pkg.model import Net
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
torch.manual_seed(dist.get_rank())
for _ in range(100_000):
    x, y = torch.randn(16, 32), torch.randint(10, (16,))
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
