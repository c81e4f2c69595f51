"""Whether an output is a terminal, and how wide.

This is imported also by a run that repeats the last one's words, so it imports little itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

WIDTH = 100
"""Columns where nothing says how many there are: a pipe, a file, a terminal that does not tell."""


def terminal_width(stream: TextIO | None, environment: Mapping[str, str] = os.environ) -> int:
    """Return the columns of an output: what ``COLUMNS`` says, else its terminal, else `WIDTH`.

    Args:
        stream: where words will go; None for a file.
        environment: the variables.
    """
    asked = environment.get("COLUMNS", "")
    if asked.isascii() and asked.isdigit() and 0 < len(asked) < 6 and int(asked):
        return int(asked)
    if stream is None:
        return WIDTH
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (AttributeError, OSError, ValueError):
        return WIDTH


def is_terminal(stream: object) -> bool:
    """Say whether a stream, which may be closed or None, is a terminal."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False
