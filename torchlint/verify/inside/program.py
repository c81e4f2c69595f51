"""What a worker can measure, and its way to say that it cannot."""

from __future__ import annotations

import os
import traceback
from typing import Any, Protocol

import torch


class Program(Protocol):
    """Code with a part that is not timed and one that is, run again and again."""

    def load(self) -> None:
        """Do what is not timed."""

    def run(self, reps: int) -> tuple[int, int, int]:
        """Run the timed part so often; return what it took: see `clock.Taken`."""

    def check(self, path: str, seed: int) -> dict[str, Any]:
        """Run once from a seeded start and save what a caller can see; return what the parent must
        know of it."""

    def count(self) -> dict[str, Any]:
        """Run the timed part once under the virtual-CUDA ledger; return its summary."""


class RefusedError(Exception):
    """The program cannot be measured as asked; the message is for the user. `kind` tells the parent
    which error."""

    def __init__(self, message: str, kind: str = "usage") -> None:
        super().__init__(message)
        self.kind = kind


def described(error: BaseException) -> dict[str, Any]:
    """Return an error as an answer: one line of text, where it was raised, and whether memory ran
    out."""
    if isinstance(error, RefusedError):
        return {"error": str(error), "kind": error.kind}
    lines = [
        line
        for line in "".join(traceback.format_exception_only(type(error), error)).split("\n")
        if line.strip()
    ]
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.abspath(__file__))
    users = [
        frame
        for frame in frames
        if not os.path.abspath(frame.filename).startswith((here, torch.__path__[0]))
    ]
    text = " ".join(lines[-1 if isinstance(error, SyntaxError) else 0].split())
    full = (
        isinstance(error, MemoryError)
        or "out of memory" in text.lower()
        or "can't allocate memory" in text
    )
    return {
        "error": text if len(text) <= 400 else text[:397] + "...",
        "kind": "memory" if full else "raised",
        "where": f"{users[-1].filename}:{users[-1].lineno}" if users else "",
        "missing": (error.name or "") if isinstance(error, ModuleNotFoundError) else "",
    }
