"""A made-up text for 1218317903-alt/mini-gpt-from-scratch: 12 steps of training."""

import os
import runpy
import sys
from pathlib import Path

text = "the quick brown fox jumps over the lazy dog. " * 200
sys.path[:0] = [os.path.join(os.getcwd(), "src"), os.path.join(os.getcwd(), "scripts")]
Path("data/raw").mkdir(parents=True, exist_ok=True)
Path("data/raw/tiny_shakespeare.txt").write_text(text)
import prepare_data  # noqa: E402

prepare_data.main()
extra = sys.argv[1:]
words = "--embedding-dim 16 --num-heads 2 --num-layers 1 --block-size 8 --batch-size 2"
sys.argv = ["train.py", *words.split(), *extra]
runpy.run_module("train", run_name="__main__")
