"""What is left of a budget of seconds."""

from __future__ import annotations

import os
import time
from pathlib import Path


def process_start() -> float:
    """Return when this process was started (`time.monotonic`); now where the system does not tell.

    Source: proc_pid_stat(5), field 22, in clock ticks after boot.
    """
    now = time.monotonic()
    try:
        line = Path("/proc/self/stat").read_bytes()
        ticks = int(line[line.rindex(b")") + 2 :].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return now
    return now - max(0.0, age)


class Stopwatch:
    """Runs from its making on, or from an earlier time (`time.monotonic`)."""

    def __init__(self, budget: float, start: float | None = None) -> None:
        self.start = time.monotonic() if start is None else start
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

    def words(self, cut: str) -> tuple[str, ...]:
        """Say why no more is known; nothing where it is all.

        Args:
            cut: as of `model.Report`.
        """
        if not cut:
            return ()
        why = (
            f"interrupted after {self.spent:.0f} s"
            if cut == "interrupted"
            else f"the {self.budget:g} s of --budget were spent"
        )
        return (f"{why}: this is what was known by then",)
