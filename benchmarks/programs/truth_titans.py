"""Made-up tokens for XiaoConstantine/nanogpt-titans: training, compiled, with and without packing.

What compiles is torch itself, graph by graph: the backend runs each as it is.
"""

import os
import sys

import numpy as np
import torch

sys.path.insert(0, "src")
from nanogpt_titans.train import TrainConfig, train

os.makedirs("data/made_up", exist_ok=True)
chance = np.random.default_rng(0)
for split in ("train", "val"):
    chance.integers(0, 64, 600).astype(np.uint16).tofile(f"data/made_up/{split}.bin")
compile_ = torch.compile
torch.compile = lambda model, **_: compile_(model, backend="eager")  # type: ignore[assignment]
common = {
    "out_dir": "out",
    "dataset": "made_up",
    "eval_interval": 4,
    "eval_iters": 2,
    "log_interval": 1,
    "gradient_accumulation_steps": 2,
    "batch_size": 2,
    "block_size": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 16,
    "segment_len": 16,
    "num_persist_mem": 2,
    "num_longterm_mem": 4,
    "max_iters": 6,
    "dtype": "float32",
    "device": "cuda",
}
train(TrainConfig(compile=True, **common))
train(TrainConfig(use_packing=True, **common))
