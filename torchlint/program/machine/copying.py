"""Copies a project so that nothing written in the copy reaches the original, without copying its
data.

Files are cloned where the file system can (``os.copy_file_range``: btrfs, XFS; no blocks are
written until one side changes), else copied. Never hard links: a write through one would change the
user's file.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from torchlint.base.errors import UsageError

LARGE_BYTES = 64_000_000
"""A file above this is linked, not copied."""
TOTAL_BYTES = 1_000_000_000
"""What is copied at most: in a project with more, its largest files are linked too, until the rest
fits."""
SPARE_BYTES = 200_000_000
"""Room that a copy leaves free for what the program writes."""
SKIPPED = frozenset(
    ".git .hg .svn .jj __pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis "
    ".torchlint_cache .tox .nox"
    " .ipynb_checkpoints node_modules".split()
)
"""Folders (and ``.git`` files) that are not of the program."""
_SOURCE = frozenset(
    {".py", ".pyi", ".ipynb", ".toml", ".cfg", ".ini", ".yaml", ".yml", ".json", ".txt", ".sh"}
)


@dataclass(slots=True)
class Survey:
    """What a folder holds. All names are relative to `root`, folders before what is in them.

    Args:
        root: the folder, absolute.
        folders: its folders, with their modes.
        files: the files to copy, with their sizes.
        linked: the files to link to.
        links: the symbolic links, with their texts.
        notes: what is left out, in words.
    """

    root: Path
    folders: list[tuple[str, int]] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """What a copy takes on disk, at 4 kB a name."""
        return sum(size for _, size in self.files) + 4096 * (
            len(self.files) + len(self.folders) + len(self.linked)
        )


def is_skipped(entry: os.DirEntry[str]) -> bool:
    """Say whether a folder's entry is no part of the program: version control, caches, virtual
    environments."""
    if entry.name in SKIPPED:
        return True
    if not entry.is_dir(follow_symlinks=False):
        return False
    return any(
        os.path.exists(os.path.join(entry.path, mark)) for mark in ("pyvenv.cfg", "conda-meta")
    )


def walk(root: Path, notes: list[str]) -> Iterator[os.DirEntry[str]]:
    """Yield what belongs to a project, each folder before its contents; links are not followed."""
    waiting = [str(root)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            notes.append(f"{os.path.relpath(error.filename, root)} was left out: {error.strerror}")
            continue
        for entry in found:
            if not is_skipped(entry):
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def survey(root: Path) -> Survey:
    """Look through a project before it is copied.

    Files above `LARGE_BYTES` are to be linked; if the rest is above `TOTAL_BYTES`, so are the
    largest of those that are neither source nor configuration.
    """
    found = Survey(root)
    for entry in walk(root, found.notes):
        name = os.path.relpath(entry.path, root)
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # a file of the moment, gone between the two looks
            continue
        if stat.S_ISLNK(status.st_mode):
            found.links.append((name, os.readlink(entry.path)))
        elif stat.S_ISDIR(status.st_mode):
            found.folders.append((name, status.st_mode))
        elif not stat.S_ISREG(status.st_mode):
            found.notes.append(f"{name} was left out: it is no file, folder or link")
        elif not os.access(entry.path, os.R_OK):
            found.notes.append(f"{name} was left out: it cannot be read")
        elif status.st_size > LARGE_BYTES:
            found.linked.append(name)
        else:
            found.files.append((name, status.st_size))
    _link_largest(found)
    return found


def _link_largest(found: Survey) -> None:
    excess = sum(size for _, size in found.files) - TOTAL_BYTES
    linked: set[str] = set()
    for name, size in sorted(found.files, key=lambda item: -item[1]):
        if excess <= 0:
            break
        if os.path.splitext(name)[1].lower() not in _SOURCE:
            linked.add(name)
            excess -= size
    if linked:
        found.files = [item for item in found.files if item[0] not in linked]
        found.linked += sorted(linked)
        found.notes.append(
            f"{len(linked)} data files are linked to, not copied: they can be read, not changed"
        )


def write_copy(found: Survey, target: Path) -> list[str]:
    """Make the copy; return notes on what vanished or could not be read meanwhile.

    Raises:
        UsageError: the disk is full.
    """
    notes: list[str] = []
    target.mkdir(parents=True)
    for name, mode in found.folders:
        (target / name).mkdir(mode=stat.S_IMODE(mode) & 0o777 | 0o700)
    for name, _ in found.files:
        try:
            copy_file(found.root / name, target / name)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise UsageError(
                    f"the disk of {target} is full; set TMPDIR to a larger one"
                ) from None
            notes.append(f"{name} was left out: {error.strerror}")
    for name in found.linked:
        (target / name).symlink_to(found.root / name)
    for name, text in found.links:
        os.symlink(_link_text(found.root, name, text), target / name)
    for name, _ in found.links:
        original = found.root / name
        if (
            original.exists() and not (target / name).exists()
        ):  # it leads to what is not copied, such as a .venv
            (target / name).unlink()
            (target / name).symlink_to(original)
    return notes


def _link_text(root: Path, name: str, text: str) -> str:
    """Return where a link points in the copy: within the project to the copy, out of it to the same
    place as before."""
    folder = root / os.path.dirname(name)
    if os.path.isabs(text):  # may lead to the project by another name of its folder
        place = os.path.join(os.path.realpath(os.path.dirname(text)), os.path.basename(text))
    else:
        place = os.path.normpath(folder / text)
    if place != str(root) and not place.startswith(f"{root}{os.sep}"):
        return str(folder / text)
    return os.path.relpath(place, folder) if os.path.isabs(text) else text


def copy_file(source: Path, target: Path) -> None:
    """Copy contents, permissions and times; the copy is always ours to read and write."""
    with source.open("rb") as reader, target.open("xb") as writer:
        status = os.fstat(reader.fileno())
        if not _clone(reader.fileno(), writer.fileno(), status.st_size):
            reader.seek(0)
            writer.seek(0)
            shutil.copyfileobj(reader, writer, 1 << 20)
        os.chmod(target, stat.S_IMODE(status.st_mode) & 0o777 | 0o600)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _clone(reader: int, writer: int, size: int) -> bool:
    """Have the system copy; return whether it did, in full."""
    if not hasattr(os, "copy_file_range"):
        return False
    try:
        while size > 0:
            done = os.copy_file_range(reader, writer, size)
            if done == 0:
                return False
            size -= done
    except OSError:
        return False
    return True


def free_bytes(folder: Path) -> int:
    """Return the room that a copy may take in a folder's file system."""
    return max(0, shutil.disk_usage(folder).free - SPARE_BYTES)
