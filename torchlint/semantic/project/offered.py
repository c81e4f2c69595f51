"""What a project offers to those who install it: what says how to, and what its README shows."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator

from torchlint.base.regex import regex
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.index import CLASS, FUNCTION
from torchlint.semantic.project.programs import NOTHING
from torchlint.semantic.project.together import Together

_INSTALLS = {
    "pyproject.toml": r"^\[(build-system|(project|tool\.poetry)\.(scripts|entry-points.*))\]",
    "setup.cfg": r"^\[options",
    "setup.py": r"\bsetup\(",
}
"""What says how to install a project, by the file that says it."""
_DEPENDENCIES = (
    *_INSTALLS,
    *"""Pipfile environment.yml environment.yaml env.yml env.yaml conda.yml conda.yaml
requirements.txt requirement.txt requirements.in requirements/requirements.txt requirements/base.txt
requirements/main.txt requirements/train.txt requirements/default.txt""".split(),
)
_READMES = ("README.md", "README.rst", "README.txt", "README", "readme.md")
_EXAMPLES = regex(r"[\\/](examples?|demos?|tutorials?|notebooks?)[\\/]")
_PAGES = """mkdocs.yml docs/conf.py docs/source/conf.py doc/conf.py doc/source/conf.py docs/index.md
docs/index.rst docs/README.md .readthedocs.yml .readthedocs.yaml""".split()
"""What makes a site of all that a project documents, or leads to its pages."""
_DOTTED = regex(r"(?<![\w/])[A-Za-z_]\w*(?:\.\w+)+")
_IMPORTS_LATE = regex(r"\bdef __getattr__\b|\bimport_module\b|\bpkgutil\b|\b_?[lL]azy")
_SAID_WITH = r"""["']?\s*[=:]\s*(?!(""|'')\s*([,)\]}]|$)|["']Add[ ]your[ ]description[ ]here)\S"""
_SAYS_WHAT = regex(
    rf"""^\[project\.(scripts|gui-scripts|entry-points.*)\]|^\[tool\.poetry\.(scripts|plugins.*)\]
    |\[options\.entry_points\]|\bentry_points\b|\bsetup\([\s\S]*?\bscripts\s*=\s*(?!\[\s*\])\S
    |\b(?:description|long_description|readme|classifiers|keywords){_SAID_WITH}
    |(?:^\[(?:project|metadata)\].*(?:\n(?!\[).*)*?\n|\bsetup\([\s\S]*?\b)
    (?:download_)?url{_SAID_WITH}
    """,
    re.MULTILINE | re.VERBOSE,
)
"""What tells others what is installed; a project that says nothing installs its own imports."""


class Offered:
    """Says which files are offered; for questions about all files alone."""

    def __init__(self, files: Files, together: Together) -> None:
        self.files = files
        self.together = together
        self._offered: dict[str, list[set[str] | None]] = {}
        """By folder of an outermost package what `_shown` says of the folders that install it."""

    def holds(self, path: str) -> bool:
        """Say whether who installs the project may call what a file defines: something says how to
        install the file's package or the project, whose README names no module, or leads to the
        file by those that it names and what their packages import."""
        top = self.files.search.top(path)
        if top not in self._offered:
            self._offered[top] = [
                self._shown(folder)
                for folder in {top, self.files.search.root}
                if any(_installs(name, self._beside(folder, name)) for name in _INSTALLS)
            ]
        return any(shown is None or path in shown for shown in self._offered[top])

    def _shown(self, folder: str) -> set[str] | None:
        """Return the files to which the import statements of a folder's README and examples lead,
        with what packages, and files that define nothing, import on the way, what it names by dots
        and what commands are made of; None where it has no import of ours, pages are made of all,
        or a package imports what it is asked."""
        readmes = [os.path.join(folder, name) for name in _READMES]
        shown = set[str]().union(*(self.together.found_from(each, NOTHING)[0] for each in readmes))
        if not shown or any(
            self.files.search.is_file(os.path.join(folder, name)) for name in _PAGES
        ):
            return None
        examples = [
            path for path in self.files.every() or () if _EXAMPLES.search(path[len(folder) :])
        ]
        todo = [*examples, *filter(self._hands_on, shown)]
        for each in todo:
            more = self.together.found_from(each, NOTHING)[0] - shown
            shown |= more
            todo += filter(self._hands_on, more)
        handing = todo[len(examples) :]
        if any(_IMPORTS_LATE.search(self.files.text(path) or "") for path in handing):
            return None
        texts = (self._beside(folder, name) for name in (*_READMES, *_INSTALLS))
        said = {each for text in texts for each in _DOTTED.findall(text) if each[-3:] != ".py"}
        return shown.union(*(self._named(readmes[0], each) for each in said))

    def _hands_on(self, path: str) -> bool:
        """Say whether a file is a package's, or defines nothing: who imports it wants what it
        imports."""
        defined = (origin for origin in self.files.index(path).names.values() if origin is not None)
        made = any(origin.kind in (CLASS, FUNCTION) for origin in defined)
        return path.endswith("__init__.py") or not made

    def _named(self, path: str, dotted: str) -> set[str]:
        """Return the modules on the way to a dotted name, as a file's imports find them."""
        parts = dotted.split(".")
        ways = (".".join(parts[: n + 1]) for n in range(len(parts)))
        return {
            found for each in ways if (found := self.files.search.module(path, each)) is not None
        }

    def _beside(self, folder: str, name: str) -> str:
        return self.files.text(os.path.join(folder, name)) or ""


def dependencies(files: Files, path: str) -> Iterator[str]:
    """Yield the texts that may list what a file depends on: those of the usual names in its
    folder and in each one above it, up to the root, and the headers of its wheel's metadata (of
    several wheels none, as they are an environment's)."""
    folder, root = os.path.dirname(path), files.search.root
    for wheel in files.search.installed() if len(files.search.installed()) == 1 else ():
        yield (files.text(os.path.join(root, wheel, "METADATA")) or "").partition("\n\n")[0]
    while f"{folder}{os.sep}".startswith(f"{root}{os.sep}"):
        yield from (files.text(os.path.join(folder, name)) or "" for name in _DEPENDENCIES)
        folder = os.path.dirname(folder)


def is_packaged(files: Files, path: str) -> bool:
    """Say whether all of a file's package is in view; one without an ``__init__.py`` is one
    that lies beside the metadata of its wheel, or whose name says what installs the project."""
    root = files.search.root + os.sep
    if files.search.in_package(path):
        return f"{files.search.top(path)}{os.sep}".startswith(root)
    if not path.startswith(root):
        return False
    first, _, inside = path[len(root) :].removeprefix(f"src{os.sep}").partition(os.sep)
    name = re.escape(first).replace("_", "[-_.]")
    said = rf"\b(name|packages|modules|include)\s*=[^\]=]*(?<![\w.-]){name}(?![\w-])"
    return bool(files.search.installed()) or any(
        inside and re.search(said, files.text(f"{root}{each}") or "") for each in _INSTALLS
    )


@functools.lru_cache(maxsize=64)
def _installs(name: str, text: str) -> bool:
    """Say whether a file of a name that says how to install a project tells others what for."""
    return bool(re.search(_INSTALLS[name], text, re.MULTILINE) and _SAYS_WHAT.search(text))
