"""Tests of a file's text, under names by which another process finds them again.

A report that rests on what other files say is kept in the cache with the test's name and its
answer; see `torchlint.base.trail`. What has a name is a function of torchlint's own modules, one
with words to begin with (`functools.partial`), and a pattern that is a constant of such a module.
A test with words holds only for texts that hold the first of them: no other file is looked at.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Callable
from typing import cast

from torchlint.base.records import frozen
from torchlint.base.regex import LatePattern
from torchlint.semantic.code.wording import Wording

Test = Callable[[str], bool]
Pattern = re.Pattern[str] | Wording
_OURS = ("torchlint.semantic.", "torchlint.rules.")
"""Where tests may come from: what a cache names is called, and here nothing has an effect."""
_PATTERNS = frozenset((re.Pattern, LatePattern, Wording))
_places: dict[int, tuple[object, str]] = {}
_seen: set[str] = set()


@frozen
class Holds:
    """Says whether a text holds a pattern."""

    pattern: Pattern

    def __call__(self, text: str) -> bool:
        """Return the answer."""
        return self.pattern.search(text) is not None


def names(word: str, text: str) -> bool:
    """Say whether a text holds a word."""
    return word in text and re.search(rf"\b{re.escape(word)}\b", text) is not None


def words_of(test: Test) -> tuple[str, ...]:
    """Return words of which every text holds one for which a test holds: the first of its own, or
    those of a pattern; none where none are known."""
    words: tuple[str, ...] = ()
    if isinstance(test, functools.partial):
        words = test.args[:1]
    elif isinstance(test, Holds) and isinstance(test.pattern, Wording):
        words = test.pattern.words
    return words if all(any(map(str.isalnum, word)) for word in words) else ()


def name_of(test: Test) -> tuple[str, ...] | None:
    """Return the name of a test; None where it has none."""
    words: tuple[str, ...] = ()
    what: object = test
    if isinstance(test, Holds):
        what = test.pattern
    elif isinstance(test, functools.partial):
        if test.keywords or not all(isinstance(word, str) for word in test.args):
            return None
        what, words = test.func, test.args
    place = _constant(what) if isinstance(test, Holds) else _function(what)
    return (place, *words) if place else None


def named(name: tuple[str, ...]) -> Test | None:
    """Return the test of a name; None where there is none."""
    place, *words = name
    module, _, attribute = place.partition(":")
    if not module.startswith(_OURS):
        return None
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return None
    if type(found) in _PATTERNS:
        return Holds(cast(Pattern, found))
    if not callable(found) or _function(found) != place:
        return None
    return functools.partial(found, *words) if words else found


def _function(what: object) -> str:
    module = getattr(what, "__module__", None) or ""
    name = getattr(what, "__qualname__", "")
    ours = module.startswith(_OURS) and getattr(sys.modules.get(module), name, None) is what
    return f"{module}:{name}" if ours else ""


def _constant(what: object) -> str:
    """Return the place of a pattern; each module is looked through once."""
    if id(what) not in _places:
        for name in sorted(sys.modules.keys() - _seen):
            if name.startswith(_OURS):
                for attribute, value in vars(sys.modules[name]).items():
                    if type(value) in _PATTERNS:
                        _places.setdefault(id(value), (value, f"{name}:{attribute}"))
        _seen.update(sys.modules)
    held, place = _places.get(id(what), (None, ""))
    return place if held is what else ""
