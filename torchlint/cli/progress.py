"""A line on standard error for people who wait; it is written over, and only on a terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import TypeVar

from torchlint.cli.terminal import is_terminal, terminal_width
from torchlint.report.kit.words import visible

_Self = TypeVar("_Self", bound="Status")
_PATIENCE = 1.0
"""Seconds before files are counted."""
_PAUSE = 0.1
_BAR = 30
"""Characters of the bar."""


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
    """Shows ``[####------] 138/345 files`` once a run takes long; not in a build, whose terminal is
    a file."""

    def __init__(self, total: int, wanted: bool, things: str = "files") -> None:
        super().__init__(wanted)
        self.things = things
        if self.wanted:
            from torchlint.run.cache_folder import on_ci

            self.wanted = not on_ci()
        self.total = total
        self.taken = 0
        self.done = 0
        self.next = time.monotonic() + _PATIENCE

    def step(self) -> None:
        """Count one file whose report was taken."""
        self.taken += 1
        self.waiting(0)

    def waiting(self, ahead: int) -> None:
        """Show how many files are done, `ahead` of them behind the one that is waited for."""
        now = time.monotonic()
        self.done = max(self.done, min(self.taken + ahead, self.total))
        if self.wanted and now >= self.next:
            self.next = now + _PAUSE
            full = _BAR * self.done // self.total
            text = f"[{'#' * full}{'-' * (_BAR - full)}] {self.done}/{self.total} {self.things}"
            # A line that the terminal breaks could not be wiped.
            self.show(text[: terminal_width(sys.stderr) - 1])
