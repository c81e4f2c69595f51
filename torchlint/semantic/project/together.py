"""Which files of a project may run in one process, and what the texts of those say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.named_tests import Test, named, words_of
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.project.definitions import Definitions
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.programs import (
    DYNAMIC,
    Imports,
    Meetings,
    Programs,
    imports,
    named_modules,
)
from torchlint.semantic.project.reach import stem_of
from torchlint.semantic.project.vocabulary import Vocabulary, imported_words

_PARSED = 4_000_000
"""Characters of source that one question has parsed; behind that the answer is taken to be yes."""
_WORD = regex(r"\w+")


class Tested(NamedTuple):
    """Of which files it is known whether a test of their text holds, those for which it does, and
    the programs of which all files are known."""

    files: set[str]
    saying: set[str]
    programs: set[frozenset[str]]


class Together:
    """Says which files run together; for questions about all files alone."""

    def __init__(self, files: Files, definitions: Definitions) -> None:
        self.files = files
        self.definitions = definitions
        self._said: dict[object, Tested] = {}
        self._words_imported: dict[str, frozenset[str]] = {}
        self._by_names: list[Programs] = []
        self._by_place: dict[frozenset[str], Meetings] = {}
        self._programs: dict[str, frozenset[str]] = {}
        self._met: dict[str, frozenset[str]] = {}
        self._vocabulary: list[Vocabulary] = []
        self._without: dict[tuple[str, ...], frozenset[str]] = {}

    def program(self, path: str, every: Iterable[str]) -> frozenset[str]:
        if path not in self._programs:
            if not self._by_names:
                self._by_names.append(Programs(every, self.imported_by))
            self._programs[path] = self._by_names[0].of(path)
        return self._programs[path]

    def _meeting(self, path: str, every: Iterable[str]) -> frozenset[str]:
        """Return the files that meet one, itself among them, where imports find them."""
        if path not in self._met:
            program = self.program(path, every)
            if program not in self._by_place:
                self._by_place[program] = Meetings(program, self._imported_from)
            self._met[path] = self._by_place[program].of(path)
        return self._met[path]

    @remembered
    def _imported_from(self, path: str) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the files that a file imports, found where its imports look for them, and the
        names of the modules that are not found there; None for any file."""
        words = self.imported_by(path)
        return None if words.any else self.found_from(path, words)

    def found_from(self, path: str, words: Imports) -> tuple[frozenset[str], frozenset[str]]:
        """Return the files to which the imports of a file lead, and the names of the modules that
        are not found."""
        modules, named = named_modules(self.files.text(path) or "")
        named |= {"conftest"} & words.words
        found: set[str] = set()
        for dotted, names in modules:
            home = self.files.search.module(path, dotted)
            if home is None:
                named |= {*dotted.split("."), *names}
                continue
            above = dotted.split(".")[:-1] if not dotted.startswith(".") else []
            near = [
                self.files.search.module(path, ".".join(above[: n + 1])) for n in range(len(above))
            ]
            found |= {home, *(each for each in near if each is not None)}
            if home.endswith("__init__.py"):
                below = dotted if dotted.endswith(".") else f"{dotted}."
                inner = [self.files.search.module(path, f"{below}{name}") for name in names]
                found |= {each for each in inner if each is not None}
        return frozenset(found), frozenset(named)

    @remembered
    def imported_by(self, path: str) -> Imports:
        return imports(path, self.files.text(path), freely=self.may_match(path, DYNAMIC))

    def may_match(self, path: str, wording: Wording) -> bool:
        """Say whether a file may hold a pattern: it holds one of its words, or is none of those
        whose words are known."""
        if wording.words not in self._without:
            known = frozenset(self.files.every() or ())
            self._without[wording.words] = known - self.holding_one(wording.words)
        return path not in self._without[wording.words]

    def say(self, path: str, which: str, *name: str) -> bool | None:
        test = named(name)
        return self.others_say(path, test, name, which) if test is not None else None

    def others_say(self, path: str, test: Test, key: object, which: str) -> bool | None:
        every = self.files.every()
        if every is None:
            return None
        program = frozenset(every)
        if which != "all":
            program = (self._meeting if which == "place" else self.program)(path, every)
        known = self._said.setdefault(key, Tested(set(), set(), set()))

        def counts(other: str) -> bool:
            if other == path or other not in program:
                return False
            return which != "near" or stem_of(path) in (self.files.text(other) or stem_of(path))

        if any(map(counts, known.saying)):
            return True
        if program in known.programs:
            return False
        # Imports by place lead to files that are not listed, too.
        words = words_of(test) if which != "place" else ()
        holding = program & self.holding_one(words) if words else program
        for other in holding - known.files:
            text = self.files.text(other)
            known.files.add(other)
            if text is not None and test(text):
                known.saying.add(other)
                if counts(other):
                    return True
        known.programs.add(program)
        return False

    def any_reaches(self, path: str, name: str) -> bool | None:
        every = self.files.every()
        if every is None:
            return None
        stem, holding = _WORD.findall(stem_of(path)), self.holding(name)
        size = 0
        for other in every:
            text = self.files.text(other) or ""
            if other == path or not (other in holding or self._imports_words(other, text, stem)):
                continue
            size += len(text)
            if size > _PARSED or self.definitions.reaches(other, text, path, name):
                return True
        return False

    def _imports_words(self, path: str, text: str, words: Iterable[str]) -> bool:
        if path not in self._words_imported:
            self._words_imported[path] = imported_words(text)
        return self._words_imported[path].issuperset(words)

    def holding_one(self, some: tuple[str, ...]) -> frozenset[str]:
        """Return the files whose text holds the words of one of some texts."""
        return frozenset().union(*map(self.holding, some))

    def holding(self, words: str) -> frozenset[str]:
        """Return the files whose text holds each of some words, also inside of a longer one."""
        if not self._vocabulary:
            texts = ((path, self.files.text(path) or "") for path in self.files.every() or ())
            self._vocabulary.append(Vocabulary(texts))
        return self._vocabulary[0].holding(words)
