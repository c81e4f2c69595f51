"""Made-up images for LeeJunHyun/Image_Segmentation: two epochs of its solver.

Its test stage needs a best network, which its scores of today's truth values never choose.
"""

import contextlib
import os
from argparse import Namespace

import torch
import truth_no_vision
from torch.utils.data import DataLoader, TensorDataset

truth_no_vision.install()
import solver  # noqa: E402

os.makedirs("out/U_Net", exist_ok=True)
images = torch.rand(4, 3, 32, 32)
masks = (torch.rand(4, 1, 32, 32) > 0.5).float()
loader = DataLoader(TensorDataset(images, masks), batch_size=2)
config = Namespace(
    img_ch=3,
    output_ch=1,
    augmentation_prob=0.4,
    lr=0.0002,
    beta1=0.5,
    beta2=0.999,
    num_epochs=2,
    num_epochs_decay=1,
    batch_size=2,
    log_step=2,
    val_step=2,
    model_path="out",
    result_path="out",
    mode="train",
    model_type="U_Net",
    t=2,
)
with contextlib.suppress(UnboundLocalError):
    solver.Solver(config, loader, loader, loader).train()
