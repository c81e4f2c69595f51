"""Made-up complaints for msmrexe/pytorch-lora-from-scratch: a tiny BERT from scratch, and tuned.

Its ``train_lora.py`` makes layers on the host after the network has moved, which no GPU runs.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ["HF_HUB_OFFLINE"] = "1"
import pandas as pd
import torch
import transformers


class Letters:
    """A tokenizer for which each letter is a token."""

    @classmethod
    def from_pretrained(cls, _: str) -> "Letters":
        """Return one."""
        return cls()

    def __call__(self, text: str, max_length: int, **_: object) -> dict[str, torch.Tensor]:
        """Return the tokens of a text, as many as wanted."""
        ids = [ord(letter) % 60 + 1 for letter in text[:max_length]]
        left = max_length - len(ids)
        return {
            "input_ids": torch.tensor([ids + [0] * left]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * left]),
        }

    def save_pretrained(self, _: str) -> None:
        """Do nothing."""


config = transformers.BertConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
)
tiny = transformers.BertForSequenceClassification
library = sys.modules["transformers"]
library.AdamW = torch.optim.AdamW
library.BertTokenizer = library.AutoTokenizer = Letters
library.AutoModelForSequenceClassification = SimpleNamespace(
    from_pretrained=lambda *_, **__: tiny(config)
)
os.makedirs("data/processed", exist_ok=True)
rows = [{"Processed_complaint": f"card {i} is gone", "Product_encoded": i % 2} for i in range(16)]
for split in ("train", "test"):
    pd.DataFrame(rows).to_csv(f"data/processed/{split}.csv")
Path("data/processed/label_map.json").write_text(json.dumps({"a": 0, "b": 1}))
words = "--num-epochs 2 --batch-size 2 --max-len 24"
small = "--bert-hidden-size 16 --bert-num-heads 2 --bert-num-layers 2 --bert-intermediate-size 32"
for name, more in (("train_bert_scratch", small), ("train_full_finetune", "")):
    sys.argv = [f"scripts/{name}.py", *words.split(), *more.split()]
    runpy.run_module(f"scripts.{name}", run_name="__main__", alter_sys=True)
