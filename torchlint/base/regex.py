"""Patterns that are compiled when they are first used: a run uses one in three."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

BLANKS = bytes(n if n >= 128 or chr(n).isalnum() or n == ord("_") else 32 for n in range(256))
"""A blank for each byte that stands between words; signs of other languages stay with the word
beside them."""
_USED = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer", "flags")


class LatePattern:
    """Stands for a `re.Pattern`; compiling it when it is made was a tenth of a short run.

    Args:
        pattern: the text of the pattern.
        flags: its flags.
    """

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Return what the pattern has of that name, and keep it, so that it is asked once."""
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        for each in _USED:
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is first used; for constants of modules.

    A pattern that `re` refuses raises at its first use.
    """
    return cast("re.Pattern[AnyStr]", LatePattern(pattern, flags))
