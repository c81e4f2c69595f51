"""What the answers to one file rest on: the other files that were read for them, or looked for in
vain, and the answers to questions about all files of the project."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping

IS_FILE = "file"
"""State of a path that only has to be a file, whatever it holds."""
NOTHING = "none"
"""State of a path at which nothing may be."""
NO_MODULE = "no-module"
"""State of a path at which, and at which with ``.py``, nothing may be."""
LISTING = "listing:"
"""How the state of a folder starts whose Python files were listed; a digest of their names follows,
see `listing`."""
TREE = "tree:"
"""How the state of a project's root starts; a digest of all its Python files and notebooks follows,
see `tree`."""
ASKED = "asked:"
"""How the state starts of a path that a question about all files is about; question and answer
follow, see `answered`."""

Asked = tuple[str, ...]
"""A question about all files of the project: its kind, the file it is about, and what else it
says."""
UNNAMED: Asked = ("unnamed", "")
"""A question that cannot be asked again: whose answer holds while no file has changed."""

_NO_CODE = frozenset(("__pycache__", "node_modules", "site-packages"))
_MOST_ENTRIES = 10_000
_LONG_ANSWER = 40
_TOO_MANY = "\0"
"""Stands among the files of a folder that has more entries."""


def listing(folder: str) -> tuple[list[str], list[str], str]:
    """Return the folders of a folder that may hold code of the project, its Python files and
    notebooks, and its state.

    Links to folders are not followed; virtual environments, hidden folders and folders too large
    hold nothing of ours.
    """
    folders: list[str] = []
    files: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if entry.name == "pyvenv.cfg":
                    folders, files = [], []
                    break
                if count >= _MOST_ENTRIES:
                    files.append(_TOO_MANY)
                    break
                if entry.name.endswith((".py", ".ipynb")):
                    files.append(entry.name)
                elif _may_hold_code(entry):
                    folders.append(entry.name)
    except OSError:
        folders, files = [], []
    folders.sort()
    files.sort()
    names = "\0".join([*folders, "", *files])
    return (
        folders,
        files,
        LISTING + hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:32],
    )


def _may_hold_code(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _NO_CODE:
        return False
    return entry.is_dir(follow_symlinks=False)


def complete(files: list[str]) -> bool:
    """Say whether the files of a `listing` are all that there are."""
    return _TOO_MANY not in files


class Dependencies:
    """The paths that mattered for one file so far; it only grows.

    `looked` are those that were looked for, there or not, `read` those whose text counted, `listed`
    the folders whose Python files were listed, and `helpers` those whose own trail belongs to this
    one. `asked` are questions about all files: their answers counted, and not what was read for
    them.
    """

    __slots__ = ("asked", "helpers", "listed", "looked", "read")

    def __init__(self) -> None:
        self.looked: set[str] = set()
        self.read: set[str] = set()
        self.listed: set[str] = set()
        self.helpers: set[str] = set()
        self.asked: set[Asked] = set()

    def add(self, other: Dependencies) -> None:
        """Take over all of another trail."""
        self.looked |= other.looked
        self.read |= other.read
        self.listed |= other.listed
        self.helpers |= other.helpers
        self.asked |= other.asked


def closed(trail: Dependencies, helpers: Mapping[str, Dependencies]) -> Dependencies:
    """Return a trail together with those of its helpers, and of theirs."""
    whole = Dependencies()
    whole.add(trail)
    todo = list(whole.helpers)
    while todo:
        other = helpers.get(todo.pop())
        if other is not None:
            todo.extend(other.helpers - whole.helpers)
            whole.add(other)
    return whole


def states(
    trail: Dependencies,
    files: Mapping[str, bool],
    digests: Mapping[str, str],
    listings: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """Yield each path of a closed trail with its state: the digest of what was read there, or one
    of this module's.

    Args:
        trail: the paths.
        files: which of the paths that were looked for are files.
        digests: those of the files that were read.
        listings: the states of the folders that were listed.
    """
    yield from ((path, listings[path]) for path in sorted(trail.listed))
    for path in sorted(trail.read):
        yield path, digests.get(path, IS_FILE)
    yield from ((path, IS_FILE) for path in sorted(trail.looked - trail.read) if files.get(path))
    there: dict[str, bool] = {}
    absent = {highest(path, there) for path in trail.looked - trail.read if not files.get(path)}
    yield from _folded(absent)


def is_content(state: str) -> bool:
    """Say whether a state is the digest of what a file holds."""
    return ":" not in state and state not in (IS_FILE, NOTHING, NO_MODULE)


def tree(listings: Mapping[str, str], contents: Iterable[tuple[str, str]] | None) -> str:
    """Return the state of a project's root: of all files that a question about all files reads.

    Args:
        listings: the states of its folders.
        contents: its files, each with the digest of what it holds; None where they are too many,
            so that none is read.
    """
    found = hashlib.sha256()
    for path, state in sorted([*listings.items(), *contents]) if contents is not None else ():
        found.update(f"{path}\0{state}\0".encode("utf-8", "surrogateescape"))
    return TREE + found.hexdigest()[:32]


def answered(question: Asked, answer: object) -> tuple[str, str]:
    """Return the path that a question about all files is about, and as its state question and
    answer."""
    said = json.dumps(answer)
    if len(said) > _LONG_ANSWER:
        said = hashlib.sha256(said.encode()).hexdigest()[:32]
    return question[1], ASKED + json.dumps([said, question[0], *question[2:]])


def question_of(path: str, state: str) -> Asked | None:
    """Return the question of a path and its state; None where these are no `answered` one."""
    try:
        _, kind, *rest = json.loads(state.removeprefix(ASKED))
    except (TypeError, ValueError):
        return None
    words = (kind, path, *rest)
    return words if all(isinstance(word, str) for word in words) else None


def highest(path: str, there: dict[str, bool]) -> str:
    """Return the highest folder on the way to an absent path that is absent too, else the path.

    `there` remembers which folders exist.
    """
    folder = os.path.dirname(path)
    while folder != path:
        if folder not in there:
            there[folder] = os.path.lexists(folder)
        if there[folder]:
            break
        path, folder = folder, os.path.dirname(folder)
    return path


def _folded(absent: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Say of ``foo`` and ``foo.py``, both absent, in one word that there is no such module."""
    paths = set(absent)
    for path in sorted(paths):
        if f"{path}.py" in paths:
            yield path, NO_MODULE
        elif not (path.endswith(".py") and path[:-3] in paths):
            yield path, NOTHING
