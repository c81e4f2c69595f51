"""torchlint finds PyTorch code that wastes a GPU, and fixes it without changing what it
computes."""

__version__ = "0.1.0"
