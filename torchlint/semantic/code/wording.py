"""Patterns for whole files, behind a search for the words without which they cannot match."""

from __future__ import annotations

import re

from torchlint.base.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Wording:
    """A pattern that few texts match: looking for plain words first takes a tenth of the time.

    Args:
        pattern: the pattern.
        words: of which every text that it matches holds at least one.
    """

    pattern: re.Pattern[str]
    words: tuple[str, ...]

    def search(self, text: str) -> re.Match[str] | None:
        """Return where the pattern matches first, if it does."""
        return self.pattern.search(text) if any(word in text for word in self.words) else None
