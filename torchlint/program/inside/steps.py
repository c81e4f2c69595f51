"""Where one step of a training program ends.

A step ends where an optimizer has stepped. Programs without one (a compiled ``optimizer.step()``
hides it, inference has none) fall back to ``backward`` calls, then to batches of a DataLoader.
"""

from __future__ import annotations

from typing import Any

BACKWARD_FALLBACK = 64
"""Calls of ``backward`` without any optimizer step after which they count as steps; more than one
step accumulates."""
BATCH_FALLBACK = 256
"""Batches without ``backward`` after which they count as steps."""


class Boundary:
    """Decides which events end a step. Where several optimizers step, the one with the most steps
    counts."""

    def __init__(self) -> None:
        self.kind = ""
        self._optimizers: dict[int, int] = {}
        self._primary = 0
        self._backward = 0
        self._batches = 0

    def optimizer(self, optimizer: Any) -> bool:
        """Take an optimizer step; return whether it ends a step of the program."""
        key = id(optimizer)
        count = self._optimizers[key] = self._optimizers.get(key, 0) + 1
        if count > self._optimizers.get(self._primary, 0):
            self._primary = key
        self.kind = "optimizer"
        return key == self._primary

    def backward(self) -> bool:
        """Take a call of ``backward``."""
        self._backward += 1
        if self._optimizers or self._backward <= BACKWARD_FALLBACK:
            return False
        self.kind = "backward"
        return True

    def batch(self) -> bool:
        """Take a batch of a DataLoader."""
        self._batches += 1
        if self._optimizers or self._backward or self._batches <= BATCH_FALLBACK:
            return False
        self.kind = "batch"
        return True
