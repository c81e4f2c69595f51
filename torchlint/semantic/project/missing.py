"""Whether a module that an import statement names is missing from the project's own package, and is
not made by a compiler, by hand, or while the program runs: it was left out, or has moved."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterator, Sequence

from torchlint.base.regex import regex
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.search import LIBRARIES
from torchlint.semantic.project.together import Together

_LIBRARIES = LIBRARIES | sys.stdlib_module_names
_FINDS_OTHERS = regex(r"(?<![.\w])__path__|extend_path|meta_path|sys\.modules|_sys\b|LazyModule")
"""A package that may have modules which do not stand in its folder."""
_SEVERAL = 3
"""So many modules that stand nowhere are not made when the project is installed: they were left out
of it."""
_MADE = regex(
    r"_pb2(_grpc)?$|\._|(^|\.)(version|build|gen(erated)?|cuda|cython|ext(ension)?s?)(\.|_|$)"
    r"|_(cuda|ext|C)$"
)
"""Modules that protobuf, setuptools or a compiler writes."""
_SOURCES = """.pyx .pxd .pyi .so .pyd .pyc .c .cc .cpp .cu .rs .proto .thrift .py.in .py.example
.py.sample .py.template .py.default .py.dist .example.py .sample.py .template.py .default.py
_example.py _sample.py _template.py _default.py""".split()
"""Ends of files beside a module of which it is made, by a compiler or by hand."""
_BUILDS = regex(r"ext_modules|Extension\(|cythonize|build_ext|\bprotoc\b|pybind|cffi")
_LISTS = (".gitignore", ".gitmodules")
_NOTES = """README.md README.rst README.txt README readme.md INSTALL.md Makefile CMakeLists.txt
pyproject.toml setup.cfg MANIFEST.in setup.sh install.sh build.sh make.sh""".split()
"""What may say who has a module, or how it is made."""


class Missing:
    """Says which modules of a project's own packages are missing."""

    def __init__(self, files: Files, together: Together) -> None:
        self._search = files.search
        self._index = files.index
        self._read = files.text
        self._every = files.every
        self._holding = together.holding
        self._complete: dict[str, bool] = {}

    def may_be_module(self, name: str) -> bool:
        """Say whether a file or folder of the project may have a name."""
        parts = [f"{os.sep}{name}{end}" for end in (os.sep, ".")]
        every = self._every()
        return every is None or any(part in path for path in every for part in parts)

    def missing(self, importer: str, dotted: str, names: Sequence[str]) -> bool:
        """Say whether a module that a file names and that is not found is missing: nothing makes
        it, and it is elsewhere in the project, or one of several that the file lacks, or its
        package is in view, as most modules are there that anybody imports from it."""
        place = self._package_place(importer, dotted)
        first, _, last = dotted.rpartition(".")
        first = first.partition(".")[0]
        if place is None or first in _LIBRARIES or self._finds_others(*place):
            return False
        if first and not self._nowhere(importer, dotted, names):
            return False
        if _MADE.search(dotted) or self.made(place[1]):
            return False
        if first and (self.may_be_module(last) or self._lacks_several(importer, first)):
            return True
        return self._is_ours(importer, place[0])

    def _package_place(self, importer: str, dotted: str) -> tuple[str, str] | None:
        """Return the folder of the first package that an import names, of a relative one that of
        the outermost package, and in it the path of the module without an ending; None where that
        is no package of the project."""
        rest = dotted.lstrip(".")
        if rest == dotted:
            first, _, rest = dotted.partition(".")
            package = self._search.module(importer, first)
            folder = os.path.join(self._search.root, first)
            if (package or "").endswith("__init__.py"):
                folder = os.path.dirname(package or "")
            elif package is not None or first != "src":
                return None
        else:
            folder = importer
            for _ in range(len(dotted) - len(rest)):
                folder = os.path.dirname(folder)
        if not rest or not f"{folder}{os.sep}".startswith(self._search.root + os.sep):
            return None
        path = os.path.join(folder, *rest.split("."))
        return (self._outermost(folder) if dotted.startswith(".") else folder), path

    def _outermost(self, folder: str) -> str:
        """Return the outermost package that holds a folder, the folder itself where none does."""
        top = self._search.top(os.path.join(folder, "__init__.py"))
        return os.path.normpath(os.path.join(top, os.path.relpath(folder, top).split(os.sep)[0]))

    def _finds_others(self, package: str, path: str) -> bool:
        """Say whether a package around a module may find it elsewhere, or a module of that name
        does, as six does."""
        folder = os.path.dirname(path)
        while folder.startswith(package):
            for each in (os.path.join(folder, "__init__.py"), f"{folder}.py"):
                if _FINDS_OTHERS.search(self._read(each) or ""):
                    return True
            folder = os.path.dirname(folder)
        return False

    def _nowhere(self, importer: str, dotted: str, names: Sequence[str]) -> bool:
        """Say whether a module stands in no file or folder of the project, nor does what is taken
        from it."""
        path = dotted.replace(".", os.sep)
        whole = (path, *(os.sep.join((path, name)) for name in names))
        return self._search.module(importer, dotted) is None and not any(
            self.may_be_module(each) for each in whole
        )

    def _lacks_several(self, importer: str, first: str) -> bool:
        lacking = [
            name
            for name, wanted in self._index(importer).needs
            if first and name.startswith(f"{first}.") and not _MADE.search(name)
            if self._nowhere(importer, name, wanted)
        ]
        return len(lacking) >= _SEVERAL

    def _is_ours(self, importer: str, package: str) -> bool:
        """Say whether a file lies in a package, or imports another module that is there, and the
        package is no part of one that is installed: most of what is imported from it is there."""
        if package not in self._complete:
            there, absent = set[str](), set[str]()
            for path in self._every() or ():
                for module, found in self._imported(path, package):
                    (there if found else absent).add(module)
            self._complete[package] = len(there) > len(absent)
        inside = importer.startswith(package + os.sep) and self._outermost(package) == package
        return self._complete[package] and (
            inside or any(found for _, found in self._imported(importer, package))
        )

    def _imported(self, importer: str, package: str) -> Iterator[tuple[str, bool]]:
        """Yield the modules of a package that a file imports in any case, and whether they are
        there."""
        for dotted, _ in self._index(importer).needs:
            place = self._package_place(importer, dotted)
            if place is not None and place[0] == package:
                found = self._search.module(importer, dotted) is not None
                yield place[1], found or os.path.isdir(place[1])

    def made(self, path: str) -> bool:
        """Say whether a module may be made, by a path without an ending: of a file beside it, by
        what builds the project, by who follows its notes, or by a program that names its file."""
        while not os.path.isdir(os.path.dirname(path)):
            path = os.path.dirname(path)
        folder, name = os.path.split(path)
        if os.path.isdir(path) or any(self._search.is_file(path + end) for end in _SOURCES):
            return True
        return self._is_built(name) or any(
            self._is_noted(each, os.path.basename(folder), name)
            for each in {folder, self._search.root}
        )

    def _is_built(self, name: str) -> bool:
        scripts = (path for path in self._holding(name) if path.endswith(".py"))
        texts = (self._read(path) or "" for path in scripts)
        file = re.compile(rf"(?<![\w-]){re.escape(name)}\.py")
        return any(file.search(text) or _BUILDS.search(text) for text in texts)

    def _is_noted(self, folder: str, parent: str, name: str) -> bool:
        """Say whether a list or a text in a folder names a module."""
        # What a distribution of the sources left out nobody has who installs it.
        packed = self._search.is_file(os.path.join(self._search.root, "PKG-INFO"))
        for each in () if packed else _LISTS:
            for line in (self._read(os.path.join(folder, each)) or "").splitlines():
                last = line.strip().rstrip("/").rpartition("/")[2]
                if any(fnmatch.fnmatchcase(module, last) for module in (name, f"{name}.py")):
                    return True
        said = rf"\b({re.escape(parent)}[./])?{re.escape(name)}(?(1)\b|\.py\b)"
        return any(re.search(said, self._read(os.path.join(folder, each)) or "") for each in _NOTES)
