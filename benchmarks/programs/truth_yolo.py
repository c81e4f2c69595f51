"""Made-up boxes for anderescaray/yolo-from-scratch: an epoch, validation and what it measures."""

import sys
from unittest import mock

import torch
from torch.utils.data import DataLoader, Dataset

for name in ("albumentations", "albumentations.pytorch", "cv2", "wandb"):
    sys.modules[name] = mock.MagicMock()
sys.path.insert(0, "src")
from training import train  # noqa: E402

config = train.config
config.IMAGE_SIZE = 64
config.S = [2, 4, 8]
config.NUM_EPOCHS = 1
config.SAVE_MODEL = False


class Boxes(Dataset):
    """Random pictures with one box in each."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        grids = [torch.zeros(3, size, size, 6) for size in config.S]
        for grid in grids:
            grid[0, 1, 1] = torch.tensor([1.0, 0.5, 0.5, 0.6, 0.7, 0.0])
        return torch.rand(3, 64, 64), tuple(grids)


loader = DataLoader(Boxes(), 2)
train.get_loaders = lambda **_: (loader, loader, loader)
train.main()

from core.utils import (  # noqa: E402
    check_class_accuracy,
    get_evaluation_bboxes,
    mean_average_precision,
)

model = train.YOLOv4(num_classes=1).to(config.DEVICE)
check_class_accuracy(model, loader, threshold=0.5)
found, true = get_evaluation_bboxes(
    loader, model, iou_threshold=0.45, anchors=config.ANCHORS, threshold=0.5
)
print(mean_average_precision(found[:40], true, 0.5, "midpoint", num_classes=1))
