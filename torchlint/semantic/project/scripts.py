"""Which files of a project are scripts that somebody starts, and which files run with one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from torchlint.base.regex import regex
from torchlint.semantic.project.calls import speaks_for
from torchlint.semantic.project.reach import stem_of
from torchlint.semantic.project.search import Search

PROGRAM = regex(r"^(if __name__\b|for |while |with |[\w.]+\()|parse_args\(|sys\.argv", re.MULTILINE)
"""What does something where the file itself is run."""
_TRAINS = regex(r"train|main|^run|experiment|finetune|fine_tune")
"""Names of files that are programs where a package holds them."""
_SCRIPTS = ("", "scripts", "tools", "experiments", "bin")
"""Names of packages that hold programs for others; no package has an empty one."""
_GUARD = regex(r"^if __name__\b", re.MULTILINE)
_BARE = regex(r"^(?:from|import) (\w+)\b", re.MULTILINE)
_STEPS = regex(r"\.(backward|step)\(")
"""What a file says that trains itself."""
OF_TOOLS = frozenset(("setup", "conftest", "hubconf"))
"""Files whose definitions tools look for."""


class Scripts:
    """Finds the scripts of a project.

    Args:
        search: finds its files.
        read: gives the text of a file.
        every: all files.
        offers: says whether who installs the project may call what a file defines.
    """

    def __init__(
        self,
        search: Search,
        read: Callable[[str], str | None],
        every: tuple[str, ...],
        offers: Callable[[str], bool],
    ) -> None:
        self._search = search
        self._read = read
        self._every = every
        self._offers = offers
        self._programs: dict[str, bool] = {}

    def runs(self, path: str) -> bool:
        """Say whether a file is part of a program, and of no library: the project holds a file that
        does something, in no package, and that imports a package beside the file's own."""
        if stem_of(path) in OF_TOOLS or self._offers(path):
            return False
        top = self.top(path)
        if top not in self._programs:
            package = top != self._search.root and self._search.in_package(top)
            self._programs[top] = not package and any(True for _ in self._programs_for(top))
        return self._programs[top]

    def top(self, path: str) -> str:
        """Return the folder that holds the outermost package of a file, the project's root at
        most; a folder in a package belongs to it without an ``__init__.py``, too."""
        top = self._search.top(path)
        while self._search.in_package(top):
            above = self._search.top(top)
            if not above.startswith(self._search.root):
                break
            top = above
        return top if top.startswith(self._search.root) else self._search.root

    def _programs_for(self, top: str) -> Iterator[str]:
        """Yield the programs that the project holds for the packages in a folder, whose own name
        leads to them too (``from models.kit import x``), or, where there are none, all; for a
        folder below the root of a program any file of that does."""
        root = self._search.root
        packages = {
            below(top, path).partition(os.sep)[0]
            for path in self._every
            if path.startswith(top + os.sep)
            and os.sep in below(top, path)
            and self.top(path) == top
        }
        lies_below = bool(packages) and top != root and any(True for _ in self._programs_for(root))
        if packages and top != root:
            packages.add(os.path.basename(top))
        for path in self._every:
            own = self._package(path)
            beside = packages - {own} if packages else None
            acts = self._does_something(path) or (
                lies_below and own not in packages and self._is_of_program(path)
            )
            if acts and self._imports(path, beside):
                yield path

    def no_program(self) -> bool:
        """Say whether the project holds nothing to be run: no notebook, no file outside of packages
        that does something, and none of a package that Python runs by its name, or that is guarded
        and trains, by its name or by what it says, or imports as a script does."""
        return not any(self._does_something(path) or self._starts(path) for path in self._every)

    def _starts(self, path: str) -> bool:
        """Say whether a file is there to be run wherever it lies."""
        if not self._is_of_program(path):
            return False
        if path.endswith(".ipynb") or stem_of(path) == "__main__":
            return True
        text = self._read(path) or "" if self._package(path) else ""
        runs = self._trains(path, text) or self._imports_beside(path, text)
        return runs and _GUARD.search(text) is not None

    def _imports_beside(self, path: str, text: str) -> bool:
        """Say whether a file imports by its bare name what lies beside it in a package, as only a
        script can."""
        folder = os.path.dirname(path)
        return any(
            self._search.module(path, name) == os.path.join(folder, f"{name}.py")
            for name in _BARE.findall(text)
        )

    def programs(self, files: Iterable[str]) -> tuple[str, ...]:
        """Return those of some files that are scripts to be run, those first that train."""
        scripts = [
            path
            for path in files
            if path.endswith(".py") and (self._does_something(path) or self._starts(path))
        ]
        return tuple(
            sorted(scripts, key=lambda path: not self._trains(path, self._read(path) or ""))
        )

    def _trains(self, path: str, text: str) -> bool:
        """Say whether a file trains, by its name or by what it says."""
        return _TRAINS.search(stem_of(path)) is not None or _STEPS.search(text) is not None

    def _is_of_program(self, path: str) -> bool:
        """Say whether a file is no test, benchmark or example."""
        shown = below(self._search.root, path).replace(os.sep, "/")
        return speaks_for(shown, lambda: self._read(path) or "") == ""

    def _imports(self, path: str, packages: set[str] | None) -> bool:
        """Say whether a file imports one of some packages, or any module where they are None."""
        names = r"\w+" if packages is None else "|".join(map(re.escape, sorted(packages))) or "(?!)"
        said = rf"^[ \t]*(from|import)[ \t]+(\w+\.)*({names})\b|[\"']({names})\."
        return re.search(said, self._read(path) or "", re.MULTILINE) is not None

    def _package(self, path: str) -> str:
        """Return the name of the outermost package that a file lies in, empty for none."""
        own, _, inside = below(self.top(path), path).partition(os.sep)
        return own if inside else ""

    def _does_something(self, path: str) -> bool:
        """Say whether a file is there to be run: it does something, and in a package, one of
        scripts by its name, it says that it is run itself."""
        package = self._package(path)
        starts = _GUARD if package else PROGRAM
        return (
            path.endswith(".py")
            and package in _SCRIPTS
            and stem_of(path) not in OF_TOOLS
            and self._is_of_program(path)
            and starts.search(self._read(path) or "") is not None
        )


def below(folder: str, path: str) -> str:
    return path[len(folder) + 1 :]
