"""Made-up digits for kscalelabs/min-consistency-models: two epochs of its training and sampling."""

import sys

import torch
import truth_no_vision
from torch.utils.data import DataLoader, TensorDataset

truth_no_vision.install()
import dataloader  # noqa: E402

digits = DataLoader(TensorDataset(torch.randn(8, 1, 28, 28), torch.zeros(8)), 2)
dataloader.mnist = lambda: (digits, digits)
import model  # noqa: E402
import train  # noqa: E402

network = model.ConsistencyModel
train.ConsistencyModel = lambda channels, hdims: network(channels, hdims=32)
sys.argv = ["train.py", "--n_epochs", "2", "--output_dir", "out", "--loss_type", "huber"]
train.main()
