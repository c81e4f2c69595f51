"""Which files of a program cannot be imported: what an import statement at their own level names
stands nowhere, or is no Python, or what that file imports in its turn."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.text import spoken
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.missing import Missing
from torchlint.semantic.project.reach import stem_of
from torchlint.semantic.project.search import LIBRARIES
from torchlint.semantic.project.together import Together

_GIVES_ANY = regex(
    r"__getattr__|__path__|globals\(\)|setattr\(|\bexec\(|sys\.modules|_sys\b|LazyModule|lazy_?import"
)
"""A module that may give names which its text does not hold."""
_STAR = regex(r"^[^#\n]*\bfrom\s+(\S+)\s+import\s+\*", re.MULTILINE)
_OF_ANOTHER = regex(r"[\w\])]\.$")
"""What stands before the name of an attribute: ``self.net``, not ``from .net import``."""

_SCRIPT = regex(r"^(for |while |with |[\w.]+\()|__name__\s*==|sys\.argv|parse_args\(", re.MULTILINE)
"""What a file says that is run itself."""


class Broken:
    """Says why what an import statement of a project's file names cannot be imported; for questions
    about all files alone."""

    def __init__(self, files: Files, together: Together) -> None:
        self._search = files.search
        self._index = files.index
        self._read = files.text
        self._every = files.every
        self._holding = together.holding
        self._missing = Missing(files, together)
        self._known: dict[str, tuple[str | None, list[str]]] = {}

    def why(self, importer: str, dotted: str, names: Sequence[str]) -> str | None:
        """Return what stands nowhere, or which file Python cannot read, where a file imports names
        from a module; None where nothing shows that it cannot."""
        lacking = self._lacking(importer, dotted, names)
        return lacking or self._first_failing(importer, self._leads(importer, dotted, names))

    @remembered
    def file(self, path: str) -> str | None:
        """Return what `why` says of the first import statement that fails, of a file that is Python
        or of a package without which nothing imports it."""
        lacking, leads = self._file(path) if self._index(path).readable else (None, [])
        return lacking or self._first_failing(path, leads)

    def _first_failing(self, importer: str, leads: Iterable[str]) -> str | None:
        """Return what the first fails for of the files that others lead to, over any number."""
        todo = list(leads)
        seen = {importer, *todo}
        for path in todo:
            lacking, more = self._file(path)
            if lacking is not None:
                return lacking
            todo += [each for each in more if each not in seen]
            seen.update(more)
        return None

    def _file(self, path: str) -> tuple[str | None, list[str]]:
        """Return what shows by a file itself that it cannot be imported, and the files it runs."""
        if path not in self._known:
            index = self._index(path)
            if not index.readable and _is_no_python(self._read(path) or ""):
                self._known[path] = f"`{os.path.relpath(path, self._search.root)}` is no Python", []
            else:
                lacking = (self._lacking(path, *each) for each in index.needs)
                leads = [each for wanted in index.needs for each in self._leads(path, *wanted)]
                self._known[path] = (
                    next((each for each in lacking if each is not None), None),
                    list(dict.fromkeys(leads)),
                )
        return self._known[path]

    def _leads(self, importer: str, dotted: str, names: Sequence[str]) -> Iterator[str]:
        """Yield the files of the project that an import statement runs: the packages above a
        module, the module, and modules among the names."""
        parts = dotted.split(".")
        ends = [] if dotted.startswith(".") else range(1, len(parts))
        modules = [*(".".join(parts[:end]) for end in ends), dotted]
        home = self._search.module(importer, dotted)
        if home is None or home.endswith("__init__.py"):
            bound = self._index(home).names if home is not None else {}
            dot = "" if dotted.endswith(".") else "."
            modules += [f"{dotted}{dot}{name}" for name in names if name not in bound]
        if parts[0] not in LIBRARIES:
            found = (self._search.module(importer, each) for each in modules)
            yield from dict.fromkeys(each for each in found if each is not None)

    def _lacking(self, importer: str, dotted: str, names: Sequence[str]) -> str | None:
        """Return the first of some names that stands nowhere in the text of the module of the
        project from which it is imported, or the module where that has moved; None where there is
        none.

        Unknown is a module that Python or a library has as well, and what may be a module
        itself."""
        first, _, rest = dotted.partition(".")
        home = self._search.module(importer, dotted)
        if home is None:
            missing = rest and self._missing.missing(importer, dotted, names)
            return f"`{dotted}` is not in the project" if missing else None
        if home == importer or first in sys.stdlib_module_names:
            return None
        lacking = [
            each
            for each in names
            if each != "*" and not each.startswith("__") and not self._may_give(home, each, {home})
        ]
        absent = [name for name in lacking if not self._missing.may_be_module(name)]
        if absent and (len(absent) < len(names) or self._is_ours(importer, dotted, home)):
            return f"`{os.path.relpath(home, self._search.root)}` defines no `{absent[0]}`"
        return None

    def _may_give(self, home: str, name: str, seen: set[str]) -> bool:
        """Say whether a module may have a name: its text does, other than as an attribute, or it
        takes names with a star from a module that may; from one that is not in the project, any."""
        text = self._read(home)
        if text is None or any(_OF_ANOTHER.search(before) is None for before in spoken(text, name)):
            return True
        if _GIVES_ANY.search(text):
            return True
        for dotted in _STAR.findall(text):
            source = self._search.module(home, dotted)
            first, dot, _ = dotted.partition(".")
            if source is None or first in sys.stdlib_module_names:
                return True
            if not dot and not self._is_only(source):
                return True
            if source not in seen:
                seen.add(source)
                if self._may_give(source, name, seen):
                    return True
        return False

    def _is_ours(self, importer: str, dotted: str, home: str) -> bool:
        """Say whether a module is the one in view although it has none of the names that a file
        takes from it: that is no library's namesake, and nothing is compiled beside it."""
        first, _, rest = dotted.partition(".")
        if not home.endswith("__init__.py"):
            beside = os.path.dirname(importer) == os.path.dirname(home)
            script = beside and not self._search.in_package(importer) and self._acts(importer)
            return bool(rest) or not first or (script and self._is_only(home))
        return bool(first and (self._read(home) or "").strip()) and "." in rest

    def _acts(self, path: str) -> bool:
        """Say whether a file is there to be run itself."""
        return not path.endswith(".py") or _SCRIPT.search(self._read(path) or "") is not None

    def _is_only(self, home: str) -> bool:
        """Say whether no other module of the project has a module's name."""
        stem = stem_of(home)
        return not any(each != home and stem_of(each) == stem for each in self._every() or ())


def _is_no_python(text: str) -> bool:
    """Say whether a text that this Python does not accept is none of another version of Python 3
    either, nor one with the marks of a merge that has not been ended yet."""
    try:
        cst.parse_module(text)
    except cst.ParserSyntaxError:
        return not re.search(r"^<{7} ", text, re.MULTILINE)
    return False
