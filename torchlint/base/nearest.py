"""Which rule a word may mean that names none."""

from __future__ import annotations

from collections.abc import Iterable

_LETTERS = str.maketrans("OQILZSB", "0011258")
"""What is typed for a digit."""


def nearest_rule(word: str, codes: Iterable[str], names: Iterable[str]) -> str:
    """Return the code or name most like a word, or an empty string."""
    import difflib  # only a mistake needs it

    word = word[:40]
    known = sorted(codes)
    typed = word[:-3].upper() + word[-3:].upper().translate(_LETTERS)
    if typed in known:
        return typed
    # Of five characters one may be wrong: any two codes have three in common.
    near = difflib.get_close_matches(word.upper(), known, 1, 0.8)
    near = near or difflib.get_close_matches(word.lower(), names, 1)
    return near[0] if near else ""
