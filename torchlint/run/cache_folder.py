"""The folder that holds the cache, and how its files are read and written.

It can lie in a project of strangers and be shared by many processes, so nothing in it is trusted:
every file carries a checksum and the folder's identity, is JSON, is read without following links,
and takes the old one's place in one step. Whatever is wrong with it is a miss. Little is imported:
a run that finds nothing changed starts here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from typing import Any

from torchlint.base.places import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from torchlint.base.regex import regex

FORMAT = "torchlint-cache-3"
"""The first word of every file; another one is a file of another version."""
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds the cache of torchlint.\n"
"""What ``CACHEDIR.TAG`` holds (https://bford.info/cachedir/), so that backups leave the folder
out."""
LARGEST = 256_000_000
"""Bytes of the largest file that is read or written."""
_MOST = 16
"""How many files of each kind stay; the oldest go."""
_STALE = 3600.0
"""Seconds after which a temporary file is nobody's any more."""
_COARSE = 2_000_000_000
_ELSEWHERE = 100_000_000
_OURS = regex(r"(?:results|run)-[0-9a-f]{32}\.json|CACHEDIR\.TAG|\.gitignore|\.torchlint-.*\.tmp")


def on_ci() -> bool:
    """Say whether this is a build (``CI=true``): there the times of files mean little, so that
    every file is read."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


class CacheFolder:
    """One folder of the cache; made by `open_folder`.

    Args:
        path: the folder, absolute.
        identity: what its files must carry; empty where a file may come from anywhere.
        started: the time of the file system, in nanoseconds, at which the run began.
        device: the file system.

    `trouble` says what was wrong with a file of the folder, in words for the user; empty where
    nothing was.
    """

    __slots__ = ("_device", "identity", "path", "started", "trouble")

    def __init__(self, path: str, identity: str = "", started: int = 0, device: int = -1) -> None:
        self.path = path
        self.identity = identity
        self.started = started
        self.trouble = ""
        self._device = device

    def settled(self, state: os.stat_result) -> bool:
        """Say whether a file in this state was not touched since the run began, and cannot change
        unseen from now on.

        Git's rule: what is as young as the record of it could change once more within the same tick
        of the clock. Only the time of the last change of status counts, as any program can set the
        other one.
        """
        if sys.platform == "win32":  # there it is the time of creation
            return False
        changed = state.st_ctime_ns
        if changed % 1_000_000_000 == 0:
            return changed < self.started - _COARSE
        return changed < self.started - (0 if state.st_dev == self._device else _ELSEWHERE)

    def long_settled(self, path: str) -> bool:
        """Say whether a file was not touched for some time before the run began.

        Raises:
            OSError: there is no such file.
        """
        return os.stat(path).st_ctime_ns < self.started - _COARSE

    def read(self, name: str) -> dict[str, Any] | None:
        """Return what `write` put under a name, or None where there is nothing that can be used."""
        try:
            return self._read(os.path.join(self.path, name))
        except FileNotFoundError:
            return None
        except (OSError, TypeError, ValueError, RecursionError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is damaged"
            self.trouble = self.trouble or f"{os.path.join(self.path, name)}: not used: {words}"
            return None

    def _read(self, path: str) -> dict[str, Any] | None:
        flags = (
            os.O_RDONLY
            | getattr(os, "O_NOFOLLOW", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0)
        )
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as stream:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or not owned(state) or state.st_size > LARGEST:
                raise ValueError("not a file of ours")
            head, _, body = stream.read().partition(b"\n")
        word, identity, checksum = head.decode("ascii").split(" ")
        if word != FORMAT or checksum != hashlib.sha256(body).hexdigest():
            raise ValueError("damaged, or of another version")
        if self.identity and identity != self.identity:
            return None  # A copy of a cache is no news, but not to be trusted either.
        found = json.loads(body)
        if not isinstance(found, dict):
            raise TypeError("no object")
        return found

    def write(self, name: str, value: dict[str, Any]) -> bool:
        """Put a JSON object under a name, in one step; return whether that was possible."""
        body = json.dumps(value, separators=(",", ":")).encode("ascii")
        head = f"{FORMAT} {self.identity or '-'} {hashlib.sha256(body).hexdigest()}\n".encode(
            "ascii"
        )
        if len(body) > LARGEST:
            return False
        try:
            descriptor, temporary = _temporary(self.path)
        except OSError:
            return False
        try:
            # Not synced to the disk: what a power cut tears, the checksum shows.
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(head + body)
            os.replace(temporary, os.path.join(self.path, name))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return False
        self._tidy()
        return True

    def _tidy(self) -> None:
        """Remove what is too much of a kind, and what killed runs left."""
        found: dict[str, list[tuple[float, str]]] = {}
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if _OURS.fullmatch(entry.name):
                    with contextlib.suppress(OSError):
                        changed = entry.stat(follow_symlinks=False).st_mtime
                        found.setdefault(entry.name.partition("-")[0], []).append(
                            (changed, entry.path)
                        )
        surplus = [
            path for kind in ("results", "run") for _, path in sorted(found.get(kind, ()))[:-_MOST]
        ]
        stale = [
            path
            for changed, path in found.get(TEMPORARY_PREFIX[:-1], ())
            if time.time() - changed > _STALE
        ]
        for path in (*surplus, *stale):
            with contextlib.suppress(OSError):
                os.unlink(path)


def owned(state: os.stat_result) -> bool:
    """Say whether a file is the user's own, as far as the system knows owners."""
    return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()


def identity_of(state: os.stat_result) -> str:
    """Return what ties the files of a cache to their folder.

    A cache that came with a repository says what its author likes, but cannot know the number of
    the folder here.
    """
    return f"{state.st_ino:x}"


def open_folder(path: str, *, named: bool) -> CacheFolder | str:
    """Return a cache folder, made where it is missing; or why it cannot be used, an empty string
    where that is usual.

    Args:
        path: the folder, absolute.
        named: whether the user named it in the command: then it may be a link, and may have come
            from elsewhere.
    """
    path = os.path.realpath(path) if named else path
    try:
        with contextlib.suppress(FileExistsError):
            # Never more than one new folder for a project that is gone.
            os.makedirs(path) if named else os.mkdir(path)
        reason = why_not(path)
        if reason:
            return f"{path}: not used as a cache: {reason}"
        state = os.lstat(path)
        for name, data in ((".gitignore", b"*\n"), ("CACHEDIR.TAG", TAG)):
            _make(os.path.join(path, name), data)
        started = _time_of_files(path, state)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        return f"{path}: not used as a cache: {words}" if named else ""
    return CacheFolder(path, "" if named else identity_of(state), started, state.st_dev)


def why_not(path: str) -> str:
    """Return why an existing path is no cache folder of this user's, or an empty string.

    Raises:
        OSError: it cannot be read.
    """
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        return "it is a link"
    if not stat.S_ISDIR(state.st_mode):
        return "it is not a folder"
    if not owned(state):
        return "it belongs to somebody else"
    names = os.listdir(path)
    if not all(map(_OURS.fullmatch, names)) and not is_tagged(path):
        return "it holds other files"
    return ""


def remove(path: str) -> str | None:
    """Remove a cache folder with all that is ours in it.

    Returns:
        Why it was left, an empty string where it is gone now, None where there was none.

    Raises:
        OSError: the system refuses.
    """
    if not os.path.lexists(path):
        return None
    reason = why_not(path)
    if reason:
        return reason
    for name in os.listdir(path):
        if _OURS.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(path, name))
    if os.listdir(path):
        return "it holds other files"
    os.rmdir(path)
    return ""


def is_tagged(path: str) -> bool:
    """Say whether a folder is marked as a cache of torchlint."""
    tag = os.path.join(path, "CACHEDIR.TAG")
    try:
        if not stat.S_ISREG(os.lstat(tag).st_mode):
            return False
        descriptor = os.open(
            tag, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        )
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(len(TAG) + 1) == TAG


def _make(path: str, data: bytes) -> None:
    """Make a file that does not exist yet."""
    if os.path.lexists(path):
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, flags, 0o644)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)


def _temporary(path: str) -> tuple[int, str]:
    """Make a new file in a folder; return a descriptor to write to, and its path. (`tempfile` takes
    5 ms to import.)"""
    name = os.path.join(path, f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
    return os.open(
        name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
    ), name


def _time_of_files(path: str, state: os.stat_result) -> int:
    """Return the time of the file system by a file made there, at least a tick after the folder's
    own last change.

    Making the folder touched the one above, which is then settled from the first run on.
    """
    young = state.st_ctime_ns

    for _ in range(20):
        descriptor, temporary = _temporary(path)
        try:
            now = os.fstat(descriptor).st_ctime_ns
        finally:
            os.close(descriptor)
            os.unlink(temporary)
        if now > young:
            return now
        time.sleep(0.002)
    return now
