"""The Lightning Trainer on a tiny model."""

import lightning
import torch
from pkg.model import Net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


data = TensorDataset(torch.randn(20_000, 32), torch.randint(10, (20_000,)))
trainer = lightning.Trainer(
    max_epochs=50,
    accelerator="cpu",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Module(), DataLoader(data, batch_size=16, shuffle=True))
