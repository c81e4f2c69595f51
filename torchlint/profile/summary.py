"""Summaries: what is left of a rank's trace once it is counted, as a small file.

Where the traces of a run are too many or too large for one machine, each is reduced to a summary
where it lies, and the summaries are put together: ``torchlint profile --merge``. To put summaries
together in groups, and these again, gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from torchlint.base.errors import TraceError
from torchlint.base.records import frozen
from torchlint.profile.report import Summary

VERSION = 1
ENDINGS = (".json",)
"""What names of summaries end in, where a folder is named."""
_KIND = "torchlint profile summary"


@frozen
class _File:
    """A summary as it is written: what it is first."""

    kind: str
    version: int
    summary: Summary


def encoded(summary: Summary) -> bytes:
    """Return a summary as JSON."""
    return msgspec.json.encode(_File(_KIND, VERSION, summary)) + b"\n"


def merged(paths: Sequence[str]) -> Summary:
    """Read summaries and put them together.

    Raises:
        TraceError: one cannot be read, or is no summary of this version.
    """
    found = [_read(path) for path in paths]
    return Summary(
        tuple(rank for each in found for rank in each.ranks),
        tuple(note for each in found for note in each.notes),
    )


def _read(path: str) -> Summary:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError):
        head = _Head()
    if head.kind != _KIND:
        raise TraceError(f"{path}: is no summary; torchlint profile --trace … --summary makes them")
    if head.version != VERSION:
        raise TraceError(
            f"{path}: is a summary of version {head.version}, this torchlint reads {VERSION}; "
            "make it anew from its trace"
        )
    try:
        return msgspec.json.decode(data, type=_File).summary
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: is a damaged summary: {error}") from None


@frozen
class _Head:
    """What a file says it is."""

    kind: str = ""
    version: int = 0
