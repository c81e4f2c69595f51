"""Made-up digits for whizhou/Rectified-Flow-MNIST: training with guidance, and its sampling."""

import os
import sys
from pathlib import Path
from unittest import mock

import torch
import truth_no_vision
import yaml
from torch.utils.data import TensorDataset

truth_no_vision.install()
sys.modules["cv2"] = mock.MagicMock()
digits = TensorDataset(torch.rand(12, 1, 28, 28), torch.arange(12) % 10)
sys.modules["torchvision.datasets"].MNIST = lambda **_: digits  # type: ignore[attr-defined]
import infer  # noqa: E402
import train  # noqa: E402

config = {
    "base_channels": 8,
    "epochs": 2,
    "batch_size": 2,
    "batch_print_interval": 2,
    "tag": "v",
    "use_cfg": True,
    "device": "cuda",
}
os.makedirs("out/config", exist_ok=True)
os.makedirs("out/checkpoints", exist_ok=True)
Path("out/config/flow_mnist.yaml").write_text(yaml.safe_dump(config))
train.train("out")
infer.infer(
    checkpoint_path="out/checkpoints/v/Unet_final.pth",
    step=4,
    num_imgs=2,
    y=torch.arange(2),
    save_path=Path("out"),
)
