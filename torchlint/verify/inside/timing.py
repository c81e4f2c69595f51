"""The child's side of lock-step timing: runs blocks of steps on the parent's word, and waits frozen
in between.

One line of JSON a message over a Unix socket. The child says ``{"ready": …}`` after its warm-up.
The parent says ``{"settle": s, "steps": k}``: the child runs s steps, then times k. Or ``{"quit":
true}``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .channel import Channel, connect


class Timing:
    """Counts down the steps of each part, and times blocks.

    Args:
        path: of the parent's socket.
        warmup: steps before the first word to the parent.
        sync: waits for the device.
        facts: gives what the ready message says of this process.
        wait_ns: gives the nanoseconds spent in DataLoaders so far.
    """

    def __init__(
        self,
        path: str,
        warmup: int,
        sync: Callable[[], None],
        facts: Callable[[], dict[str, Any]],
        wait_ns: Callable[[], int],
    ) -> None:
        self.path = path
        self.sync = sync
        self.facts = facts
        self.wait_ns = wait_ns
        self.part = "warmup"
        self.left = max(1, warmup)
        self.steps = 0
        self.block = 0
        self.refused = False
        self.parent: Channel | None = None
        self._start = (0, 0, 0)

    def step(self) -> bool:
        """Take the end of a step; return False when the parent has had enough."""
        if self.refused:
            return True
        self.steps += 1
        self.left -= 1
        if self.left > 0:
            return True
        if self.part == "settle":
            self._begin()
            return True
        self.sync()
        if self.part == "warmup":
            self.parent = connect(self.path)
            _reset_peak()
            self.parent.send({"ready": self.steps, **self.facts()})
        else:
            assert self.parent is not None
            wall, cpu, wait = time.perf_counter_ns(), time.process_time_ns(), self.wait_ns()
            first = self._start
            self.parent.send(
                {"wall_ns": wall - first[0], "cpu_ns": cpu - first[1], "wait_ns": wait - first[2]}
            )
        # Wait for the parent's word, and set up what it asks for.
        assert self.parent is not None
        word = self.parent.receive() or {"quit": True}
        if word.get("quit"):
            return False
        self.block = int(word["steps"])
        self.part, self.left = "settle", int(word["settle"])
        if self.left <= 0:
            self._begin()
        return True

    def _begin(self) -> None:
        self.sync()
        self.part, self.left = "block", self.block
        self._start = (time.perf_counter_ns(), time.process_time_ns(), self.wait_ns())


def _reset_peak() -> None:
    """Make the kernel forget the peak of resident memory (proc(5), clear_refs)."""
    try:
        with open("/proc/self/clear_refs", "w") as control:  # noqa: PTH123 - a control file, not a document
            control.write("5")
    except OSError:
        pass


def peak_resident() -> int | None:
    """Return the peak of resident memory since the last reset, in bytes; None where the system does
    not tell."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
