"""Made-up citations for Diego999/pyGAT: six epochs of its training loop and the test after it."""

import runpy
import sys
from pathlib import Path

import numpy as np

folder = Path("data/cora")
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(0)
rows = [[str(i), *map(str, rng.integers(0, 2, 12)), f"class{i % 4}"] for i in range(1500)]
(folder / "cora.content").write_text("".join(" ".join(row) + "\n" for row in rows))
edges = rng.integers(0, 1500, (3000, 2))
(folder / "cora.cites").write_text("".join(f"{a} {b}\n" for a, b in edges))
extra = sys.argv[1:]
sys.argv = ["train.py", "--epochs", "6", "--nb_heads", "2", *extra]
runpy.run_module("train", run_name="__main__", alter_sys=False)
