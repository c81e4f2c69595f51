"""Made-up reviews for urmi22/bert-sentiment-pytorch: its training and validation, a tiny BERT.

Its ``dataset.py`` holds an unresolved merge and its model takes a tuple from an old transformers;
the data set is made here, and the tiny model returns a tuple.
"""

import sys
from types import ModuleType, SimpleNamespace

import torch
import transformers


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


def bert(*_: object) -> transformers.BertModel:
    """Return a BERT of one layer whose results are a tuple."""
    sizes = {"hidden_size": 768, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=64, intermediate_size=16, **sizes)
    config.return_dict = False
    return transformers.BertModel(config)


dataset = ModuleType("dataset")
dataset.ImdbReviewDataset = Reviews  # type: ignore[attr-defined]
sys.modules["dataset"] = dataset
old = ModuleType("transformers")
old.BertTokenizer = Tokenizer  # type: ignore[attr-defined]
old.AdamW = torch.optim.AdamW  # type: ignore[attr-defined]
old.BertModel = SimpleNamespace(from_pretrained=bert)  # type: ignore[attr-defined]
sys.modules["transformers"] = old
import config  # noqa: E402
import train  # noqa: E402

config.EPOCHS, config.TRAIN_BATCH_SIZE, config.VAL_BATCH_SIZE = 2, 4, 2
train.main()
