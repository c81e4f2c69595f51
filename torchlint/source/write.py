"""Puts a fixed text in the place of a file: all of it or nothing, and never over an edit made
meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from torchlint.base.errors import SourceError, WriteError
from torchlint.base.places import TEMPORARY_PREFIX, TEMPORARY_SUFFIX, is_temporary
from torchlint.source.document import Document, encode, read_bytes
from torchlint.source.former import former_content, half_written, place_for_former
from torchlint.source.paths import leads_out

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MOVED = (errno.ELOOP, errno.ENOTDIR)
_STALE = 3600
"""Seconds after which a temporary file is nobody's any more, where its process cannot be asked
for."""
_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _BINARY


@contextlib.contextmanager
def written(changes: Mapping[str, tuple[Document, str]]) -> Iterator[None]:
    """Replace the content of several files while something else is done that belongs to it: all of
    it, or nothing.

    What is not fit to be written is refused before the first file is; what an error or an
    interruption leaves half done, here or inside the ``with``, is put back. Against a kill, which
    nothing can answer, the former content of each of several files is kept until all are written:
    see `torchlint.source.former`.

    Args:
        changes: the files and their new texts, by a name of the caller's.

    Raises:
        WriteError: as `write` does; the message names the file.
    """
    for document, _ in changes.values():
        reason = refused(document)
        if reason:
            raise WriteError(f"{document.filename}: {reason}")
    several = len(changes) > 1
    begun: list[tuple[Document, str, _Former]] = []
    with contextlib.ExitStack() as stack:
        formers = [
            _former_of(document, stack) if several else _Former()
            for document, _ in changes.values()
        ]
        try:
            for (document, text), former in zip(changes.values(), formers, strict=True):
                begun.append((document, text, former))
                former.needed = True
                write(document, text, kept=several)
            yield
        except BaseException:
            for document, text, former in reversed(begun):
                former.needed = not _put_back(document, text, kept=several)
            raise
        for former in formers:
            former.needed = False


def _former_of(document: Document, stack: contextlib.ExitStack) -> _Former:
    """Keep what a file holds, until the stack is left, and longer where it is needed then.

    Raises:
        WriteError: it cannot be kept.
    """
    folder, name = os.path.split(document.path)
    try:
        held = stack.enter_context(_Folder(folder))
        return stack.enter_context(_backup(held, name, document.data))
    except OSError as error:
        reason = error.strerror or str(error)
        raise WriteError(f"{document.filename}: cannot be written: {reason}") from error


def _put_back(document: Document, text: str, *, kept: bool) -> bool:
    """Undo `write`, where it got as far as to change the file; say whether nothing is lost."""
    try:
        data = encode(document, text)
        if read_bytes(document.path, document.filename, 0) == data:
            write(replace(document, data=data), document.text, kept=kept)
    except SourceError:  # somebody else removed it since
        pass
    except WriteError:
        return False
    return True


def refused(document: Document) -> str:
    """Return why `write` would refuse a file as it lies there now, or an empty string."""
    if os.path.realpath(document.path) != document.path:
        return "moved while fixing, not written"
    try:
        state = os.stat(document.path)
        now = read_bytes(document.path, document.filename, 0)
    except (OSError, SourceError):
        return "moved while fixing, not written"
    if former := former_content(document.path):
        return half_written(former)
    if read_only(document.path, state):
        return "is read-only, not fixed"
    return "" if now == document.data else "changed while fixing, not written"


def read_only(path: str, state: os.stat_result) -> bool:
    """Say whether a file in a state may not be written. Root may write what is marked read-only;
    the mark means "don't" all the same."""
    marked = not state.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return marked or not os.access(path, os.W_OK)


def write(document: Document, new_text: str, *, kept: bool = False) -> None:
    """Replace the content of `document.path` by `new_text` in the document's encoding.

    A link is followed within the folder it lies in; mode and owner stay. The new bytes lie complete
    on the disk before they take the old ones' place. Only where that cannot keep what is there
    (several hard links, or a folder that takes no new files) is the file written in place;
    meanwhile its former content is kept, see `torchlint.source.former`; `kept` says that it is
    already.

    Raises:
        WriteError: the file changed since it was read, may not be written, or the disk refuses.
    """
    try:
        data = encode(document, new_text)
    except SourceError as error:
        raise WriteError(str(error)) from error
    if data == document.data:
        return
    if leads_out(document.path):
        raise WriteError(
            f"{document.filename}: is a link out of its folder, not written; name the file itself"
        )
    path = os.path.realpath(document.path)
    if not kept and (former := former_content(path)):
        raise WriteError(f"{document.filename}: {half_written(former)}")
    directory, name = os.path.split(path)
    try:
        with _Folder(directory) as folder:
            state = folder.state(name)
            # Root may write what is marked read-only; the mark means "don't" all the same.
            if not state.st_mode & (
                stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
            ) or not folder.may_write(name):
                raise WriteError(f"{document.filename}: is read-only, not fixed")
            if state.st_nlink > 1 or not os.access(directory, os.W_OK | os.X_OK):
                _write_in_place(document, folder, name, data, kept=kept)
            else:
                _replace(document, folder, name, data)
    except OSError as error:
        if error.errno in _MOVED:  # it was there when it was read
            raise WriteError(f"{document.filename}: moved while fixing, not written") from error
        reason = error.strerror or str(error)
        raise WriteError(f"{document.filename}: cannot be written: {reason}") from error


def remove_stale(directory: str) -> None:
    """Remove what killed runs left in `directory`: regular files of this user's; errors do not
    matter."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                with contextlib.suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    own = not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
                    if own and stat.S_ISREG(state.st_mode) and _is_abandoned(entry.name, state):
                        os.unlink(entry.path)


def _is_abandoned(name: str, state: os.stat_result) -> bool:
    """Say whether nobody writes a temporary file any more: its process has ended, or it is old."""
    machine, _, rest = name.removeprefix(TEMPORARY_PREFIX).partition("-")
    pid = rest.partition("-")[0]
    if machine and machine == _machine() and pid.isdecimal() and len(pid) < 10:
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
    return time.time() - state.st_mtime > _STALE


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return what tells this set of processes from those of other machines and containers, or an
    empty string."""
    import hashlib

    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        processes = os.readlink("/proc/self/ns/pid")
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(f"{boot}{processes}".encode()).hexdigest()[:12]


class _Folder:
    """A folder held open, so that nobody can put another one, or a link, in its place while a file
    is written.

    Args:
        path: the folder, absolute, links resolved.

    Raises:
        OSError: on entering; there is no such folder, or one of its parts is a link by now.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> _Folder:
        if (
            os.open in os.supports_dir_fd
            and os.rename in os.supports_dir_fd
            and hasattr(os, "O_NOFOLLOW")
        ):
            self._descriptor = self._opened()
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _opened(self) -> int:
        flags = os.O_DIRECTORY | os.O_NOFOLLOW
        if not hasattr(os, "O_PATH"):  # there each folder above would have to be readable
            return os.open(self.path, flags | os.O_RDONLY)
        flags |= os.O_PATH
        held = os.open(os.sep, flags)
        try:
            for part in filter(None, self.path.split(os.sep)):
                below = os.open(part, flags, dir_fd=held)
                os.close(held)
                held = below
        except BaseException:
            os.close(held)
            raise
        return held

    def _path_of(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self.path, name)

    def state(self, name: str) -> os.stat_result:
        """Return the state of a regular file.

        Raises:
            OSError: there is none: a link, say.
        """
        state = os.stat(self._path_of(name), dir_fd=self._descriptor, follow_symlinks=False)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.ELOOP, "not a regular file")
        return state

    def may_write(self, name: str) -> bool:
        return os.access(self._path_of(name), os.W_OK, dir_fd=self._descriptor)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file that is no link; a regular one, unless it is made."""
        descriptor = os.open(self._path_of(name), flags | _NO_LINK, mode, dir_fd=self._descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.ELOOP, "not a regular file")
        return descriptor

    def temporary(self) -> tuple[int, str]:
        """Make a new file; return a descriptor to write to, and its name, which tells whose it
        is."""
        owner = f"{_machine() or 0}-{os.getpid()}"
        name = f"{TEMPORARY_PREFIX}{owner}-{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
        return self.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL), name

    def replace(self, old: str, new: str) -> None:
        os.replace(
            self._path_of(old),
            self._path_of(new),
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
        )

    def link(self, old: str, new: str) -> None:
        """Give a file one more name, which nothing may have yet."""
        os.link(
            self._path_of(old),
            self._path_of(new),
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
        )

    def unlink(self, name: str) -> None:
        os.unlink(self._path_of(name), dir_fd=self._descriptor)

    def sync(self) -> None:
        """Make a replacement last through a power cut, where the file system can."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(os.curdir, os.O_RDONLY, dir_fd=self._descriptor)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def atomically(target: str, state: os.stat_result | None = None) -> Iterator[int]:
    """Give a descriptor to write to; on success what was written takes the place of `target`, else
    it is gone.

    Args:
        target: a file's path; its folder takes the temporary file.
        state: that of the file at `target`, whose mode, owner and attributes stay; None where there
            is no file.

    Raises:
        OSError: the folder or the disk refuses.
    """
    directory, name = os.path.split(target)
    with (
        _Folder(os.path.realpath(directory or os.curdir)) as folder,
        _replacing(folder, name, state) as descriptor,
    ):
        yield descriptor


@contextlib.contextmanager
def _replacing(folder: _Folder, name: str, state: os.stat_result | None) -> Iterator[int]:
    descriptor, temporary = folder.temporary()
    try:
        try:
            _dress(descriptor, folder, name, state)
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        folder.replace(temporary, name)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.unlink(temporary)
        raise
    folder.sync()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`; `os.write` may take only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _replace(document: Document, folder: _Folder, name: str, data: bytes) -> None:
    with _replacing(folder, name, folder.state(name)) as descriptor:
        write_all(descriptor, data)
        os.fsync(
            descriptor
        )  # slow, so before the comparison: between that and the replacement nothing may wait
        with os.fdopen(folder.open(name, os.O_RDONLY), "rb") as old:
            _compare(document, old.read())


def _write_in_place(
    document: Document, folder: _Folder, name: str, data: bytes, *, kept: bool
) -> None:
    descriptor = folder.open(name, os.O_RDWR)
    with os.fdopen(descriptor, "r+b", buffering=0):
        now = _content(descriptor)
        if now == data:  # written already, under another of its names
            return
        _compare(document, now)
        keeping = contextlib.nullcontext(_Former()) if kept else _backup(folder, name, now)
        with keeping as former:
            _compare(document, _content(descriptor))  # to keep it was slow
            _claim(descriptor, len(now), len(data))
            former.needed = True
            try:
                _overwrite(descriptor, data)
            except BaseException:
                _overwrite(descriptor, now)
                former.needed = False
                raise
            former.needed = False


def _content(descriptor: int) -> bytes:
    """Return all of an open file's bytes."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read()


def _overwrite(descriptor: int, data: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    write_all(descriptor, data)
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


@dataclass(slots=True)
class _Former:
    """What a file held; it stays where it is kept while that is `needed`."""

    needed: bool = False


@contextlib.contextmanager
def _backup(folder: _Folder, name: str, data: bytes) -> Iterator[_Former]:
    """Keep the content of a file in a file of its own, complete and on the disk, until it is not
    needed any more.

    Raises:
        OSError: it cannot be kept.
    """
    directory, kept = os.path.split(place_for_former(os.path.join(folder.path, name)))
    former = _Former()
    with _Folder(directory) as keeping:
        descriptor, temporary = keeping.temporary()
        try:
            try:
                _dress(descriptor, folder, name, folder.state(name))
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            keeping.link(temporary, kept)  # not a renaming: what lies there must not go
        finally:
            keeping.unlink(temporary)
        keeping.sync()
        try:
            yield former
        finally:
            if not former.needed:
                keeping.unlink(kept)


def _claim(descriptor: int, old: int, new: int) -> None:
    """Make sure of the disk space before anything is overwritten: a full disk must not cost the old
    text."""
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


def _dress(descriptor: int, folder: _Folder, name: str, state: os.stat_result | None) -> None:
    """Give the new file the old one's owner, mode and attributes; without an old one, the mode of
    `open`."""
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
        with contextlib.suppress(OSError), os.fdopen(folder.open(name, os.O_RDONLY), "rb") as old:
            for attribute in os.listxattr(old.fileno()):  # not every file system has them
                os.setxattr(descriptor, attribute, os.getxattr(old.fileno(), attribute))
