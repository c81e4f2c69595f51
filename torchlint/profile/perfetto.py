"""A trace with what was found in it as tracks of their own, for ui.perfetto.dev and
chrome://tracing.

The trace's own bytes stay as they are; events are added at the start of its list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import numpy as np

from torchlint.base.errors import TraceError
from torchlint.base.finding import Finding
from torchlint.base.records import frozen
from torchlint.profile.lines import Lines, about
from torchlint.profile.output.source import place
from torchlint.trace.columns import Columns
from torchlint.trace.intervals import union
from torchlint.trace.stream import unpacked

PROCESS = 2**31 - 1
"""The number of the process that the tracks belong to: none of a machine."""
_LONGEST = 1 << 25
"""Bytes before the list of events begins, at most."""
_OPEN = re.compile(rb'^[\s\xef\xbb\xbf]*\[|"traceEvents"\s*:\s*\[')


@frozen
class Track:
    """A row of the drawing: what it is called, the (start, duration) of what is on it in
    nanoseconds of the trace, and what it says when one is chosen."""

    name: str
    slices: tuple[tuple[int, int], ...]
    says: Mapping[str, str] = field(default_factory=dict)


def exported(path: str, tracks: Iterable[Track]) -> Iterator[bytes]:
    """Yield a trace with these tracks above its own, in pieces.

    Args:
        path: the trace, ``.json`` or gzip.
        tracks: what is added.

    Raises:
        TraceError: it cannot be read, or has no list of events.
    """
    added = ",\n".join(_events(tracks)).encode()
    pieces = _read(path)
    head = b""
    for piece in pieces:
        head += piece
        found = _OPEN.search(head)
        if found is not None:
            break
        if len(head) > _LONGEST:
            break
    else:
        found = _OPEN.search(head)
    if found is None:
        raise TraceError(f"{path}: has no list of events")
    rest = head[found.end() :]
    comma = b"" if rest.lstrip()[:1] == b"]" else b",\n"
    yield head[: found.end()] + b"\n" + added + comma
    yield rest
    yield from pieces


def _events(tracks: Iterable[Track]) -> Iterator[str]:
    yield _named("process_name", 0, name="torchlint")
    yield _named("process_sort_index", 0, sort_index=-1)
    for number, track in enumerate(tracks, 1):
        yield _named("thread_name", number, name=track.name)
        yield _named("thread_sort_index", number, sort_index=number)
        about = {"ph": "X", "pid": PROCESS, "tid": number, "cat": "torchlint", "name": track.name}
        words = json.dumps({**about, "args": dict(track.says)})[:-1]
        for start, time in track.slices:
            yield f'{words}, "ts": {_microseconds(start)}, "dur": {_microseconds(time)}}}'


def _named(what: str, number: int, **says: str | int) -> str:
    return json.dumps({"ph": "M", "pid": PROCESS, "tid": number, "name": what, "args": says})


def _microseconds(nanoseconds: int) -> str:
    """Return a time as traces write it; a float would lose digits of one since the epoch."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def of_findings(lines: Lines, columns: Columns, findings: Iterable[Finding]) -> Iterator[Track]:
    """Yield a track for each finding whose line ran.

    Args:
        lines: what each place cost.
        columns: of the trace that they are of.
        findings: what the linter says of the program.
    """
    for finding in findings:
        at = [number for number, cost in enumerate(lines.each) if about(finding, cost.site)]
        if at:
            name = f"{finding.code} {finding.filename}:{finding.start.row}"
            yield Track(name, _slices(lines, columns, at), {"message": finding.message})


def of_places(lines: Lines, columns: Columns, top: int) -> Iterator[Track]:
    """Yield a track for each of the `top` most costly places."""
    for number, cost in enumerate(lines.each[:top]):
        if cost.calls:
            yield Track(place(cost.site), _slices(lines, columns, [number]))


def _slices(lines: Lines, columns: Columns, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
    rows = np.concatenate([lines.rows(at) for at in places])
    starts, ends = union(columns.ts[rows], columns.end[rows])
    return tuple(zip(starts.tolist(), (ends - starts).tolist(), strict=True))


def _read(path: str) -> Iterator[bytes]:
    try:
        with Path(path).open("rb") as file:
            yield from unpacked(file)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error
