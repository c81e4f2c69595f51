"""Made-up volumes for mikedwhite/lightning-vae3d: two epochs of its Lightning module."""

import os
import sys
from unittest import mock

import torch
from lightning.pytorch import Trainer
from torch import nn

sys.modules["damask"] = mock.MagicMock()
from lvae3d.LightningVAETrainers import VAETrainerAlpha  # noqa: E402
from lvae3d.models.ResNetVAE_3Deu import ResNet18_3DVAEeu  # noqa: E402
from lvae3d.util.DataLoaders import DataModule, Dataset3D  # noqa: E402
from lvae3d.util.LossFunctions import SpectralLoss3D  # noqa: E402
from lvae3d.util.MetadataDicts import MetadataAlpha  # noqa: E402

os.makedirs("data", exist_ok=True)
for i in range(8):
    torch.save(torch.rand(3, 16, 16, 16), f"data/{i}.pt")
module = DataModule(2, Dataset3D("data/"), Dataset3D("data/"), num_workers=1)
metadata, losses = MetadataAlpha(), (nn.BCEWithLogitsLoss(), SpectralLoss3D())
metadata.create(
    vae=ResNet18_3DVAEeu,
    TrainerModule=VAETrainerAlpha,
    loss_func1=losses[0],
    loss_func2=losses[1],
    alpha=0.9,
    parallel=False,
    patch_size=16,
    n_channels=3,
    n_epochs=2,
    learning_rate=1e-4,
    weight_decay=1e-4,
    batch_size=2,
    latent_dim=8,
    hidden_dim=512,
    amsgrad=True,
)
trainer = Trainer(
    max_epochs=2,
    accelerator="cuda",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    num_sanity_val_steps=0,
)
trainer.fit(VAETrainerAlpha(ResNet18_3DVAEeu, metadata, *losses), module)
