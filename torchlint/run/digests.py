"""What files hold, as digests; known from their state where that tells enough, else by reading
them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping

from torchlint.base.errors import SourceError
from torchlint.source.document import read_bytes

LARGEST = 64_000_000
"""Bytes of the largest file whose content is told apart; what is larger counts as unreadable."""
UNREADABLE = ""
"""The digest of what cannot be read."""

State = tuple[int, int, int, int]
"""Times of the last change of content and of status in nanoseconds, size in bytes, and number of a
file."""
Cached = Mapping[str, tuple[State, str]]
"""By path: a state in which the file held the content of a digest."""


def digest(data: bytes) -> str:
    """Return the digest of a content: SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_of(path: str) -> str:
    """Return the digest of what a file holds now; `UNREADABLE` where there is no such file."""
    try:
        return digest(read_bytes(path, path, LARGEST))
    except SourceError:
        return UNREADABLE


def state_of(found: os.stat_result) -> State:
    """Return the part of a file's state that changes with its content."""
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


class Contents:
    """The digests of files during one run; each file is looked at once.

    Args:
        cached: digests of earlier runs; empty where every file shall be read.
        is_settled: whether a file in a state cannot change any more without its state telling.
    """

    def __init__(self, cached: Cached, is_settled: Callable[[os.stat_result], bool]) -> None:
        self._cached = cached
        self._is_settled = is_settled
        self._digests: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    def digest(self, path: str) -> str:
        """Return the digest of a file; `UNREADABLE` where it cannot be read or does not exist."""
        found = self._digests.get(path)
        if found is None:
            found = self._digests[path] = self._looked(path)
        return found

    def _looked(self, path: str) -> str:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return UNREADABLE
        self.sizes[path] = found.st_size
        state, content = self._cached.get(path, (None, ""))
        return content if state == state_of(found) else digest_of(path)

    def note(self, path: str, content: str) -> None:
        """Take note of the digest of a file that was read elsewhere in this run."""
        self._digests.setdefault(path, content)

    def settled(self) -> dict[str, tuple[State, str]]:
        """Return what is cached for the next run to go by, of the files that were looked at in this
        one."""
        settled: dict[str, tuple[State, str]] = {}
        for path, content in self._digests.items():
            try:
                found = os.stat(path)
            except (OSError, ValueError):
                continue
            # The state is taken last: it is older than the run, so nothing happened to the file in
            # between.
            if content and self._is_settled(found):
                settled[path] = (state_of(found), content)
        return settled
