"""Made-up activations for DesmondZhong/sae-mamba: sparse autoencoders of three kinds."""

import sys
from unittest import mock

import torch

sys.modules.setdefault("datasets", mock.MagicMock())
from src.train_sae import train_sae  # noqa: E402

for kind in ("topk", "l1", "batchtopk"):
    train_sae(
        torch.randn(256, 16),
        d_hidden=32,
        sae_type=kind,
        k=4,
        n_steps=8,
        batch_size=32,
        save_path=f"out/{kind}.pt",
        log_interval=2,
        warmup_steps=2,
        resample_interval=4,
        resample_dead_threshold=1,
        aux_dead_threshold=1,
        k_aux=4,
        act_mean=torch.zeros(16),
        act_std=torch.ones(16),
    )
