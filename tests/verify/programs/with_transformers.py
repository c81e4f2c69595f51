"""The Hugging Face Trainer on a tiny model."""

import torch
from pkg.model import Net
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Rows(Dataset):
    def __len__(self) -> int:
        return 20_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((32,), index % 7 / 7), "labels": torch.tensor(index % 10)}


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.net(x)
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}


arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=16,
    num_train_epochs=50,
    use_cpu=True,
    save_strategy="no",
    report_to="none",
)
Trainer(Classifier(), arguments, train_dataset=Rows()).train()
