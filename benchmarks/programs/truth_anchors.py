"""Made-up pictures and boxes for Jechen00/yolov3-pytorch: two epochs of its loop, EMA and loss."""

import os
import sys
from types import ModuleType
from unittest import mock

import torch
import truth_no_vision
from torch import nn

truth_no_vision.install()
metric = ModuleType("torchmetrics.detection.mean_ap")
metric.MeanAveragePrecision = mock.MagicMock  # type: ignore[attr-defined]
sys.modules["torchmetrics.detection.mean_ap"] = metric
sys.modules["seaborn"] = mock.MagicMock()
from src import engine, loss, schedulers  # noqa: E402
from src.data_setup import dataloader_utils  # noqa: E402
from src.models.ema_model import EMA  # noqa: E402

anchors = [torch.tensor([[30.0, 30.0], [60.0, 40.0]]), torch.tensor([[10.0, 14.0], [20.0, 12.0]])]
strides = [(16, 16), (8, 8)]


class Network(nn.Module):
    """Two scales, two anchors, three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 16, 8, 8), nn.Conv2d(16, 16, 2, 2)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Return (batch, anchors, height, width, 5 + classes) for each scale."""
        fine = self.fine(images)
        return [
            each.unflatten(1, (2, 8)).permute(0, 1, 3, 4, 2) for each in (self.coarse(fine), fine)
        ]


class Pictures(torch.utils.data.Dataset):
    """Eight pictures with two boxes each."""

    multi_aug_prob = 0.0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        targets = [torch.zeros(2, size, size, 8) for size in (4, 8)]
        for scale, each in enumerate(targets):
            cell = torch.tensor([0.5, 0.5, 0.1, -0.1, 1.0, 1.0, 0.0, 0.0])
            each[index % 2, index % 4, scale + 1] = cell
            each[1 - index % 2, index % 4, scale + 1, 4] = -1.0
        return torch.rand(3, 64, 64), targets


words = {"batch_size": 2, "collate_fn": dataloader_utils.yolov3_collate_fn}
builder = dataloader_utils.DataLoaderBuilder(Pictures(), words)
network = Network().cuda()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
os.makedirs("out", exist_ok=True)
engine.train(
    base_model=network,
    train_builder=builder,
    val_builder=builder,
    loss_fn=loss.YOLOv3Loss(
        use_focal_conf=True,
        use_iou_coord=True,
        softmax_probs=True,
        iou_coord_reg="ciou",
        ignore_threshold=0.7,
        scale_anchors=anchors,
        strides=strides,
    ),
    optimizer=optimizer,
    scheduler=schedulers.WarmupCosineAnnealingLR(
        optimizer, warmup_steps=2, T_max=8, pre_warmup_lrs=1e-4
    ),
    ema=EMA(base_model=network, decay=0.9, input_shape=(1, 3, 64, 64)),
    te_cfgs=engine.TrainEvalConfigs(
        num_epochs=2,
        scale_anchors=anchors,
        strides=strides,
        scheduler_freq="optim_step",
        eval_interval=None,
    ),
    ckpt_cfgs=engine.CheckpointConfigs(save_dir="out", checkpoint_name="c.pth", ignore_exists=True),
    device=torch.device("cuda"),
)
