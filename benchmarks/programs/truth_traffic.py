"""Made-up traffic for nnzhan/Graph-WaveNet: two epochs of its training and its test."""

import os
import pickle
import runpy
import sys
from pathlib import Path

import numpy as np
import torch

chance = np.random.default_rng(0)
os.makedirs("out/data", exist_ok=True)
for split, rows in (("train", 16), ("val", 8), ("test", 8)):
    shape = rows, 12, 8, 2
    np.savez(f"out/data/{split}.npz", x=chance.random(shape), y=chance.random(shape))
nodes = [str(i) for i in range(8)]
roads = nodes, {name: i for i, name in enumerate(nodes)}, chance.random((8, 8)).astype(np.float32)
Path("out/roads.pkl").write_bytes(pickle.dumps(roads))
torch.nn.Conv1d = torch.nn.Conv2d  # type: ignore[misc]  # which took pictures in torch 1
words = "--device cuda --data out/data --adjdata out/roads.pkl --gcn_bool --addaptadj --randomadj"
small = "--nhid 4 --num_nodes 8 --batch_size 2 --epochs 2 --print_every 4 --save out/metr"
sys.argv = ["train.py", *words.split(), *small.split()]
runpy.run_module("train", run_name="__main__")
