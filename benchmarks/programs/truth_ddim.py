"""Made-up pictures for ermongroup/ddim: an epoch of training a tiny model, and sampling from it."""

import os
import sys
from argparse import Namespace
from types import ModuleType

import torch
import truth_no_vision

truth_no_vision.install()
board = ModuleType("torch.utils.tensorboard")
sys.modules["torch.utils.tensorboard"] = board
sys.modules.setdefault("lmdb", ModuleType("lmdb"))
from runners import diffusion  # noqa: E402


class Log:
    """Takes what is logged and keeps nothing."""

    def add_scalar(self, *_: object, **__: object) -> None:
        """Do nothing."""


pictures = torch.utils.data.TensorDataset(torch.rand(8, 3, 16, 16), torch.zeros(8))
diffusion.get_dataset = lambda *_: (pictures, pictures)
for folder in ("out", "pictures"):
    os.makedirs(folder, exist_ok=True)
config = Namespace(
    device="cuda",
    tb_logger=Log(),
    data=Namespace(
        dataset="CIFAR10",
        image_size=16,
        channels=3,
        logit_transform=False,
        uniform_dequantization=False,
        gaussian_dequantization=False,
        random_flip=True,
        rescaled=True,
        num_workers=0,
    ),
    model=Namespace(
        type="simple",
        in_channels=3,
        out_ch=3,
        ch=32,
        ch_mult=[1, 2],
        num_res_blocks=1,
        attn_resolutions=[8],
        dropout=0.1,
        var_type="fixedlarge",
        ema_rate=0.99,
        ema=True,
        resamp_with_conv=True,
    ),
    diffusion=Namespace(
        beta_schedule="linear", beta_start=0.0001, beta_end=0.02, num_diffusion_timesteps=20
    ),
    training=Namespace(batch_size=2, n_epochs=2, snapshot_freq=100),
    sampling=Namespace(batch_size=2),
    optim=Namespace(
        optimizer="Adam",
        lr=0.0002,
        weight_decay=0.0,
        beta1=0.9,
        amsgrad=False,
        eps=1e-8,
        grad_clip=1.0,
    ),
)
args = Namespace(
    resume_training=False,
    log_path="out",
    image_folder="pictures",
    use_pretrained=False,
    fid=False,
    interpolation=False,
    sequence=True,
    sample_type="generalized",
    skip_type="uniform",
    timesteps=5,
    eta=0.5,
)
runner = diffusion.Diffusion(args, config)
runner.train()
runner.sample()
