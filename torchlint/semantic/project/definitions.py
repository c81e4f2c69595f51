"""What the names of a project's files stand for, through re-exports and star imports, and what its
classes derive from."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from torchlint.base.trail import Dependencies
from torchlint.semantic.elsewhere import Definition, Lineage
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.index import ALIAS, CLASS, FUNCTION, IMPORT
from torchlint.semantic.project.reach import MINE, OTHERS, OUTSIDE, Aim, Reach, reach, stem_of
from torchlint.semantic.project.search import LIBRARIES
from torchlint.semantic.torch import names as torch_names

_HOPS = 20
_Targets = tuple[Definition | str, ...]
"""Where imports lead: files of the project, and names of modules outside of it."""


class Definitions:
    """Finds the definitions of a project's names; walks through any number of files, with care for
    circles."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._lineages: dict[Definition, tuple[Lineage, Dependencies]] = {}
        self._stars: dict[tuple[str, tuple[str, ...]], tuple[_Targets, Dependencies]] = {}
        self._reaches: dict[str, tuple[str, Reach | None]] = {}

    def view(self, files: Files) -> Definitions:
        """Return these definitions for one who asks."""
        seen = copy.copy(self)
        seen.files = files
        return seen

    def find(self, importer: str, dotted: str, hops: int = _HOPS) -> Definition | str | None:
        """Return what a dotted name in the file `importer` stands for.

        Returns:
            Its definition in the project, or its dotted name where it leads out of the project, or
            None for unknown.
        """
        found = self._found(importer, dotted, hops)
        theirs = found is None and dotted.partition(".")[0] in LIBRARIES
        return dotted if theirs else found

    def _found(self, importer: str, dotted: str, hops: int) -> Definition | str | None:
        """Return what a dotted name stands for, where a package of the project that is called as a
        library holds all that is asked of it."""
        head = dotted[: len(dotted) - len(dotted.lstrip("."))]
        parts = dotted.lstrip(".").split(".")
        for count in range(len(parts), -1 if head else 0, -1):
            path = self.files.search.module(importer, head + ".".join(parts[:count]))
            if path is not None and count == len(parts):
                return self._shadowing(importer, head, parts, hops) or Definition(
                    path, "", "module"
                )
            if path is not None:
                rest = [part for part in parts[count:] if part]
                return self.member(path, rest, hops) if rest else Definition(path, "", "module")
        return None if head else dotted

    def _shadowing(
        self, importer: str, head: str, parts: list[str], hops: int
    ) -> Definition | None:
        """Return what a package binds under the name of its own submodule: ``from .psnr import
        psnr``."""
        package = (
            self.files.search.module(importer, head + ".".join(parts[:-1]))
            if head or len(parts) > 1
            else None
        )
        if package is None or package == importer or not parts[-1]:
            return None
        found = self.member(package, parts[-1:], hops)
        return found if isinstance(found, Definition) and found.kind in (CLASS, FUNCTION) else None

    def imported(self, importer: str, dotted: str) -> Definition | str | None:
        """Return the module of the project that an import statement names; results are as of
        `find`."""
        path = self.files.search.module(importer, dotted)
        return (
            Definition(path, "", "module")
            if path is not None
            else None
            if dotted.startswith(".")
            else dotted
        )

    def member(self, path: str, parts: list[str], hops: int = _HOPS) -> Definition | str | None:
        """Return what a name of the file `path` stands for, through re-exports; results are as of
        `find`."""
        if hops <= 0:
            return None  # A circle of imports.
        found = self.files.index(path)
        if parts[0] in found.names:
            origin = found.names[parts[0]]
            if origin is None:
                return None
            if origin.kind in (CLASS, FUNCTION):
                kind = origin.kind if len(parts) == 1 else "member"
                return Definition(path, ".".join(parts), kind)
            if origin.kind == IMPORT:
                return self.find(path, ".".join([origin.dotted, *parts[1:]]), hops - 1)
            return (
                self.member(path, [*origin.dotted.split("."), *parts[1:]], hops - 1)
                if origin.kind == ALIAS
                else None
            )
        return self.starred(path, found.stars, parts, hops - 1)

    def starred(
        self, path: str, stars: Iterable[str], parts: list[str], hops: int = _HOPS
    ) -> Definition | str | None:
        """Return what a name means that only ``from module import *`` statements of the file `path`
        can bind; each file that they lead to is looked into once."""
        todo = [*self._leading(path, tuple(stars))]
        seen: set[str] = set()
        while todo:
            target = todo.pop(0)
            if isinstance(target, str):
                if torch_names.exports(target, parts[0]):
                    return ".".join([target, *parts])
            elif target.path not in seen:
                seen.add(target.path)
                names = self.files.index(target.path)
                if parts[0] not in names.names:
                    todo[:0] = self._leading(target.path, tuple(names.stars))
                elif (found := self.member(target.path, parts, hops - 1)) is not None:
                    return found
        return None

    def may_star(self, path: str, stars: Iterable[str], name: str) -> bool:
        """Say whether ``from module import *`` statements of the file `path` might bind `name`, as
        far as is known; each file that they lead to is looked into once."""
        todo = [(path, star) for star in stars]
        seen: set[str] = set()
        while todo:
            at, star = todo.pop()
            found = self.imported(at, star)
            if not isinstance(found, Definition) or found.kind != "module":
                if torch_names.may_export(star, name):
                    return True
            elif found.path not in seen:
                seen.add(found.path)
                names = self.files.index(found.path)
                if name in names.names:
                    return True
                todo += [(found.path, star) for star in names.stars]
        return False

    def _leading(self, path: str, stars: tuple[str, ...]) -> _Targets:
        """Return where star imports of a file lead to, as far as is known."""
        if (path, stars) not in self._stars:
            trail = Dependencies()
            found = (self.view(self.files.view(trail)).imported(path, star) for star in stars)
            self._stars[path, stars] = tuple(each for each in found if each is not None), trail
        targets, trail = self._stars[path, stars]
        self.files.trail.add(trail)
        return targets

    def made_by(self, function: Definition) -> Definition | None:
        """Return the class of the project of which a function returns a new object each time, as
        the text of its file says."""
        for _ in range(_HOPS):
            origin = self.files.index(function.path).names.get(function.name)
            makes = origin.makes if origin is not None else ""
            found = self.member(function.path, makes.split(".")) if makes else None
            if not isinstance(found, Definition) or found.kind == CLASS:
                return found if isinstance(found, Definition) else None
            function = found
        return None

    def lineage(self, definition: Definition) -> Lineage:
        """Return the ancestors of a class of the project, itself first."""
        if definition not in self._lineages:
            trail = Dependencies()
            self._lineages[definition] = (
                self.view(self.files.view(trail))._ancestors(definition),
                trail,
            )
        lineage, trail = self._lineages[definition]
        self.files.trail.add(trail)
        return lineage

    def _ancestors(self, definition: Definition) -> Lineage:
        classes: list[Definition] = []
        outside: list[str] = []
        todo = [definition]
        while todo:
            at = todo.pop(0)
            if at in classes:
                continue
            classes.append(at)
            origin = self.files.index(at.path).names.get(at.name)
            for base in origin.bases if origin is not None else ():
                found = self.member(at.path, base.split(".")) if base else None
                if isinstance(found, Definition) and found.kind == CLASS:
                    todo.append(found)
                else:
                    outside.append(found if isinstance(found, str) else base)
        return Lineage(tuple(classes), tuple(outside))

    def reaches(self, other: str, text: str | None, path: str, name: str) -> bool:
        """Say whether the file `other` with a text may read or replace a top-level name of the
        module `path`."""
        stem = stem_of(path)
        if text is None:
            return False  # Python cannot run what cannot be read.
        if other.endswith(".ipynb") and other != path:
            return name in text and stem in text

        def leads(dotted: str) -> str:
            found = self.files.search.module(other, dotted)
            if found is None:  # The path of modules may have been changed.
                same = dotted.lstrip(".").rpartition(".")[2] == stem
                return MINE if same else OTHERS if dotted.startswith(".") else OUTSIDE
            return MINE if found == path else OTHERS

        known = self._reach(other, text)
        return known is None or known.reaches(Aim(name, leads))

    def _reach(self, path: str, text: str) -> Reach | None:
        """Return what the code of a file with a text reaches; None where it is no Python."""
        known = self._reaches.get(path)
        if known is None or known[0] != text:
            known = self._reaches[path] = text, reach(text)
        return known[1]
