"""Made-up tokens for LaithAskar/llm-from-scratch: a tiny model is trained, evaluated and saved."""

import os
import sys
from types import ModuleType

import numpy as np

tokens = ModuleType("tiktoken")
tokens.Encoding = object  # type: ignore[attr-defined]
sys.modules["tiktoken"] = tokens
from config import Config, ModelConfig, TrainConfig  # noqa: E402
from train import train  # noqa: E402

os.makedirs("data/tokens", exist_ok=True)
chance = np.random.default_rng(0)
for split in ("train", "val"):
    chance.integers(0, 64, 400).astype(np.uint16).tofile(f"data/tokens/{split}.bin")
sizes = {"vocab_size": 64, "n_layer": 2, "n_head": 2, "d_model": 32, "context_len": 16}
forms = (
    {"norm_type": "rmsnorm", "activation": "swiglu", "pos_encoding": "rope"},
    {"num_experts": 2},
)
for form in forms:
    steps = TrainConfig(
        micro_batch_size=2,
        max_steps=6,
        warmup_steps=2,
        eval_every=3,
        eval_iters=2,
        ckpt_every=4,
        log_every=1,
        out_dir="out",
        data_dir="data/tokens",
    )
    train(Config(model=ModelConfig(**sizes, **form), train=steps))
