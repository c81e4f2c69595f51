"""A line on standard error that counts files, for people who wait."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType

from torchlint.report.kit.words import visible

_PATIENCE = 1.0
"""Seconds before the line shows up."""
_PAUSE = 0.1


class Progress:
    """Shows ``12/345 files`` while it is entered, once the run takes long; nothing unless a terminal looks on."""

    def __init__(self, total: int, wanted: bool) -> None:
        self.total = total
        self.done = 0
        self.next = time.monotonic() + _PATIENCE if wanted and _can_rewrite() else float("inf")
        self.shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def step(self) -> None:
        """Count one file."""
        self.done += 1
        now = time.monotonic()
        if now >= self.next:
            self.next = now + _PAUSE
            self.shown = True
            sys.stderr.write(f"\r\x1b[K{self.done}/{self.total} files")
            sys.stderr.flush()


def is_terminal(stream: object) -> bool:
    """Say whether a stream, which may be closed or None, is a terminal."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False


def _can_rewrite() -> bool:
    """Say whether standard error is a terminal that knows how to clear a line; a dumb one prints the codes."""
    return is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"


class Status:
    """Shows what is being done, on one line of standard error that is written over; only on a terminal."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted and _can_rewrite()

    def __enter__(self) -> Status:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show("")

    def show(self, text: str) -> None:
        """Show a line in the place of the last one."""
        if self.wanted:
            sys.stderr.write(f"\r\x1b[K{visible(text)}")
            sys.stderr.flush()
