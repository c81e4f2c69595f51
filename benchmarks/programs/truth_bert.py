"""Made-up reviews for urmi22/bert-sentiment-pytorch: its training and validation.

Its ``dataset.py`` holds an unresolved merge and its model takes a tuple from an old transformers:
a data set and a stand-in for BERT are made here.
"""

import sys
from types import ModuleType, SimpleNamespace

import torch


class Reviews(torch.utils.data.Dataset):
    """Sixteen reviews of eight tokens."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(8) + index
        ones, zeros = torch.ones(8, dtype=torch.long), torch.zeros(8, dtype=torch.long)
        return {
            "ids": ids,
            "mask": ones,
            "token_type_ids": zeros,
            "targets": torch.tensor(float(index % 2)),
        }


class Tokenizer:
    """Stands for the tokenizer, which the made-up reviews need not."""

    @classmethod
    def from_pretrained(cls, *_: object, **__: object) -> "Tokenizer":
        """Return one."""
        return cls()


class Bert(torch.nn.Module):
    """Stands for BERT: the hidden states of an embedding, and the first of them pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.pooler = torch.nn.Embedding(64, 768), torch.nn.Linear(768, 768)

    def forward(self, ids: torch.Tensor, **_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return hidden states (batch, length, 768) and the pooled ones (batch, 768)."""
        hidden = self.embedding(ids)
        return hidden, self.pooler(hidden[:, 0])


dataset = ModuleType("dataset")
dataset.ImdbReviewDataset = Reviews  # type: ignore[attr-defined]
sys.modules["dataset"] = dataset
old = ModuleType("transformers")
old.BertTokenizer = Tokenizer  # type: ignore[attr-defined]
old.AdamW = torch.optim.AdamW  # type: ignore[attr-defined]
old.BertModel = SimpleNamespace(from_pretrained=lambda _: Bert())  # type: ignore[attr-defined]
sys.modules["transformers"] = old
import config  # noqa: E402
import train  # noqa: E402

config.EPOCHS, config.TRAIN_BATCH_SIZE, config.VAL_BATCH_SIZE = 2, 4, 2
train.main()
