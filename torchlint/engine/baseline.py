"""Baselines: the findings that a project had on the day it met torchlint, and that are not reported
since.

A baseline is a JSON file with one entry a line: path, code, the content of the statement and how
often it is found there. It holds no line numbers, so that an edit elsewhere in a file changes
nothing in it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field

from torchlint.base.errors import ConfigError, SourceError, TooLargeError, WriteError
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.source.document import Document, read_bytes, reason_of

FORMAT = 1
"""The version of the file format that this torchlint reads and writes."""
_LARGEST = 256_000_000
_SPACE = regex(r"[ \t\r\n]*")
_HEAD = regex(r'\s*\{\s*"baseline-format"\s*:\s*(?P<format>\d{1,9})\s*,\s*"entries"\s*:\s*\[')
_TAIL = regex(r"\]\s*\}\s*")
_MARKER = regex(r"^(?:<{7}|\|{7}|={7}|>{7})(?: .*)?\r?$", re.MULTILINE)
_CODE = regex(r"[A-Za-z0-9_-]{1,40}")
_CONTENT = regex(r"[0-9a-f]{16}")

Key = str
"""A code and the content of a statement, see `key`."""
Entries = Mapping[str, Mapping[Key, int]]
"""Posix path → what is found in that file → how often."""


@frozen
class Baseline:
    """What a file holds, and its bytes: None where there is no file yet.

    Args:
        path: the file, absolute.
        shown: what to call it in messages.
        entries: may not be changed.
        data: the bytes as read.
    """

    path: str
    shown: str
    entries: Entries = field(default_factory=dict)
    data: bytes | None = None


def key(code: str, content: str) -> Key:
    """Return the key of a finding in `Entries`."""
    return f"{code} {content}"


def read_baseline(path: str, shown: str, *, may_be_new: bool = False) -> Baseline:
    """Read a baseline.

    Args:
        path: the file, absolute.
        shown: what to call it in messages.
        may_be_new: whether a file that does not exist stands for an empty baseline.

    Raises:
        ConfigError: there is no such file, it cannot be read, or is no baseline that this torchlint
            knows.
    """
    if not os.path.lexists(path):
        if may_be_new:
            return Baseline(path, shown)
        raise ConfigError(f"baseline {shown}: there is no such file; --write-baseline makes one")
    try:
        data = read_bytes(path, shown, _LARGEST)
    except TooLargeError:
        raise ConfigError(f"baseline {shown}: is larger than {_LARGEST} bytes") from None
    except SourceError as error:
        raise ConfigError(f"baseline {error}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"baseline {shown}: is not UTF-8 (byte {error.start})") from None
    found: dict[str, dict[Key, int]] = {}
    for place, name, count in _parsed(text, shown):
        counts = found.setdefault(place, {})
        counts[name] = max(count, counts.get(name, 0))  # twice after a merge: it shall not grow
    return Baseline(path, shown, found, data)


def _parsed(text: str, shown: str) -> Iterator[tuple[str, Key, int]]:
    """Yield the entries one by one: a million of them as one JSON value would take half a
    gigabyte."""
    head = _HEAD.match(text)
    if head is None:
        raise _broken(text, 0, shown, "it does not start as a baseline does")
    if int(head["format"]) != FORMAT:
        words = (
            f"has format {head['format']}, and this torchlint knows {FORMAT} only; "
            "--write-baseline cannot update it"
        )
        raise ConfigError(f"baseline {shown}: {words}, remove it first")
    decode = json.JSONDecoder().raw_decode
    at = _skip(text, head.end())
    while text[at : at + 1] != "]":
        try:
            value, end = decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _broken(
                text, getattr(error, "pos", at), shown, getattr(error, "msg", "not usable JSON")
            ) from None
        if value != []:
            entry = _entry(value)
            if entry is None:
                raise _broken(text, at, shown, "not an entry")
            yield entry
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            raise _broken(text, at, shown, "an entry without a comma behind it")
    if _TAIL.fullmatch(text, at) is None:
        raise _broken(text, at, shown, "it does not end as a baseline does")


def _entry(value: object) -> tuple[str, Key, int] | None:
    match value:
        case [str(path), str(code), str(content), int(count)] if (
            path and count > 0 and count is not True
        ):
            if _CODE.fullmatch(code) and _CONTENT.fullmatch(content):
                return path, key(code, content), count
    return None


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _broken(text: str, at: int, shown: str, words: str) -> ConfigError:
    marker = _MARKER.search(text)
    if marker is not None:
        at, words = marker.start(), "a merge conflict is not resolved"
    return ConfigError(f"baseline {shown}:{text.count(chr(10), 0, at) + 1}: not usable: {words}")


def rendered(entries: Entries) -> str:
    """Return the text of a baseline, the same for the same entries.

    The empty list at the end lets the line of each entry end with a comma, so that two branches
    that add entries merge.
    """
    parts = [f'{{\n"baseline-format": {FORMAT},\n"entries": [\n']
    for place, counts in sorted(entries.items()):
        names = (name for name in sorted(counts) if counts[name] > 0)
        parts.append(
            "".join(f"{json.dumps([place, *name.split(' '), counts[name]])},\n" for name in names)
        )
    return "".join((*parts, "[]\n]\n}\n"))


def write_baseline(baseline: Baseline, entries: Entries) -> bool:
    """Put entries in the place of those of a baseline, all or nothing; return whether the file had
    to change.

    Raises:
        WriteError: it changed since it was read, or cannot be written.
    """
    from torchlint.source.write import atomically, write, write_all

    text = rendered(entries)
    if baseline.data is not None:
        mark = b"\xef\xbb\xbf"
        document = Document(
            f"baseline {baseline.shown}",
            baseline.path,
            "",
            "utf-8",
            baseline.data.startswith(mark),
            baseline.data,
        )
        write(document, text)
        return baseline.data.removeprefix(mark) != text.encode()
    try:
        with atomically(os.path.realpath(baseline.path)) as descriptor:
            write_all(descriptor, text.encode())
    except OSError as error:
        raise WriteError(
            f"baseline {baseline.shown}: cannot be written: {reason_of(error)}"
        ) from error
    return True


class Holding:
    """One run's use of a baseline: finding by finding, what it holds back, and what it has left.

    Args:
        baseline: what to hold back.
        base: the folder that the paths of entries start from, absolute, links resolved.
    """

    def __init__(self, baseline: Baseline, base: str) -> None:
        self.baseline = baseline
        self.base = base
        self.held = 0
        self.found: dict[str, Counter[Key]] = {}
        self.looked: set[str] = set()
        self._left: dict[str, dict[Key, int]] = {}
        self._moved: dict[Key, list[str]] | None = None

    def holds(self, place: str, name: Key) -> bool:
        """Say whether a finding is held back, and count it. Call it for each finding of a file, in
        order.

        Args:
            place: the file's posix path under `base`.
            name: the finding's key.
        """
        self.found.setdefault(place, Counter())[name] += 1
        held = self._spent(place, name) or any(
            self._spent(other, name) for other in self._orphans(name)
        )
        self.held += held
        return held

    def left(self, place: str) -> Mapping[Key, int]:
        """Return what the baseline expects of a file and was not found."""
        return self._left.get(place, self.baseline.entries.get(place, {}))

    def _spent(self, place: str, name: Key) -> bool:
        if not self.left(place).get(name):
            return False
        self._left.setdefault(place, dict(self.baseline.entries[place]))[name] -= 1
        return True

    def _orphans(self, name: Key) -> list[str]:
        """Return the files that are gone and had such a finding: this may be one of them under its
        new name."""
        if self._moved is None:
            self._moved = {}
            for place, counts in self.baseline.entries.items():
                path = os.path.join(self.base, place)
                self.looked.add(path)
                if not os.path.lexists(path):
                    for other in counts:
                        self._moved.setdefault(other, []).append(place)
        return self._moved.get(name, [])
