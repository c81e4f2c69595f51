"""What is left of a budget of seconds."""

from __future__ import annotations

import time


class Stopwatch:
    """Runs from its making on."""

    def __init__(self, budget: float) -> None:
        self.start = time.monotonic()
        self.budget = budget

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def end(self) -> float:
        """When it is spent (`time.monotonic`)."""
        return self.start + self.budget

    @property
    def left(self) -> float:
        """Seconds left; negative when overdrawn."""
        return self.budget - self.spent
