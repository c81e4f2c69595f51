"""Which files of a project hold a name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from torchlint.base.regex import BLANKS, regex
from torchlint.base.remembered import remembered

_WORD = regex(r"\w+")
_IMPORTING = regex(r"^[^\S\n]*(?:import|from)\b(.*)", re.MULTILINE)


def imported_words(text: str) -> frozenset[str]:
    """Return the words behind ``import`` and ``from`` at the head of a line."""
    return frozenset(word for rest in _IMPORTING.findall(text) for word in _WORD.findall(rest))


class Vocabulary:
    """The words of all files of a project.

    Args:
        texts: the files, each with its text.
    """

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        self._files: defaultdict[str, list[str]] = defaultdict(list)
        for path, text in texts:
            words = text.encode("utf-8", "surrogatepass").translate(BLANKS)
            for word in set(words.decode("utf-8", "surrogatepass").split()):
                self._files[word].append(path)
        self._words = "\n".join(["", *self._files, ""])

    @remembered
    def holding(self, text: str) -> frozenset[str]:
        """Return the files that hold each word of a text, also inside of a longer one."""
        return frozenset.intersection(
            *(
                frozenset(path for word in self._words_with(part) for path in self._files[word])
                for part in _WORD.findall(text)
            )
        )

    def _words_with(self, part: str) -> Iterator[str]:
        """Yield the words that hold a part of a word."""
        at = self._words.find(part)
        while at >= 0:
            start, end = self._words.rindex("\n", 0, at) + 1, self._words.index("\n", at)
            yield self._words[start:end]
            at = self._words.find(part, end)
