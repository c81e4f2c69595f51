"""What lies beside a project of which a copy is run: links, and its name where it is missed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST = 1_000
"""How many names beside a project are linked to at most."""
_MISSING = re.compile(
    r"no such file|not found|notfound|does not exist|can't open|cannot open", re.I
)
_PATH = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"|(\S*\.\./[^\s'\",:;)]+)")


def link_beside(root: Path, copy: Path) -> None:
    """Link, beside a copy, to what lies beside the project, so that ``../data`` leads there.

    What is linked to can be written: this is for programs whose writes are refused elsewhere.

    Args:
        root: the project.
        copy: of it, in a folder that holds nothing else.
    """
    try:
        with os.scandir(root.parent) as entries:
            names = [entry.name for entry in entries if Path(entry.path) != root]
    except OSError:  # a folder that may be passed, not listed
        return
    if len(names) > MOST:
        return
    for name in names:
        if name != copy.name and not copy.is_relative_to(root.parent / name):
            (copy.parent / name).symlink_to(root.parent / name)


def original_place(path: str, root: Path, copy: Path) -> Path:
    """Return where an absolute path leads in the user's tree: one beside the copy, beside the
    project."""
    if not Path(path).is_relative_to(copy.parent):
        return Path(os.path.normpath(path))
    return Path(os.path.normpath(root / os.path.relpath(path, copy)))


def missed(output: str, root: Path, copy: Path, cwd: Path) -> Path | None:
    """Return a file or folder outside of the project that a program says it did not find, and that
    is there.

    Args:
        output: what it printed last.
        root: the project.
        copy: of it.
        cwd: where the program ran, in the project.
    """
    for text in _named(output):
        path = os.path.normpath(copy / cwd.relative_to(root) / text)
        place = Path(os.path.normpath(root / os.path.relpath(path, copy)))
        if not place.is_relative_to(root) and not os.path.exists(path) and place.exists():
            return place
    return None


def _named(output: str) -> Iterator[str]:
    for line in output.splitlines():
        if _MISSING.search(line):
            yield from (next(filter(None, found.groups())) for found in _PATH.finditer(line))


def wider(asked: str, place: Path, root: Path, cwd: Path, typed: Sequence[str]) -> str:
    """Return the command that copies `place` too, and runs the program where it ran.

    Args:
        asked: the command of torchlint.
        place: what lies outside of the project.
        root: the project.
        cwd: where the program runs, in the project.
        typed: the program, as the user typed it.
    """
    folder = os.path.relpath(os.path.commonpath([root, place.parent]), cwd)
    here = Path.cwd()
    go = "" if here == cwd else f"cd {shlex.quote(os.path.relpath(cwd, here))} && "
    return f"{go}torchlint {asked} {shlex.quote(folder)} -- {shlex.join(typed)}"


def words_of_missed(
    output: str, root: Path, copy: Path, cwd: Path, asked: str, typed: Sequence[str]
) -> str:
    """Return what to say of a failed program that misses what lies outside of the copy; else an
    empty string."""
    place = missed(output, root, copy, cwd)
    if place is None:
        return ""
    command = wider(asked, place, root, cwd, typed)
    return f"; {place} lies outside of {root}, the project that was copied; copy it too: {command}"
