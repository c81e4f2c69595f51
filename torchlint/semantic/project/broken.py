"""Which files of a program cannot be imported: what an import statement at their own level names
stands nowhere, or is no Python, or what that file imports in its turn."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.text import spoken
from torchlint.semantic.project.index import Index
from torchlint.semantic.project.search import LIBRARIES, Search

_GIVES_ANY = regex(
    r"^[ \t]*from\s+\S+\s+import\s+\*|__getattr__|__path__|globals\(\)|setattr\(|\bexec\("
    r"|sys\.modules|_sys\b|LazyModule|lazy_?import",
    re.MULTILINE,
)
"""A module that may give names which its text does not hold."""


_FINDS_OTHERS = regex(r"(?<![.\w])__path__|extend_path|meta_path|sys\.modules|_sys\b|LazyModule")
"""A package that may have modules which do not stand in its folder."""
_SEVERAL = 3
"""So many modules that stand nowhere are not made when the project is installed: they were left out
of it."""
_MADE = regex(
    r"_pb2(_grpc)?$|\._|(^|\.)(version|build|gen(erated)?|cuda|ext(ension)?s?)(\.|_|$)|_(cuda|ext|C)$"
)
"""Modules that protobuf, setuptools or a compiler writes."""


class Broken:
    """Says why what an import statement of a project's file names cannot be imported.

    Args:
        search: finds the files of modules.
        index: gives the names of a file, and what it imports.
        read: gives the text of a file.
        has: says whether a file or folder of the project may have a name; the first argument is the
            file that asks.
    """

    def __init__(
        self,
        search: Search,
        index: Callable[[str], Index],
        read: Callable[[str], str | None],
        has: Callable[[str, str], bool],
    ) -> None:
        self._search = search
        self._index = index
        self._read = read
        self._has = has
        self._known: dict[str, tuple[str | None, list[str]]] = {}

    def why(self, importer: str, dotted: str, names: Sequence[str]) -> str | None:
        """Return what stands nowhere, or the file that Python cannot read, where a file imports
        names from a module; None where nothing shows that it cannot."""
        lacking = self._lacking(importer, dotted, names)
        todo = list(self._leads(importer, dotted, names)) if lacking is None else []
        seen = {importer, *todo}
        for path in todo:
            lacking, leads = self._file(path)
            if lacking is not None:
                break
            todo += [each for each in leads if each not in seen]
            seen.update(leads)
        return lacking

    def file(self, path: str) -> str | None:
        """Return what `why` says of the first import statement of a file that fails."""
        found = (self.why(path, *each) for each in self._index(path).needs)
        return next((each for each in found if each is not None), None)

    def _file(self, path: str) -> tuple[str | None, list[str]]:
        """Return what shows by a file itself that it cannot be imported, and the files it runs."""
        if path not in self._known:
            index = self._index(path)
            if not index.readable and _is_no_python(self._read(path) or ""):
                self._known[path] = os.path.relpath(path, self._search.root), []
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

        Unknown is a module that Python or a library has as well, one that takes names from
        elsewhere, and what may be a module itself."""
        first, _, rest = dotted.partition(".")
        home = self._search.module(importer, dotted)
        if home is None:
            return dotted if rest and first and self._moved(importer, dotted, names) else None
        text = self._read(home) if home != importer else None
        if text is None or first in sys.stdlib_module_names:
            return None
        lacking = [
            each for each in names if each != "*" and not any(True for _ in spoken(text, each))
        ]
        if not lacking or _GIVES_ANY.search(text):
            return None
        absent = [name for name in lacking if not self._has(importer, name)]
        # Of a library's namesake none of the names would be there, nor of what is compiled beside.
        deep = bool(text.strip()) and "." in rest
        whole = first and rest and (deep or not home.endswith("__init__.py"))
        return absent[0] if absent and (whole or len(absent) < len(names)) else None

    def _moved(self, importer: str, dotted: str, names: Sequence[str]) -> bool:
        """Say whether a module of a package of the project is there no longer, but elsewhere in the
        project, or is one of several that a file lacks: what is nowhere may be made when the
        project is installed."""
        first, *rest = dotted.split(".")
        package = self._search.module(importer, first)
        ours = first == "src" or (package or "").endswith("__init__.py")
        text = self._read(package) if package is not None else ""
        if not ours or first in LIBRARIES or text is None or _FINDS_OTHERS.search(text):
            return False
        if not self._nowhere(importer, dotted, names):
            return False
        lacking = [
            name
            for name, wanted in self._index(importer).needs
            if name.startswith(f"{first}.") and not _MADE.search(name)
            if self._nowhere(importer, name, wanted)
        ]
        return self._has(importer, rest[-1]) or len(lacking) >= _SEVERAL

    def _nowhere(self, importer: str, dotted: str, names: Sequence[str]) -> bool:
        """Say whether a module stands in no file or folder of the project, nor does what is taken
        from it."""
        path = dotted.replace(".", os.sep)
        whole = (path, *(os.sep.join((path, name)) for name in names))
        return self._search.module(importer, dotted) is None and not any(
            self._has(importer, each) for each in whole
        )


def _is_no_python(text: str) -> bool:
    """Say whether a text that this Python does not accept is none of another version of Python 3
    either, nor one with the marks of a merge that has not been ended yet."""
    try:
        cst.parse_module(text)
    except cst.ParserSyntaxError:
        return not re.search(r"^<{7} ", text, re.MULTILINE)
    return False
