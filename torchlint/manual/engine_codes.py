"""What the engine's own codes mean; they have no rule file to read it from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from torchlint.base.finding import INVALID_SYNTAX, NOT_ANALYSED, UNREADABLE, UNUSED_SUPPRESSION

ENGINE_PAGES: Mapping[str, str] = MappingProxyType(
    {
        UNUSED_SUPPRESSION: "A suppression comment that suppresses nothing.\n\nRemove it, or "
        "correct its codes: "
        "it would hide the next finding on that line. It is on by default and can be ignored "
        "like a rule.\n",
        INVALID_SYNTAX: "The file is not valid Python, so nothing else could be found in it.\n",
        UNREADABLE: "The file could not be read: it is missing, not readable, not a regular "
        "file, or its bytes "
        "do not fit its encoding.\n",
        NOT_ANALYSED: "The file was left out: it is over a limit, our parser does not support "
        "it, or the work on "
        "it failed. The message says which.\n",
    }
)
"""Code → page text, ending with a newline."""


def engine_code(word: str) -> str | None:
    """Return the engine's own code that a word is, in capitals or small letters, or None."""
    return next((code for code in ENGINE_PAGES if code.lower() == word.lower()), None)
