"""Snapshots whose truth is known: a small allocator that writes down what it did as PyTorch's
does, in the shape that the docstring of ``torch.cuda.memory._snapshot`` gives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Frames = list[dict[str, Any]]


def frames(*lines: int, file: str = "/p/train.py") -> Frames:
    """Return a stack: torch's own C++ and Python above lines of a file, the innermost first."""
    own = [{"filename": file, "line": line, "name": f"f{line}"} for line in lines]
    above = [
        {"filename": "??", "line": 0, "name": "at::empty"},
        {"filename": "/x/c10/cuda/CUDACachingAllocator.cpp", "line": 9, "name": "malloc"},
        {"filename": "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", "line": 125,
         "name": "forward"},
    ]  # fmt: skip
    below = [{"filename": "/usr/lib/python3.11/runpy.py", "line": 88, "name": "_run_code"}]
    return [*above, *own, *below]


@dataclass
class Allocator:
    """Hands out memory of segments, each of which has blocks one behind the other."""

    recording: bool = True
    events: list[dict[str, Any]] = field(default_factory=list)
    segments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    next: int = 0x7F0000000000
    allocated: int = 0
    most: int = 0
    reserved_most: int = 0
    alive: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Size and innermost line of what is allocated, by address."""
    at_peak: dict[int, int] = field(default_factory=dict)
    """Bytes by line when most was allocated."""

    def note(self, action: str, address: int, size: int, stack: Frames) -> None:
        if self.recording:
            self.events.append(
                {"action": action, "addr": address, "size": size, "stream": 0, "frames": stack,
                 "time_us": len(self.events)}
            )  # fmt: skip

    def reserve(self, size: int, stack: Frames) -> int:
        """Take a segment from the driver."""
        address, self.next = self.next, self.next + size
        block = {"address": address, "size": size, "requested_size": 0, "state": "inactive"}
        self.segments[address] = [{**block, "frames": []}]
        self.note("segment_alloc", address, size, stack)
        held = sum(each["size"] for blocks in self.segments.values() for each in blocks)
        self.reserved_most = max(self.reserved_most, held)
        return address

    def release(self, stack: Frames) -> None:
        """Give back the segments that hold nothing."""
        for address, blocks in list(self.segments.items()):
            if len(blocks) == 1 and blocks[0]["state"] == "inactive":
                self.note("segment_free", address, blocks[0]["size"], stack)
                del self.segments[address]

    def alloc(self, size: int, stack: Frames, segment: int | None = None) -> int:
        """Allocate from a segment, the first that has room, or a new one."""
        for blocks in self.segments.values() if segment is None else [self.segments[segment]]:
            for at, block in enumerate(blocks):
                if block["state"] == "inactive" and block["size"] >= size:
                    rest = block["size"] - size
                    used = {**block, "size": size, "state": "active_allocated", "frames": stack}
                    free = {**block, "address": block["address"] + size, "size": rest}
                    blocks[at : at + 1] = [used, free] if rest else [used]
                    self._allocated(block["address"], size, stack)
                    return int(block["address"])
        self.reserve(size, stack)
        return self.alloc(size, stack)

    def free(self, address: int) -> None:
        """Free a block, which joins its free neighbours."""
        for blocks in self.segments.values():
            for at, block in enumerate(blocks):
                if block["address"] == address and block["state"] == "active_allocated":
                    blocks[at] = {**block, "state": "inactive", "frames": []}
                    self._joined(blocks)
                    self.note("free_requested", address, block["size"], [])
                    self.note("free_completed", address, block["size"], [])
                    self.allocated -= self.alive.pop(address)[0]
                    return
        raise AssertionError(f"nothing lies at {address}")

    def _allocated(self, address: int, size: int, stack: Frames) -> None:
        line = next((each["line"] for each in stack if each["filename"] == "/p/train.py"), 0)
        self.note("alloc", address, size, stack)
        self.alive[address] = size, line
        self.allocated += size
        if self.allocated > self.most:
            self.most, self.at_peak = self.allocated, {}
            for nbytes, place in self.alive.values():
                self.at_peak[place] = self.at_peak.get(place, 0) + nbytes

    @staticmethod
    def _joined(blocks: list[dict[str, Any]]) -> None:
        at = 0
        while at + 1 < len(blocks):
            one, other = blocks[at], blocks[at + 1]
            if one["state"] == other["state"] == "inactive":
                blocks[at : at + 2] = [{**one, "size": one["size"] + other["size"]}]
            else:
                at += 1

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        self.recording = False
        yield
        self.recording = True

    def snapshot(self) -> dict[str, Any]:
        segments = [
            {"device": 0, "address": address, "stream": 0, "segment_type": "large",
             "segment_pool_id": (0, 0), "is_expandable": False, "blocks": blocks,
             "total_size": sum(block["size"] for block in blocks)}
            for address, blocks in self.segments.items()
        ]  # fmt: skip
        return {"segments": segments, "device_traces": [self.events], "allocator_settings": {}}

    def written(self, path: Path, protocol: int = 4) -> str:
        path.write_bytes(pickle.dumps(self.snapshot(), protocol))
        return str(path)
