"""Made-up point clouds for fxia22/pointnet.pytorch: an epoch of its segmentation training."""

import json
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

plyfile = ModuleType("plyfile")
plyfile.PlyData = plyfile.PlyElement = object  # type: ignore[attr-defined]
sys.modules["plyfile"] = plyfile
root = Path("made_up")
for each in ("points", "points_label"):
    (root / "0" / each).mkdir(parents=True, exist_ok=True)
(root / "train_test_split").mkdir(exist_ok=True)
(root / "synsetoffset2category.txt").write_text("Chair\t0\n")
rng = np.random.default_rng(0)
names = [f"shape{i}" for i in range(6)]
for name in names:
    np.savetxt(root / "0/points" / f"{name}.pts", rng.normal(size=(200, 3)))
    np.savetxt(root / "0/points_label" / f"{name}.seg", rng.integers(1, 5, 200))
for split, of in (("train", names), ("test", names[:2])):
    text = json.dumps([f"shape_data/0/{name}" for name in of])
    (root / "train_test_split" / f"shuffled_{split}_file_list.json").write_text(text)
Path("misc").mkdir(exist_ok=True)
Path("misc/num_seg_classes.txt").write_text("Chair\t4\n")
sys.path.insert(0, os.path.join(os.getcwd(), "utils"))
from pointnet import dataset  # noqa: E402

dataset.ShapeNetDataset.__init__.__defaults__ = (
    100,
    *dataset.ShapeNetDataset.__init__.__defaults__[1:],
)
words = "--dataset made_up --nepoch 2 --batchSize 2 --workers 0 --feature_transform"
sys.argv = ["train_segmentation.py", *words.split()]
runpy.run_module("train_segmentation", run_name="__main__")
