"""Made-up answers for ibrahim1metin/DPO-from-scratch-with-GPT-2: two epochs of a tiny GPT-2."""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

os.environ["HF_HUB_OFFLINE"] = "1"
import transformers


class Samples(dict[str, list[str]]):
    """Columns of texts, as long as they are."""

    def __len__(self) -> int:
        return len(self["chosen"])


class Letters:
    """A tokenizer for which each letter is a token."""

    eos_token = pad_token = "~"
    bos_token = None
    eos_token_id = 0
    padding_side = "right"

    def __call__(self, texts: list[str], **_: object) -> dict[str, list[list[int]]]:
        """Return the tokens of texts."""
        return {"input_ids": [[ord(letter) % 60 + 1 for letter in text] for text in texts]}

    def pad(self, encoded: dict[str, Any], **_: object) -> dict[str, torch.Tensor]:
        """Make all as long as one length."""
        rows = [row[:48] for row in encoded["input_ids"]]
        ids = torch.tensor([row + [0] * (48 - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (48 - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": mask}


def stand_in(name: str, **parts: object) -> None:
    """Put a module in the place of one that is not installed."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    module.__dict__.update(parts)
    sys.modules[name] = module


texts = Samples(
    chosen=[f"Q{i}\n\nyes, it is {i}" for i in range(32)],
    rejected=[f"Q{i}\n\nno, never" for i in range(32)],
)
network = transformers.GPT2LMHeadModel  # imported here: it looks for peft and datasets
schedule = transformers.get_cosine_schedule_with_warmup
small = transformers.GPT2Config(vocab_size=64, n_positions=48, n_embd=16, n_layer=2, n_head=2)
library = sys.modules["transformers"]  # imports replace it
stand_in("datasets", load_dataset=lambda *_: {"train": texts, "test": texts})
stand_in(
    "peft",
    LoraConfig=lambda **_: None,
    get_peft_model=lambda model, _: model,
    prepare_model_for_kbit_training=lambda model: model,
)
library.BitsAndBytesConfig = lambda **_: None
library.GPT2TokenizerFast = SimpleNamespace(from_pretrained=lambda *_: Letters())
library.AutoModelForCausalLM = SimpleNamespace(
    from_pretrained=lambda *_, **__: network(small).cuda()
)
import hyperparams  # noqa: E402
import utils  # noqa: E402

utils.generate_weight = None
hyperparams.NUM_EPOCHS = 2
hyperparams.ACC_STEPS = 1
hyperparams.bnb = SimpleNamespace(
    optim=SimpleNamespace(
        AdamW=lambda rows, weight_decay, lr, **_: torch.optim.AdamW(
            rows, lr=lr, weight_decay=weight_decay
        )
    )
)
import DPO  # noqa: E402, F401
