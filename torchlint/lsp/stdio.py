"""Messages over standard input and output: ``Content-Length: N``, a blank line, and N bytes of
JSON.

Nothing that arrives ends the server: what is no header is passed over, and what is no JSON is
refused. The streams are taken away from descriptors 0 and 1 first, so that nothing else reads or
writes between messages.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator

LARGEST = 256_000_000
"""Bytes of the largest message; of a larger one nothing is kept."""
_LENGTH = re.compile(rb"content-length\s*:\s*(\d{1,18})\s*\Z", re.IGNORECASE)
_CHUNK = 1 << 16
_LONGEST_LINE = 8192
"""Bytes of the longest header; what goes on longer is none."""


def taken() -> tuple[int, int]:
    """Return private descriptors for what standard input and output were; these now lead to nothing
    and to the log."""
    reader, writer = os.dup(0), os.dup(1)
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (reader, writer):
            msvcrt.setmode(descriptor, os.O_BINARY)
    return reader, writer


class Writer:
    """Writes messages; where nobody reads any more, `gone` is called, and the rest is dropped."""

    def __init__(self, descriptor: int, gone: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._gone = gone

    def write(self, data: bytes) -> None:
        """Write all of a message."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            self._gone()

    def close(self) -> None:
        """Do nothing: the process ends soon after."""


def bodies(descriptor: int) -> Iterator[bytes | None]:
    """Yield the body of each message until the input ends; None for one that is too large."""
    source = _Source(descriptor)
    length: int | None = None
    while True:
        line = source.line()
        if line is None:
            return
        found = _LENGTH.match(line.strip())
        if found:
            length = int(found[1])
        elif not line.strip() and length is not None:
            if length > LARGEST:
                if not source.skip(length):
                    return
                yield None
            else:
                body = source.read(length)
                if body is None:
                    return
                yield body
            length = None


class _Source:
    """Bytes of a descriptor with a memory of its own: no lock of Python's is held while it
    waits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()

    def _more(self) -> bool:
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except OSError:
            return False
        self._kept += chunk
        return bool(chunk)

    def line(self) -> bytes | None:
        """Return what comes up to the next newline, or None at the end; of a very long line only
        its end."""
        while (end := self._kept.find(b"\n")) < 0:
            if len(self._kept) > _LONGEST_LINE:
                del self._kept[:-_LONGEST_LINE]
            if not self._more():
                return None
        line = bytes(self._kept[:end])
        del self._kept[: end + 1]
        return line

    def read(self, count: int) -> bytes | None:
        """Return so many bytes, or None where the input ends before."""
        while len(self._kept) < count:
            if not self._more():
                return None
        data = bytes(self._kept[:count])
        del self._kept[:count]
        return data

    def skip(self, count: int) -> bool:
        """Pass over so many bytes; say whether there were that many."""
        while len(self._kept) < count:
            count -= len(self._kept)
            self._kept.clear()
            if not self._more():
                return False
        del self._kept[:count]
        return True


def listen(
    descriptor: int, heard: Callable[[bytes | None], object], ended: Callable[[], object]
) -> None:
    """Read in a thread of its own, which does not keep the process alive; `heard` and `ended` are
    called there."""

    def run() -> None:
        try:
            for body in bodies(descriptor):
                heard(body)
            ended()
        except RuntimeError:  # the loop that they speak to is closed already
            return

    threading.Thread(target=run, name="torchlint-stdin", daemon=True).start()
