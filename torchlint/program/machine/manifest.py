"""Which files a project holds and when each was last changed, to say afterwards whether a run
touched one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torchlint.program.machine.copying import walk

FileState = tuple[int, int, int, int]
"""What tells two states of a file apart without reading it: its last change in nanoseconds, its
size, its inode, which is another where another file takes its place, and its mode. Of a folder
only the last two count."""
Manifest = Mapping[str, FileState]
"""The state of a folder, by path relative to it. Skips what a copy skips: caches, virtual
environments."""


def manifest(root: Path) -> Manifest:
    """Look at every file, folder and link below a folder; links are not followed, nothing is
    opened."""
    states: dict[str, FileState] = {}
    for entry in walk(root, []):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        # A folder's time and size change with what is skipped in it (__pycache__), its own files
        # have states.
        plain = not entry.is_dir(follow_symlinks=False)
        mtime, size = (status.st_mtime_ns, status.st_size) if plain else (0, 0)
        states[os.path.relpath(entry.path, root)] = mtime, size, status.st_ino, status.st_mode
    return states


def changes(before: Manifest, after: Manifest) -> tuple[str, ...]:
    """Return what differs, sorted by path: ``"changed: a.py"``, ``"new: out.pt"``, ``"removed:
    b.py"``."""
    words = {
        **dict.fromkeys(before.keys() - after.keys(), "removed"),
        **dict.fromkeys(after.keys() - before.keys(), "new"),
        **{path: "changed" for path in before.keys() & after.keys() if before[path] != after[path]},
    }
    return tuple(f"{words[path]}: {path}" for path in sorted(words))


def warnings(root: Path, before: Manifest) -> tuple[str, ...]:
    """Return a warning for each change of a folder since `before`."""
    return tuple(
        f"your files changed during the run: {change}" for change in changes(before, manifest(root))
    )
