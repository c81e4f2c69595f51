"""Made-up pictures and codes for m4rch1n0/vqvae: its spatial VAE and its transformer."""

import os
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import truth_no_vision
import yaml
from torch.utils.data import DataLoader, TensorDataset

truth_no_vision.install()
sys.modules["mlflow"] = mock.MagicMock()
from src.scripts import train_transformer, train_vae  # noqa: E402


def written(name: str, config: dict[str, object]) -> str:
    """Write a configuration."""
    Path(name).write_text(yaml.safe_dump(config))
    return name


os.makedirs("out", exist_ok=True)
pictures = TensorDataset(torch.rand(12, 1, 28, 28), torch.arange(12) % 10)
loader = DataLoader(pictures, 2)
train_vae.get_data_loaders = lambda **_: (loader, loader)
train_vae.MlflowLogger = mock.MagicMock()
parts = ("mlflow_tracking_uri", "experiment_name", "run_name")
train_vae.main(
    written(
        "out/vae.yaml",
        {
            **dict.fromkeys(parts, "none"),
            "seed": 0,
            "device": "cuda",
            "max_epochs": 1,
            "lr": 0.001,
            "weight_decay": 0.0,
            "early_stop": 0,
            "save_latents": True,
            "grad_clip_max_norm": 1.0,
            "scheduler": True,
            "out_dir": "out",
            "model": {
                "in_channels": 1,
                "output_image_size": 28,
                "norm_type": "batch",
                "enc_channels": [8, 16, 16],
                "dec_channels": [16, 16, 8],
                "latent_dim": 8,
                "recon_loss": "mse",
                "beta": 1.0,
            },
            "data": {
                "name": "FashionMNIST",
                "root": "out",
                "batch_size": 2,
                "num_workers": 0,
                "pin_memory": True,
                "persistent_workers": False,
            },
        },
    )
)
np.save("out/codes.npy", np.random.default_rng(0).integers(0, 16, (12, 4, 4)))
torch.save(torch.arange(12) % 10, "out/labels.pt")
train_transformer.main(
    written(
        "out/transformer.yaml",
        {
            "system": {"seed": 0, "device": "cuda"},
            "data": {
                "codes_path": "out/codes.npy",
                "labels_path": "out/labels.pt",
                "batch_size": 2,
                "num_workers": 0,
            },
            "model": {
                "num_classes": 10,
                "num_tokens": 16,
                "embed_dim": 16,
                "n_layers": 2,
                "n_head": 2,
                "max_seq_len": 15,
            },
            "training": {"lr": 0.001, "weight_decay": 0.0, "epochs": 1},
            "out": {"dir": "out"},
        },
    )
)
