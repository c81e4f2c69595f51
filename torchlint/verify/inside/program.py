"""What a worker can measure, and its way to say that it cannot."""

from __future__ import annotations

from typing import Any, Protocol


class Program(Protocol):
    """Code with a part that is not timed and one that is, run again and again."""

    def load(self) -> None:
        """Do what is not timed."""

    def run(self, reps: int) -> tuple[int, int]:
        """Run the timed part so often; return nanoseconds of wall time and of CPU time."""

    def check(self, path: str, seed: int) -> dict[str, Any]:
        """Run once from a seeded start and save what a caller can see; return what the parent must know of it."""

    def count(self) -> dict[str, Any]:
        """Run the timed part once under the virtual-CUDA ledger; return its summary."""


class RefusedError(Exception):
    """The program cannot be measured as asked; the message is for the user. `kind` tells the parent which error."""

    def __init__(self, message: str, kind: str = "usage") -> None:
        super().__init__(message)
        self.kind = kind
