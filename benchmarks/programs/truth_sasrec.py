"""Made-up histories for pmixer/SASRec.pytorch: its training and evaluation on 40 users."""

import os
import runpy
import sys
from pathlib import Path

import numpy as np

os.chdir("python")
sys.path.insert(0, os.getcwd())
Path("data").mkdir(exist_ok=True)
rng = np.random.default_rng(0)
rows = [(user, rng.integers(1, 150)) for user in range(1, 41) for _ in range(12)]
Path("data/toy.txt").write_text("".join(f"{user} {item}\n" for user, item in rows))
words = "--dataset toy --train_dir out --batch_size 8 --maxlen 10 --hidden_units 8 --num_epochs 20"
sys.argv = ["main.py", *words.split()]
runpy.run_module("main", run_name="__main__")
