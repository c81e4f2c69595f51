"""Made-up pictures for uvipen/SSD-pytorch: two epochs of its training, and its boxes decoded."""

import sys
from types import SimpleNamespace
from unittest import mock

import torch
import truth_no_vision
from torch import nn


def corners(boxes: torch.Tensor, in_fmt: str, out_fmt: str) -> torch.Tensor:
    """Return boxes in the other form."""
    first, second = boxes.split(2, -1)
    if (in_fmt, out_fmt) == ("cxcywh", "xyxy"):
        return torch.cat((first - second / 2, first + second / 2), -1)
    return torch.cat(((first + second) / 2, second - first), -1)


def overlap(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the intersection over the union of each two boxes."""
    low = torch.max(one[:, None, :2], other[:, :2])
    high = torch.min(one[:, None, 2:], other[:, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    areas = [(each[:, 2:] - each[:, :2]).prod(1) for each in (one, other)]
    return shared / (areas[0][:, None] + areas[1] - shared)


truth_no_vision.install()
for name in ("apex", "pycocotools", "pycocotools.cocoeval"):
    sys.modules[name] = mock.MagicMock()
boxes = mock.MagicMock()
boxes.box_iou, boxes.box_convert = overlap, corners
sys.modules["torchvision.ops.boxes"] = boxes
from src.loss import Loss  # noqa: E402
from src.process import evaluate, train  # noqa: E402
from src.utils import Encoder, generate_dboxes  # noqa: E402

default = generate_dboxes("ssdlite")
encoder, criterion = Encoder(default), Loss(default).cuda()
count = encoder.nboxes


class Pictures(torch.utils.data.Dataset):
    """Eight pictures with one box each."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[object, ...]:
        box = torch.tensor([[0.2, 0.2, 0.6, 0.5 + index / 20]])
        places, labels = encoder.encode(box, torch.tensor([1 + index % 2]))
        return torch.rand(3, 8, 8), index, (8, 8), places, labels


class Shown(list[tuple[object, ...]]):
    """Batches of one picture, with a data set."""

    dataset = SimpleNamespace(
        coco=SimpleNamespace(getCatIds=lambda: [1, 2], loadRes=lambda detections: detections)
    )

    def __init__(self) -> None:
        super().__init__((torch.rand(1, 3, 8, 8), [i], [(8, 8)], None, None) for i in range(2))


class Network(nn.Module):
    """Places and labels of all boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.labels = nn.Linear(192, 4 * count), nn.Linear(192, 3 * count)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (batch, 4, boxes) and (batch, labels, boxes)."""
        flat = images.flatten(1)
        places, labels = self.places(flat), self.labels(flat)
        return places.unflatten(1, (4, count)), labels.unflatten(1, (3, count))


network, writer = Network().cuda(), mock.MagicMock()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [4])
loader = torch.utils.data.DataLoader(Pictures(), 2)
for epoch in range(2):
    train(network, loader, epoch, writer, criterion, optimizer, scheduler, False)
    evaluate(network, Shown(), epoch, writer, encoder, 0.9)
