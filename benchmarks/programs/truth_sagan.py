"""Made-up images for heykeetae/Self-Attention-GAN: four steps of its trainer.

``hinge`` as an argument takes the other loss. The log line of the repository reads ``.data[0]`` of
a scalar, which torch no longer allows: it is not reached here.
"""

import sys

import truth_no_vision

truth_no_vision.install()
loss = sys.argv[1] if len(sys.argv) > 1 else "wgan-gp"
sys.argv = ["main.py"]
import parameter  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from trainer import Trainer  # noqa: E402
from utils import make_folder  # noqa: E402

config = parameter.get_parameters()
config.adv_loss, config.imsize, config.batch_size = loss, 64, 2
config.total_step, config.log_step, config.sample_step = 4, 100, 2
for each in (config.model_save_path, config.sample_path, config.log_path):
    make_folder(each, config.version)
data = TensorDataset(torch.rand(4, 3, 64, 64), torch.zeros(4))
Trainer(DataLoader(data, batch_size=2), config).train()
