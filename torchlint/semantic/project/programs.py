"""Which files of a project may run in one process, by their import statements.

What a file patches or looks into is nothing to a file that never meets it. Two files meet where one
imports the other, or a third imports both, through any number of files. Names decide, not places: a
file counts as imported by every file whose import statements hold the name of its module, so that
no way to find a module is missed.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.remembered import TEXTS
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.project.reach import stem_of
from torchlint.source.python import needs, parsed

_KEYWORD = regex(r"(?:from|import)\b")
_REST = regex(r"(?:[^;#\n()\\]|\\\r?\n|\\.|\([^)]*\))*")
_WORD = regex(r"\w+")
DYNAMIC = Wording(
    regex(
        r"\b(import_module|__import__|exec|execfile|runpy|run_path|run_module|spec_from_file_location|SourceFileLoader"
        r"|import_string|locate|pkgutil|resolve_name|entry_points|hydra|instantiate|LightningCLI"
        r"|jsonargparse"
        r"|get_obj_from_str)\b|\bimp\.load"
    ),
    tuple(
        """import_module __import__ exec runpy run_path run_module spec_from_file_location
        SourceFileLoader import_string locate pkgutil resolve_name entry_points hydra instantiate
        LightningCLI jsonargparse get_obj_from_str imp.load""".split()
    ),
    first=True,
)
"""Words without which a file imports nothing but what its import statements name."""
_BY_PYTEST = regex(r"^(test_.*|.*_test)$")
_AT_START = frozenset(("sitecustomize", "usercustomize"))


@frozen
class Imports:
    """What a file may import.

    Args:
        words: every name in its import statements.
        any: whether it may import any file, by a name that it computes.
    """

    words: frozenset[str]
    any: bool


NOTHING = Imports(frozenset(), False)


def imports(path: str, text: str | None, *, freely: bool = True) -> Imports:
    """Return what a file may import; nothing, where it cannot be read, as Python can neither.
    `freely`: whether it may hold words by which a file imports what it computes."""
    if text is None:
        return NOTHING
    words = {word for rest in _statements(text) for word in _WORD.findall(rest)}
    if _BY_PYTEST.match(stem_of(path)):
        words.add("conftest")
    return Imports(frozenset(words), freely and DYNAMIC.search(text) is not None)


def _statements(text: str) -> Iterator[str]:
    """Yield each import statement, also one in a string or in a notebook's JSON."""
    end = 0
    for keyword in _KEYWORD.finditer(text):
        before = start = keyword.start()
        while before and text[before - 1] in " \t":
            before -= 1
        if start >= end and (not before or text[before - 1] in "\n;:\"'"):
            rest = _REST.match(text, keyword.end())
            if rest is not None:
                end = rest.end()
                yield keyword.group() + rest.group()


def named_modules(text: str) -> tuple[list[tuple[str, tuple[str, ...]]], set[str]]:
    """Return the modules that the import statements of a file name, relative ones with dots in
    front, each with the names that are taken from it; and the words of what looks like such a
    statement and is none."""
    found: list[tuple[str, tuple[str, ...]]] = []
    words: set[str] = set()
    for statement in _statements(text):
        modules = _modules(statement)
        found += modules or ()
        words.update(_WORD.findall(statement) if modules is None else ())
    return found, words


@functools.lru_cache(TEXTS)
def _modules(statement: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """Return the modules that an import statement names, as `named_modules` does; None for what
    only looks like one."""
    tree = parsed(statement, keep=False)
    return tuple(needs(tree)) if tree is not None else None


class Programs:
    """Which files of a project may run in one process, by what their import statements name.

    Args:
        every: all files of the project.
        read: gives what a file may import.
    """

    def __init__(self, every: Iterable[str], read: Callable[[str], Imports]) -> None:
        self._read = read
        self._made = {path: read(path) for path in every}
        self._all = frozenset(self._made)
        self._free = any(found.any for found in self._made.values())
        self._named: defaultdict[str, set[str]] = defaultdict(set)
        self._importers: defaultdict[str, set[str]] = defaultdict(set)
        for path, found in self._made.items():
            self._named[stem_of(path)].add(path)
            for word in found.words:
                self._importers[word].add(path)

    def of(self, path: str) -> frozenset[str]:
        """Return the files that may run in one process with a file, itself among them."""
        made = self._made.get(path) or self._read(path)
        if self._free or made.any:  # What may import any file may import this one, and with it all.
            return self._all if path in self._all else self._all | {path}
        above = _closure({path}, lambda each: self._importers.get(stem_of(each), ()))
        above |= dict.fromkeys(one for stem in _AT_START for one in self._named.get(stem, ()))
        return frozenset(
            _closure(above, lambda each: _named(self._made.get(each, made).words, self._named))
        )


class Meetings:
    """Which files of a program meet, where imports find what they name.

    Args:
        program: the files.
        imported: gives the files that a file imports and the names of modules that are not found;
            None for any file.
    """

    def __init__(
        self,
        program: frozenset[str],
        imported: Callable[[str], tuple[frozenset[str], frozenset[str]] | None],
    ) -> None:
        named: defaultdict[str, set[str]] = defaultdict(set)
        for path in program:
            named[stem_of(path)].add(path)
        self._down: dict[str, set[str]] = {}
        self._up: defaultdict[str, set[str]] = defaultdict(set)
        self._free: set[str] = set()
        for path in program:
            found = imported(path)
            if found is None:
                self._free.add(path)
                continue
            self._down[path] = {*found[0], *_named(found[1], named)}
            for other in self._down[path]:
                self._up[other].add(path)
        self._all = program.union(*self._down.values()) if self._free else None

    def of(self, path: str) -> frozenset[str]:
        """Return the files that meet a file of the program, itself among them."""
        notebook = path.endswith(".ipynb")  # No import finds one, whatever modules share its name.
        if self._all is not None and not notebook:
            return self._all
        above = (path,) if notebook else self.above(path)
        found = frozenset(_closure(above, lambda each: self._down.get(each, ())))
        return found if self._all is None or self._free.isdisjoint(found) else self._all

    def above(self, path: str) -> tuple[str, ...]:
        """Return a file and those that import it, the nearest first."""
        return tuple(_closure({path}, lambda each: sorted(self._up.get(each, ()))))


def _named(words: Iterable[str], named: Mapping[str, set[str]]) -> set[str]:
    return {each for word in words if word in named for each in named[word]}


def _closure(start: Iterable[str], step: Callable[[str], Iterable[str]]) -> dict[str, None]:
    """Return what can be reached from `start` by any number of steps, the nearest first."""
    found = dict.fromkeys(start)
    todo = list(found)
    for each in todo:
        fresh = [other for other in step(each) if other not in found]
        found.update(dict.fromkeys(fresh))
        todo += dict.fromkeys(fresh)
    return found
