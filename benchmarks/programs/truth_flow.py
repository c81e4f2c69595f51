"""Made-up pictures for egeyavuzcan/ddpm-flow-matching-from-scratch: both methods, and samples."""

import sys
from unittest import mock

import torch
import truth_no_vision
from torch.utils.data import DataLoader, TensorDataset

truth_no_vision.install()
sys.modules["torch.utils.tensorboard"] = mock.MagicMock()
from scripts import train  # noqa: E402

pictures = TensorDataset(torch.rand(12, 3, 32, 32) * 2 - 1, torch.arange(12) % 10)
train.get_cifar10_dataloader = lambda **_: DataLoader(pictures, 2, shuffle=True)
for method in ("ddpm", "flow_matching"):
    sys.argv = ["train.py", "--method", method, "--epochs", "1", "--output_dir", "out"]
    train.main()

from diffusion.ddpm.noise_schedule import NoiseSchedule  # noqa: E402
from inference.ddpm_sampler import DDPMSampler  # noqa: E402
from inference.flow_matching_sampler import FlowMatchingSampler  # noqa: E402
from modeling.model_factory import create_model  # noqa: E402

device = torch.device("cuda")
model = create_model("unet_small", num_classes=10, image_size=32)
labels = torch.arange(2)
DDPMSampler(model, NoiseSchedule(num_timesteps=3), device).sample(2, class_label=labels)
FlowMatchingSampler(model, device).sample(2, class_label=labels, num_steps=3)
