"""Puts a fixed text in the place of a file: all of it or nothing, and never over an edit made meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from torchlint.base.errors import SourceError, WriteError
from torchlint.base.places import TEMPORARY_PREFIX, TEMPORARY_SUFFIX, is_temporary
from torchlint.source.document import Document, encode

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_STALE = 3600
"""Seconds after which a left-over temporary file is nobody's any more."""


def write(document: Document, new_text: str) -> None:
    """Replace the content of `document.path` by `new_text` in the document's encoding.

    Links are followed; mode and owner stay. The new bytes lie complete on the disk before they take the old ones'
    place. Only where that cannot keep what is there (several hard links, or a folder that takes no new files) is the
    file written in place.

    Raises:
        WriteError: the file changed since it was read, may not be written, or the disk refuses.
    """
    try:
        data = encode(document, new_text)
    except SourceError as error:
        raise WriteError(str(error)) from error
    if data == document.data:
        return
    target = os.path.realpath(document.path)
    try:
        state = os.stat(target)
        # Root may write what is marked read-only; the mark means "don't" all the same.
        if not state.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(target, os.W_OK):
            raise WriteError(f"{document.filename}: is read-only, not fixed")
        if state.st_nlink > 1 or not os.access(os.path.dirname(target), os.W_OK | os.X_OK):
            _write_in_place(document, target, data)
        else:
            _replace(document, target, state, data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise WriteError(f"{document.filename}: cannot be written: {reason}") from error


def remove_stale(directory: str) -> None:
    """Remove what a killed run left in `directory` more than an hour ago; errors do not matter."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and time.time() - entry.stat().st_mtime > _STALE:
                        Path(entry.path).unlink()


@contextlib.contextmanager
def atomically(target: str, state: os.stat_result | None = None) -> Iterator[int]:
    """Give a descriptor to write to; on success what was written takes the place of `target`, else it is gone.

    Args:
        target: a file's path; its folder takes the temporary file.
        state: that of the file at `target`, whose mode, owner and attributes stay; None where there is no file.

    Raises:
        OSError: the folder or the disk refuses.
    """
    directory = os.path.dirname(target) or os.curdir
    descriptor, temporary = tempfile.mkstemp(TEMPORARY_SUFFIX, TEMPORARY_PREFIX, directory)
    try:
        try:
            _dress(descriptor, target, state)
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(directory)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`; `os.write` may take only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _replace(document: Document, target: str, state: os.stat_result, data: bytes) -> None:
    with atomically(target, state) as descriptor:
        write_all(descriptor, data)
        os.fsync(descriptor)  # slow, so before the comparison: between that and the replacement nothing may wait
        _compare(document, Path(target).read_bytes())


def _write_in_place(document: Document, target: str, data: bytes) -> None:
    descriptor = os.open(target, os.O_RDWR | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        now = file.read()
        if now == data:  # written already, under another of its names
            return
        _compare(document, now)
        _claim(descriptor, len(document.data), len(data))
        os.lseek(descriptor, 0, os.SEEK_SET)
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)


def _claim(descriptor: int, old: int, new: int) -> None:
    """Make sure of the disk space before anything is overwritten: a full disk must not cost the old text."""
    if new <= old or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, old, new - old)
    except OSError as error:
        if error.errno in _FULL:
            os.ftruncate(descriptor, old)
            raise


def _compare(document: Document, now: bytes) -> None:
    if now != document.data:
        raise WriteError(f"{document.filename}: changed while fixing, not written")


def _dress(descriptor: int, target: str, state: os.stat_result | None) -> None:
    """Give the new file the old one's owner, mode and attributes; without an old one, the mode of `open`."""
    if os.name == "nt":
        return
    if state is None:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(descriptor, 0o666 & ~mask)
        return
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, state.st_uid, state.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(state.st_mode))  # after fchown, which clears set-id bits
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a file system without attributes
            for name in os.listxattr(target):
                os.setxattr(descriptor, name, os.getxattr(target, name))


def _sync_directory(directory: str) -> None:
    """Make the replacement last through a power cut, where the file system can."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
