"""What snapshots of PyTorch's CUDA allocator say: which lines held the memory at its peak, what is
reserved and not used, and how often the allocator had to ask the driver.

A snapshot is a pickle. It is read by a program of its own, which knows nothing to run and has a
limit on memory: `torchlint.trace.snapshot`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchlint.base.errors import TraceError
from torchlint.base.records import frozen
from torchlint.profile.sites import Sources
from torchlint.trace import snapshot as reader

_LEAST, _FACTOR = 1_000_000_000, 24
"""Bytes that reading may take: so many, and so many times the file."""
_SECONDS = 2 * reader.SECONDS


@frozen
class Held:
    """A line that held memory at the peak: bytes, and in how many pieces. `file` is empty where
    nobody knows the line, and `line` 0."""

    file: str
    line: int
    function: str
    nbytes: int
    pieces: int


@frozen
class Snapshot:
    """One device in one snapshot; all sizes in bytes.

    Args:
        path: the file.
        device: its number.
        segments: pieces of memory that are reserved.
        reserved: memory of the driver at the end; `reserved_most` the most at once.
        used: what of it holds something.
        free_in_use: what is free of pieces that hold something: it cannot be given back.
        free_whole: what is free and could be given back.
        largest_free: the largest free part: nothing larger fits without more of the driver.
        events: what was recorded; 0 where no history was.
        allocated_most: the most that was allocated at once.
        held: by line what was allocated then, the most first.
        up, down: memory taken from the driver and given back, and in how many calls.
        retries: how often memory was given back to the driver to get other memory at once.
        failures: how often an allocation failed; `failed` are the sizes of the last ones.
    """

    path: str
    device: int
    segments: int
    reserved: int
    reserved_most: int
    used: int
    free_in_use: int
    free_whole: int
    largest_free: int
    events: int
    allocated_most: int
    held: tuple[Held, ...]
    up: int
    driver_allocs: int
    down: int
    driver_frees: int
    retries: int
    failures: int
    failed: tuple[int, ...]

    @property
    def fragmented(self) -> float:
        """Which part of the free memory does not lie in one piece."""
        free = self.free_in_use + self.free_whole
        return 1 - self.largest_free / free if free else 0.0


def snapshots(path: str, sources: Sources) -> tuple[Snapshot, ...]:
    """Return what a snapshot says of each device.

    Args:
        path: the file.
        sources: the program's; its lines go before those of other libraries.

    Raises:
        TraceError: it is none, or cannot be read.
    """
    found = _read(path)
    return tuple(_snapshot(path, device, sources) for device in found)


def _read(path: str) -> Sequence[Mapping[str, Any]]:
    try:
        size = Path(path).stat().st_size
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    program = os.path.abspath(reader.__file__)
    command = [sys.executable, "-I", "-S", program, path, str(_LEAST + _FACTOR * size)]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise TraceError(f"{path}: took longer than {_SECONDS} s to read") from None
    try:
        found = json.loads(ended.stdout) if ended.returncode == 0 else {}
    except ValueError:
        found = {}
    if "error" in found:
        raise TraceError(f"{path}: {found['error']}")
    if "devices" not in found:
        raise TraceError(
            f"{path}: reading it ended with {ended.returncode}; it is no snapshot, or too large"
        )
    devices: Sequence[Mapping[str, Any]] = found["devices"]
    return devices


def _snapshot(path: str, found: Mapping[str, Any], sources: Sources) -> Snapshot:
    names = set(Snapshot.__match_args__) - {"path", "held", "failed"}
    plain: dict[str, Any] = {name: found[name] for name in names}
    return Snapshot(
        path=path, held=_held_at_peak(found, sources), failed=tuple(found["failed"]), **plain
    )


def _held_at_peak(found: Mapping[str, Any], sources: Sources) -> tuple[Held, ...]:
    """Return what was allocated at the peak by line, the most first."""
    lines: dict[tuple[str, int, str], tuple[int, int]] = {}
    for nbytes, pieces, stack in found["at_peak"]:
        key = _line(stack, sources)
        before, count = lines.get(key, (0, 0))
        lines[key] = before + nbytes, count + pieces
    unknown = found["unknown_at_peak"]
    if unknown:
        key = ("", 0, "allocated before recording began")
        lines[key] = unknown, 0
    held = [Held(*key, *amount) for key, amount in lines.items()]
    return tuple(sorted(held, key=lambda each: (-each.nbytes, each.file, each.line)))


def _line(stack: Sequence[Sequence[Any]], sources: Sources) -> tuple[str, int, str]:
    """Return the innermost line of a stack that is the program's, or else of another library."""
    for file, line, function in stack:
        source = sources.of(file)
        if source is not None:
            return source.name, line, function
    if stack:
        file, line, function = stack[0]
        return file, line, function
    return "", 0, "no Python frames were recorded"
