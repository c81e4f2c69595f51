"""From the name of a module to its file, inside the project only.

Modules are looked for as Python would find them when the project's code runs: from the folder that
holds the outermost package of the importing file, from a script's own folder, from the root, and
from ``src`` and ``lib`` under it, which programs and installations put on the path.
"""

from __future__ import annotations

import copy
import functools
import os
from pathlib import Path

from torchlint.base.trail import Dependencies, complete, listing

_NEVER_OURS = frozenset(
    """torch numpy typing collections os sys math random time logging functools itertools
    dataclasses abc builtins""".split()
)
"""Whatever the project has of that name, this is Python's own, or what its code computes with."""
LIBRARIES = frozenset(
    """torchvision torchaudio scipy pandas sklearn lightning pytorch_lightning accelerate
    transformers datasets ignite fastai tqdm cv2 PIL""".split()
)
"""What a project's own package may be called as well: what that has not is the library's."""

_MOST_FILES = 3_000
_MOST_FOLDERS = 3_000
_MOST_BYTES = 50_000_000
"""A project with more code than this is not read through for one question."""


_folder = functools.lru_cache(4096)(os.path.dirname)


def _is_script(path: str) -> bool:
    try:
        return os.path.isfile(path) and b"__main__" in Path(path).read_bytes()
    except (OSError, ValueError):
        return False


class Search:
    """Finds the files of modules; what the disk says is remembered, and `trail` notes who wanted to
    know."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.trail = Dependencies()
        self.files: dict[str, bool] = {}
        self.listings: dict[str, str] = {}
        self._every: list[tuple[str, ...] | None] = []
        self._installed: list[tuple[str, ...]] = []
        self._tops: dict[str, str] = {}
        self._modules: dict[tuple[str, str], str | None] = {}
        self._scripts: dict[str, tuple[tuple[str, ...], bool]] = {}

    def view(self, trail: Dependencies) -> Search:
        """Return this search for one who asks, with the same memory of the disk."""
        seen = copy.copy(self)
        seen.trail = trail
        # The way to what is remembered would not be noted.
        seen._tops, seen._modules = {}, {}
        return seen

    def module(self, importer: str, dotted: str) -> str | None:
        """Return the file of the module `dotted` as the file `importer` names it; relative names
        start with dots."""
        key = (_folder(importer), dotted)
        if key not in self._modules:
            self._modules[key] = self._found(*key)
        return self._modules[key]

    def _found(self, folder: str, dotted: str) -> str | None:
        if dotted.startswith("."):
            rest = dotted.lstrip(".")
            for _ in range(len(dotted) - len(rest) - 1):
                folder = os.path.dirname(folder)
            return self._below(folder, rest)
        if dotted.partition(".")[0] in _NEVER_OURS:
            return None
        own = self._below(folder, dotted) if self._top(folder) != folder else None
        own = own if own is not None and self._starts(folder) else None
        if own is not None and dotted == os.path.basename(folder):
            return own  # ``from dqn import DQN`` in ``dqn/main.py``
        for above in self._paths(folder):
            found = self._below(above, dotted)
            if found is not None:
                return found
        return own

    def _starts(self, folder: str) -> bool:
        """Say whether a package holds a script, which finds what lies beside it."""
        if folder not in self._scripts:
            _, files, self.listings[folder] = listing(folder)
            own = (name for name in files if name.endswith(".py"))
            beside = tuple(os.path.join(folder, name) for name in own)
            self._scripts[folder] = beside, any(map(_is_script, beside))
        paths, found = self._scripts[folder]
        self.trail.listed.add(folder)
        self.trail.read.update(paths)
        return found

    def every_file(self) -> tuple[str, ...] | None:
        """Return all Python files and notebooks under the root; None where they are too many to be
        read through."""
        if not self._every:
            self._every.append(self._listed())
        self.trail.listed.update(self.listings)
        return self._every[0]

    def installed(self) -> tuple[str, ...]:
        """Return the folders of metadata of wheels beside which the project lies, where it was
        installed."""
        if not self._installed:
            folders, _, self.listings[self.root] = listing(self.root)
            self._installed.append(tuple(n for n in folders if n.endswith(".dist-info")))
        self.trail.listed.add(self.root)
        return self._installed[0]

    def _listed(self) -> tuple[str, ...] | None:
        out: list[str] = []
        size = 0
        todo = [self.root]
        while todo:
            at = todo.pop()
            folders, files, self.listings[at] = listing(at)
            todo += [os.path.join(at, name) for name in folders]
            if (
                not complete(files)
                or len(out) + len(files) > _MOST_FILES
                or len(self.listings) > _MOST_FOLDERS
            ):
                return None
            for path in (os.path.join(at, name) for name in files):
                try:
                    size += os.stat(path).st_size
                except (OSError, ValueError):
                    continue  # A broken link, which nobody can import.
                out.append(path)
            if size > _MOST_BYTES:
                return None
        return tuple(out)

    def _below(self, folder: str, dotted: str) -> str | None:
        path = os.path.join(folder, dotted.replace(".", os.sep)) if dotted else folder
        for candidate in (f"{path}{os.sep}__init__.py", f"{path}.py"):
            if self.is_file(candidate):
                return candidate
        return None

    def _paths(self, own: str) -> tuple[str, ...]:
        above = self._top(own)
        folders = [above, self.root, *(os.path.join(self.root, name) for name in ("src", "lib"))]
        # A script is started in one of the folders above, whether these are packages or not.
        while above.startswith(self.root + os.sep):
            above = os.path.dirname(above)
            folders.append(above)
        return tuple(dict.fromkeys(folders))

    def in_package(self, path: str) -> bool:
        """Say whether a file lies in a package, beside an ``__init__.py``."""
        folder = os.path.dirname(path)
        return self._top(folder) != folder

    def top(self, path: str) -> str:
        """Return the folder that holds the outermost package of a file; its own folder where it
        lies in none."""
        return self._top(os.path.dirname(path))

    def _top(self, folder: str) -> str:
        """Return the folder that holds the outermost package of `folder`; the folder itself where
        it is no package."""
        if folder not in self._tops:
            above = os.path.dirname(folder)
            package = self.is_file(os.path.join(folder, "__init__.py")) and above != folder
            self._tops[folder] = self._top(above) if package else folder
        return self._tops[folder]

    def is_file(self, path: str) -> bool:
        """Say whether a path is a file, which is looked at once."""
        self.trail.looked.add(path)
        if path not in self.files:
            try:
                self.files[path] = os.path.isfile(path)
            except ValueError:  # a null byte
                self.files[path] = False
        return self.files[path]
