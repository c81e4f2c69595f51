"""How much of a report a coding agent reads: an estimate in tokens, without any model's
tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

CHARACTERS = 4
"""Characters that count as one token."""
DEFAULT = 8000
"""Tokens of a report unless the user says otherwise."""


def fitting(blocks: Sequence[str], tokens: int) -> int:
    """Return how many blocks of text, from the first on, are within a number of tokens; one at
    least, where there is one."""
    room = tokens * CHARACTERS
    for at, block in enumerate(blocks):
        room -= len(block)
        if room < 0:
            return max(at, 1)
    return len(blocks)


def within(lines: Sequence[str], tokens: int, last: str) -> str:
    """Return lines as a text within a number of tokens: how many are left out is said, and the
    last line is there in any case."""
    ended = [f"{line}\n" for line in lines]
    kept = fitting(ended, tokens - len(last) // CHARACTERS)
    left = len(ended) - kept
    more = f"left out: {left} of {len(ended)} lines; --max-tokens N allows more\n" if left else ""
    return "".join(ended[:kept]) + more + (f"{last}\n" if last else "")
