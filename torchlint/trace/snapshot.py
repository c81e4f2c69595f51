"""Reads a snapshot of PyTorch's CUDA allocator, and counts it; run as a program of its own.

``torch.cuda.memory._dump_snapshot`` writes a pickle, and pickles run what they name. This one is
read by an unpickler that names nothing, under a limit on memory and CPU time, and nothing but
numbers and the places of allocations comes back, as JSON. Nothing of torchlint is imported here,
nor anything else that is not Python's own: ``python -I -S snapshot.py FILE BYTES``.

What a snapshot holds is said in the docstring of ``torch.cuda.memory._snapshot``.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS = 300
"""CPU seconds for reading a snapshot, at most."""
_KEPT = 12
"""Innermost frames of an allocation that are kept."""
_STACKS = 5_000
"""Stacks that are told, those with most bytes at the peak."""
_LIBRARY = re.compile(
    r".*[/\\]torch[/\\].*|.*[/\\]lib[/\\]python3[^/\\]*[/\\](?!.*-packages).*|<.*"
)
"""Files that are nobody's code to change."""
_NO_SOURCE = (".cpp", ".cc", ".c", ".h", ".so", ".cu", ".cuh")
_MOST = 2**63
Entry = Mapping[str, Any]
Stack = tuple[tuple[str, int, str], ...]


class SnapshotError(Exception):
    """What is wrong with a file, in words."""


class _Bare(pickle.Unpickler):
    """Reads numbers, words, lists and dictionaries, and refuses whatever a pickle names."""

    def find_class(self, module: str, name: str) -> Any:
        raise SnapshotError(f"names {module}.{name}, which a snapshot never does; it is not read")

    def persistent_load(self, pid: Any) -> Any:
        raise SnapshotError("names an object outside of the file; it is not read")


def loaded(data: bytes) -> Any:
    """Return what a pickle of protocol 2 to 5 holds.

    Raises:
        SnapshotError: it is none, is damaged, or names anything.
    """
    if len(data) < 2 or data[0] != 0x80 or not 2 <= data[1] <= 5:
        raise SnapshotError("is no pickle of protocol 2 to 5")
    try:
        return _Bare(io.BytesIO(data)).load()
    except SnapshotError:
        raise
    except MemoryError:
        raise SnapshotError("takes more memory than a snapshot of its size does") from None
    except RecursionError:
        raise SnapshotError("is nested too deeply") from None
    except Exception as error:  # a damaged pickle may raise anything
        words = " ".join(str(error).split())[:100]
        raise SnapshotError(f"is cut off or damaged ({type(error).__name__}: {words})") from None


def counted(snapshot: Any) -> list[dict[str, Any]]:
    """Return what a snapshot says of each device.

    Raises:
        SnapshotError: it is no snapshot.
    """
    if isinstance(snapshot, list):  # as torch.cuda.memory_snapshot() gives it
        snapshot = {"segments": snapshot}
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("segments"), list):
        raise SnapshotError("is no snapshot of torch.cuda.memory: it has no segments")
    traces = snapshot.get("device_traces", [])
    try:
        by_device: dict[int, list[Entry]] = {}
        for segment in snapshot["segments"]:
            by_device.setdefault(_number(segment.get("device", 0)), []).append(segment)
        numbers = sorted({*by_device, *(at for at, trace in enumerate(traces) if trace)})
        if not numbers:
            raise SnapshotError("holds nothing: no GPU had any memory")
        return [
            _device(
                number, by_device.get(number, []), traces[number] if number < len(traces) else []
            )
            for number in numbers
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(
            f"is no snapshot of torch.cuda.memory ({type(error).__name__}: {str(error)[:60]})"
        ) from None


def _device(number: int, segments: Sequence[Entry], trace: Sequence[Entry]) -> dict[str, Any]:
    history = _History(segments, trace)
    return {"device": number, **_current_state(segments), **history.reserved(), **history.peak()}


def _current_state(segments: Sequence[Entry]) -> dict[str, Any]:
    """Return what was reserved and used when the snapshot was taken.

    What is free in a segment that also holds something cannot be given back to the driver.
    """
    reserved = used = held = idle = largest = 0
    for segment in segments:
        total = _number(segment["total_size"])
        free = [
            _number(block["size"]) for block in segment["blocks"] if block["state"] == "inactive"
        ]
        active = total - sum(free)
        reserved += total
        used += active
        held += sum(free) if active else 0
        idle += 0 if active else sum(free)
        largest = max([largest, *free])
    return {
        "segments": len(segments),
        "reserved": reserved,
        "used": used,
        "free_in_use": held,
        "free_whole": idle,
        "largest_free": largest,
    }


class _History:
    """What the allocator did, from the first event that was kept to the snapshot.

    What was there before is told from what is there at the end, and from what was freed although
    nobody saw it allocated.
    """

    def __init__(self, segments: Sequence[Entry], trace: Sequence[Entry]) -> None:
        self._segments = segments
        self._trace = trace
        self._stacks: dict[int, Stack] = {}

    def reserved(self) -> dict[str, Any]:
        """Return how reserved memory went up and down, and how often the allocator gave memory back
        to the driver to get other memory at once."""
        end = sum(_number(segment["total_size"]) for segment in self._segments)
        up = down = ups = downs = retries = 0
        changes, failed = [], []
        freeing: Entry | None = None
        for event in self._trace:
            action, size = event["action"], _number(event.get("size", 0))
            if action in ("segment_alloc", "segment_map"):
                up, ups = up + size, ups + 1
                changes.append(size)
                retries += freeing is not None and self._from_same_place(freeing, event)
            elif action in ("segment_free", "segment_unmap"):
                down, downs = down + size, downs + 1
                changes.append(-size)
            elif action == "oom":
                failed.append(size)
            if action not in ("snapshot", "oom"):
                freeing = event if action in ("segment_free", "segment_unmap") else None
        level = most = end - up + down
        for change in changes:
            level += change
            most = max(most, level)
        return {
            "events": len(self._trace),
            "reserved_most": most,
            "driver_allocs": ups,
            "driver_frees": downs,
            "up": up,
            "down": down,
            "retries": retries,
            "failed": failed[-10:],
            "failures": len(failed),
        }

    def peak(self) -> dict[str, Any]:
        """Return the most that was allocated at once, and what that was by stack."""
        seen: dict[int, int] = {}
        before = 0
        changes: list[int] = []
        for event in self._trace:
            change, address = _change(event)
            if change > 0:
                seen[address] = change
            elif change < 0:
                known = seen.pop(address, None)
                if known is None and event["action"] == "free_completed":
                    change = 0  # it was requested before
                elif known is None:
                    before -= change
                else:
                    change = -known
            changes.append(change)
        blocks = list(self._blocks())
        kept = [block for block in blocks if _number(block.get("address", -1)) not in seen]
        start = before + sum(_number(block["size"]) for block in kept)
        level = most = start
        at = 0
        for place, change in enumerate(changes, 1):
            level += change
            if level > most:
                most, at = level, place
        by_stack = self._alive(at, kept)
        told = sorted(by_stack.items(), key=lambda item: -item[1][0])[:_STACKS]
        known_bytes = sum(size for size, _ in by_stack.values())
        return {
            "allocated_most": most,
            "unknown_at_peak": max(most - known_bytes, 0),
            "at_peak": [
                [size, count, [list(frame) for frame in stack]] for stack, (size, count) in told
            ],
        }

    def _alive(self, until: int, kept: Sequence[Entry]) -> dict[Stack, tuple[int, int]]:
        """Return bytes and number of what is allocated after so many events, by stack."""
        alive: dict[int, tuple[int, Stack]] = {}
        for event in self._trace[:until]:
            change, address = _change(event)
            if change > 0:
                alive[address] = change, self._stack(event)
            elif change < 0:
                alive.pop(address, None)
        found: dict[Stack, tuple[int, int]] = {}
        older = [(_number(block["size"]), self._stack(block)) for block in kept]
        for size, stack in (*alive.values(), *older):
            bytes_, count = found.get(stack, (0, 0))
            found[stack] = bytes_ + size, count + 1
        return found

    def _blocks(self) -> Iterator[Entry]:
        """Yield the blocks that are allocated at the end, with their addresses."""
        for segment in self._segments:
            address = segment.get("address", 0)
            for block in segment["blocks"]:
                if block["state"] == "active_allocated":
                    yield {"address": address, **block}
                address += _number(block["size"])

    def _from_same_place(self, one: Entry, other: Entry) -> bool:
        """Say whether two events come from one place, and not from somebody who empties the
        cache."""
        named = any(frame.get("name") == "empty_cache" for frame in one.get("frames") or ())
        return not named and self._stack(one) == self._stack(other)

    def _stack(self, entry: Entry) -> Stack:
        """Return the program's own frames of an allocation, the innermost first."""
        frames = entry.get("frames")
        if frames is None:  # as older versions of torch wrote it
            frames = next((each.get("frames") for each in entry.get("history") or ()), None)
        if not isinstance(frames, list):
            return ()
        found = self._stacks.get(id(frames))
        if found is None:
            found = tuple(_program_frames(frames))[:_KEPT]
            self._stacks[id(frames)] = found
        return found


def _program_frames(frames: Sequence[Entry]) -> Iterator[tuple[str, int, str]]:
    for frame in frames:
        file, line, name = frame["filename"], _number(frame["line"]), frame["name"]
        if not (isinstance(file, str) and isinstance(name, str)):
            raise ValueError("a frame has a file and a name")
        if file != "??" and not file.endswith(_NO_SOURCE) and not _LIBRARY.fullmatch(file):
            yield file[:500], line, name[:200]


def _change(event: Entry) -> tuple[int, int]:
    """Return by how much an event changes what is allocated, and the address."""
    action = event["action"]
    if action == "alloc":
        return _number(event["size"]), _number(event["addr"])
    if action in ("free", "free_requested", "free_completed"):
        return -_number(event["size"]), _number(event["addr"])
    return 0, 0


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < _MOST:
        raise ValueError("what should be a number is none")
    return value


def _limit(most: int) -> None:
    """Limit memory and CPU time, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, wanted in (("RLIMIT_AS", most), ("RLIMIT_CPU", SECONDS), ("RLIMIT_CORE", 0)):
        number = getattr(resource, kind)
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        try:
            resource.setrlimit(number, (wanted, hard))
        except (ValueError, OSError):  # macOS knows no limit of address space
            continue


def main(path: str, most: str) -> int:
    """Read a file and write what it says, or what is wrong with it, as JSON."""
    _limit(int(most))
    found: dict[str, Any]
    try:
        found = {"devices": counted(loaded(Path(path).read_bytes()))}
    except SnapshotError as error:
        found = {"error": str(error)}
    except MemoryError:
        found = {"error": "takes more memory than a snapshot of its size does"}
    except OSError as error:
        found = {"error": error.strerror or str(error)}
    sys.stdout.write(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
