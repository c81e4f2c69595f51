"""Reads the JSON that PyTorch's profiler writes, in pieces: neither the text nor its objects are
ever all in memory.

A piece ends between two events. One that is not JSON (Kineto writes NaN, control characters and
quotes as they come, pytorch#130622) is read event by event, and only the bad ones are lost.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from torchlint.base.errors import TraceError
from torchlint.trace.columns import Trace
from torchlint.trace.tables import EVENT, EVENTS, UNREADABLE, Event, Tables, converted

_PIECE = 1 << 21
"""Bytes of a piece."""
_LONGEST = 1 << 25
"""Bytes of text that end nowhere, or of what stands beside the events: more is not kept."""
_NEXT = re.compile(r'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts)")')
_OPEN = re.compile(rb'"traceEvents"\s*:\s*\[')
_LAST = re.compile(r"\}\s*\]")
_SPACE = re.compile(r"[\s,]*")
_LENIENT = json.JSONDecoder(strict=False)
"""Takes NaN, Infinity and control characters."""
_EARLIER = 3
"""How many earlier ends of a piece are tried before it is read event by event."""
_WHAT = (
    (b"version https://git-lfs", "a Git LFS pointer; 'git lfs pull' fetches the trace itself"),
    (b"<", "HTML or XML, not a trace"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first"),
    (b"\x80", "a pickle, not a trace"),
    (b"\xff\xfe", "UTF-16; traces are UTF-8"),
)
"""How files begin that people take for traces, and what they are."""


def read(path: str) -> Trace:
    """Read a trace, ``.json`` or gzip, whatever it is called.

    Raises:
        TraceError: it cannot be read, or is no trace; the message says what it is.
    """
    try:
        with Path(path).open("rb") as file:
            return _Reader(path).read(file)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error


def unpacked(file: BinaryIO, tell: Callable[[str], None] = lambda words: None) -> Iterator[bytes]:
    """Yield a file's text in pieces; of gzip that is cut off or damaged what comes before.

    Args:
        file: a trace, gzip or not.
        tell: is told why the text ends before its end.
    """
    first = file.read(_PIECE)
    if first[:2] != b"\x1f\x8b":
        while first:
            yield first
            first = file.read(_PIECE)
        return
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
    data = first
    while data:
        before = unpack.copy()
        try:
            text = unpack.decompress(data, _PIECE)
        except zlib.error:
            tell("the compressed data is damaged")
            yield _sound(before, data)
            return
        if text:
            yield text
        data = unpack.unconsumed_tail
        if unpack.eof:  # several members, one behind the other, are one file
            data = unpack.unused_data or file.read(_PIECE)
            if not data.startswith(b"\x1f\x8b"):
                return
            unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif not data:
            data = file.read(_PIECE)
    tell("the compressed data is cut off")


class _Reader:
    """One file on its way to columns."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.tables = Tables()
        self.cut_off = ""
        self.lost = 0
        self.repaired = 0

    def read(self, file: BinaryIO) -> Trace:
        pieces = unpacked(file, self._ends)
        buffer = next(pieces, b"")
        begun = buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
        if not begun:
            raise TraceError(f"{self.path}: is empty")
        for start, words in _WHAT:
            if begun.startswith(start):
                raise TraceError(f"{self.path}: is {words}")
        head, buffer = self._head(begun, pieces)
        rest = self._events(buffer, pieces)
        meta = {**_beside(head.rstrip().rstrip(b",")), **_beside(b"{" + rest.lstrip(b", \r\n\t"))}
        return self.tables.trace(
            self.path, meta, lost=self.lost, repaired=self.repaired, cut_off=self.cut_off
        )

    def _ends(self, why: str) -> None:
        self.cut_off = why

    def _head(self, buffer: bytes, pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
        """Return what stands before the events, and the text from the first of them on."""
        if buffer.startswith(b"["):
            return b"", buffer[1:]
        if not buffer.startswith(b"{"):
            raise TraceError(f"{self.path}: is not JSON")
        while (found := _OPEN.search(buffer)) is None:
            more = next(pieces, b"")
            if not more or len(buffer) > _LONGEST:
                raise TraceError(f"{self.path}: is JSON without traceEvents, not a trace")
            buffer += more
        return buffer[: found.start()], buffer[found.end() :]

    def _events(self, buffer: bytes, pieces: Iterator[bytes]) -> bytes:
        """Take up all events; return what stands behind them, as far as it is kept."""
        ended = False
        for more in pieces:
            if not ended:
                taken, ended = self._piece(buffer) if len(buffer) >= _PIECE else (0, False)
                buffer = buffer[taken:]
            buffer += more
            if len(buffer) > _LONGEST:  # text without an end, or a whole file behind the events
                self.lost += not ended
                buffer = buffer[:_LONGEST] if ended else buffer[-_PIECE:]
        while not ended:
            taken, ended = self._piece(buffer)
            buffer = buffer[taken:]
            if not taken:
                break
        if not ended:
            taken, ended = self._salvage(buffer, final=True)
            buffer = buffer[taken:]
        if not ended:
            self.cut_off = self.cut_off or "the file ends before its events do"
        return buffer if ended else b""

    def _piece(self, buffer: bytes) -> tuple[int, bool]:
        """Take up whole events; return how many bytes they are, and whether the events end
        there."""
        cut = len(buffer)
        for _ in range(1 + _EARLIER):
            cut, begin = _last_cut(buffer, cut)
            if not cut:
                return 0, False
            try:
                events = EVENTS.decode(b"[" + buffer[:cut] + b"]")
            except UNREADABLE:  # cut inside of an event, or one of them is no JSON
                continue
            self.lost += self.tables.add(events)
            return begin, False
        return self._salvage(buffer, final=False)

    def _salvage(self, buffer: bytes, *, final: bool) -> tuple[int, bool]:
        """Take up events one by one, where some are bad; for what is returned see `_piece`."""
        text = buffer.decode("utf-8", "surrogateescape")
        events: list[Event] = []
        at, ended = 0, False
        while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
            if text[at] == "]":
                at, ended = at + 1, True
                break
            try:
                _, end = _LENIENT.raw_decode(text, at)
            except (ValueError, RecursionError):
                following = _NEXT.search(text, at)
                if following is None:
                    at, ended = self._broken_end(text, at, final=final)
                    break
                end = following.end()
                self.lost += 1
            else:
                events += self._event(text[at:end])
            at = end
        self.lost += self.tables.add(events)
        return len(text[:at].encode("utf-8", "surrogateescape")), ended

    def _broken_end(self, text: str, at: int, *, final: bool) -> tuple[int, bool]:
        """Return where to go on when the text cannot be read and no event follows: it is cut, or
        the last event is bad."""
        if not final:
            return at, False
        closed = _LAST.search(text, at)
        if closed is None:
            return len(text), False
        self.lost += 1
        return closed.end(), True

    def _event(self, text: str) -> list[Event]:
        """Return one event, in a list that is empty where it cannot be used."""
        data = text.encode("utf-8", "surrogateescape")
        try:
            return [EVENT.decode(data)]
        except UNREADABLE:
            pass
        try:
            found = converted(_LENIENT.decode(data.decode("utf-8", "replace")))
        except UNREADABLE:
            self.lost += 1
            return []
        self.repaired += 1
        return [found]


def _sound(unpack: Any, data: bytes) -> bytes:
    """Return what compressed data holds before its first fault."""
    found = b""
    with suppress(zlib.error):
        for at in range(0, len(data), 64):
            found += unpack.decompress(data[at : at + 64])
    return found


def _last_cut(buffer: bytes, before: int) -> tuple[int, int]:
    """Return where the last event but one ends, and where the last one begins; 0, 0 where there is
    one alone."""
    at = before
    while (at := buffer.rfind(b"{", 0, at)) > 0:
        head = buffer[max(0, at - 64) : at].rstrip()
        if head.endswith(b",") and head[:-1].rstrip().endswith(b"}"):
            closing = buffer.rindex(b"}", 0, at)
            return closing + 1, at
    return 0, 0


def _beside(text: bytes) -> dict[str, Any]:
    """Return what stands before or behind the events; empty where that cannot be read."""
    words = text.decode("utf-8", "replace")
    for whole in (words + "}", words):
        with suppress(ValueError, RecursionError):
            found = _LENIENT.decode(whole)
            return found if isinstance(found, dict) else {}
    return {}
