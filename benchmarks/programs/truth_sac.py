"""A toy environment for pranz24/pytorch-soft-actor-critic: 120 steps of ``main.py``."""

import runpy
import sys
from types import ModuleType

import truth_toy_gym

truth_toy_gym.install()
board = ModuleType("torch.utils.tensorboard")


class Writer:
    """Takes what is logged and keeps nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def add_scalar(self, *_: object) -> None:
        """Do nothing."""


board.SummaryWriter = Writer  # type: ignore[attr-defined]
sys.modules["torch.utils.tensorboard"] = board
extra = sys.argv[1:]
words = "--cuda --batch_size 16 --num_steps 220 --hidden_size 16 --start_steps 40"
sys.argv = ["main.py", *words.split(), *extra]
runpy.run_module("main", run_name="__main__")
