"""A made-up citation graph for twjiang/graphSAGE-pytorch: two epochs, with both kinds of loss."""

import os
import random
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

chance = np.random.default_rng(0)
os.makedirs("out", exist_ok=True)
os.makedirs("models", exist_ok=True)
papers = [f"p{i} {' '.join(map(str, chance.integers(0, 2, 8)))} {'abc'[i % 3]}" for i in range(240)]
cites = [f"p{i} p{(i + j) % 240}" for i in range(240) for j in (1, 2)]
Path("out/content").write_text("\n".join(papers))
Path("out/cites").write_text("\n".join(cites))
hocon = ModuleType("pyhocon")
settings = {
    "file_path.cora_content": "out/content",
    "file_path.cora_cite": "out/cites",
    "setting.num_layers": 2,
    "setting.hidden_emb_size": 8,
}
hocon.ConfigFactory = SimpleNamespace(parse_file=lambda _: settings)  # type: ignore[attr-defined]
sys.modules["pyhocon"] = hocon
draw = random.sample  # which took a set before Python 3.11
random.sample = lambda population, k: draw(sorted(population), k)  # type: ignore[assignment,misc]
for learning in ("sup", "plus_unsup"):
    words = f"--cuda --epochs 2 --b_sz 40 --learn_method {learning}"
    sys.argv = ["src/main.py", *words.split()]
    runpy.run_module("src.main", run_name="__main__", alter_sys=True)
