"""A line on standard error for people who wait; it is written over, and only on a terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import TypeVar

from torchlint.cli.terminal import is_terminal
from torchlint.report.kit.words import visible

_Self = TypeVar("_Self", bound="Status")
_PATIENCE = 1.0
"""Seconds before files are counted."""
_PAUSE = 0.1


class Status:
    """Shows what is being done while it is entered."""

    def __init__(self, wanted: bool) -> None:
        # A dumb terminal prints the codes that clear a line.
        self.wanted = wanted and is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self.shown = False

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.show("")

    def show(self, text: str) -> None:
        """Show a line in the place of the last one."""
        if self.wanted:
            self.shown = True
            sys.stderr.write(f"\r\x1b[K{visible(text)}")
            sys.stderr.flush()


class Progress(Status):
    """Shows ``12/345 files`` once a run takes long."""

    def __init__(self, total: int, wanted: bool) -> None:
        super().__init__(wanted)
        self.total = total
        self.done = 0
        self.next = time.monotonic() + _PATIENCE

    def step(self) -> None:
        """Count one file."""
        self.done += 1
        now = time.monotonic()
        if now >= self.next:
            self.next = now + _PAUSE
            self.show(f"{self.done}/{self.total} files")
