"""Lock-step timing: every variant is one resident process; one runs a block of steps while the others are frozen.

The order is random in every round, as a fixed forward and reverse order has once biased the null control by 7 %.
"""

from __future__ import annotations

import json
import math
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

BLOCK_SECONDS = 0.05
"""The least length of a block; shorter ones measure the timer and the scheduler."""
BLOCK_STEPS = 10
LOADER_SHARE = 0.2
"""Share of a step's time spent waiting for the DataLoader from which prefetched batches are drained first."""
_POLL = 0.05


class Runnable(Protocol):
    """What lock-step needs of a child process."""

    def poll(self) -> int | None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def stop(self, grace: float = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class Block:
    """One measured block of one variant, per step: nanoseconds of wall time, CPU time and waiting for data."""

    wall: float
    cpu: float
    wait: float


@dataclass(slots=True)
class Resident:
    """A variant's process in one launch. `lost` says why it gives no more blocks."""

    name: str
    start: Callable[[], Runnable]
    address: Path
    child: Runnable | None = None
    blocks: list[Block] = field(default_factory=list)
    lost: str = ""
    prefetched: int = 0
    _server: socket.socket | None = None
    _stream: socket.socket | None = None
    _buffer: bytes = b""

    def launch(self) -> None:
        """Start the process; it will connect when it has warmed up."""
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self.address))
        self._server.listen(1)
        self._server.settimeout(_POLL)
        self.child = self.start()

    def ready(self) -> bool:
        """Look whether the process has warmed up or ended; return whether there is nothing more to wait for."""
        assert self._server is not None
        if self._stream is None and not self._accept():
            return bool(self.lost)
        message = self.receive(time.monotonic() + 5 * _POLL)
        if message is not None:
            self.prefetched = int(message.get("prefetched", 0))
        return message is not None or bool(self.lost)

    def _accept(self) -> bool:
        assert self._server is not None
        assert self.child is not None
        try:
            self._stream, _ = self._server.accept()
        except TimeoutError:
            if self.child.poll() is not None:
                self.lost = "ended before its warm-up was over"
            return False
        return True

    def receive(self, deadline: float) -> dict[str, float | str] | None:
        """Return the process' next message, or None at the deadline or when it has gone (`lost` then says so)."""
        assert self._stream is not None
        while b"\n" not in self._buffer:
            if time.monotonic() > deadline:
                return None
            self._stream.settimeout(_POLL)
            try:
                data = self._stream.recv(65536)
            except TimeoutError:
                # A DataLoader worker may hold a copy of the socket, so its end alone would not be seen.
                if self.child is None or self.child.poll() is None:
                    continue
                data = b""
            except OSError:
                data = b""
            if not data:
                self.lost = "ended"
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, float | str] = json.loads(line)
        return message

    def send(self, **message: object) -> None:
        """Tell the process what to do next."""
        assert self._stream is not None
        try:
            self._stream.settimeout(None)
            self._stream.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.lost = "ended"

    def close(self) -> None:
        """Let go of the sockets."""
        for end in (self._stream, self._server):
            if end is not None:
                end.close()


@dataclass(frozen=True, slots=True)
class Pace:
    """How a launch is timed.

    Args:
        rounds: blocks of each variant.
        settle: steps before each block that are not measured.
        block: steps of a block; None to choose by `BLOCK_SECONDS` and `BLOCK_STEPS`.
        timeout: seconds for the warm-up of one process, and for one block.
        seconds: the time that all rounds together should take; blocks get shorter, then rounds fewer.
        together: how many processes may start at the same time.
    """

    rounds: int
    settle: int = 2
    block: int | None = None
    timeout: float = 600.0
    seconds: float = 300.0
    together: int = 2


def run(residents: Sequence[Resident], pace: Pace, rng: random.Random, tick: Callable[[int], None]) -> int:
    """Time all variants in one launch, and return the steps of a block; `Resident.blocks` and `lost` hold the rest.

    Each variant has as many blocks as the shortest complete series. All processes are stopped at the end.

    Args:
        residents: the variants; the first is the original.
        pace: how.
        rng: for the order of the rounds.
        tick: called with the number of complete rounds.
    """
    try:
        _warm_up(residents, pace)
        alive = [resident for resident in residents if not resident.lost]
        if residents[0].lost or len(alive) < 2:
            return 0
        steps, settle, end = _calibrate(residents[0], pace, len(alive))
        for number in range(pace.rounds):
            if number and time.monotonic() > end:
                break
            alive = _round(alive, steps, settle, pace, rng)
            if residents[0].lost or len(alive) < 2:
                break
            tick(number + 1)
        for resident in alive:
            _quit(resident)
        return steps
    finally:
        for resident in residents:
            if resident.child is not None:
                resident.child.stop(0.5)
            resident.close()


def _warm_up(residents: Sequence[Resident], pace: Pace) -> None:
    """Start every process, a few at a time, and freeze each when it has warmed up."""
    waiting = list(residents)
    starting: list[tuple[Resident, float]] = []
    while waiting or starting:
        while waiting and len(starting) < pace.together:
            resident = waiting.pop(0)
            resident.launch()
            starting.append((resident, time.monotonic() + pace.timeout))
        for entry in list(starting):
            resident, deadline = entry
            if resident.ready():
                starting.remove(entry)
                if not resident.lost and resident.child is not None:
                    resident.child.freeze()
            elif time.monotonic() > deadline:
                starting.remove(entry)
                resident.lost = f"timed out after {pace.timeout:g} s"


def _calibrate(original: Resident, pace: Pace, variants: int) -> tuple[int, int, float]:
    """Return steps of a block, settle steps, and the time at which no new round is begun; runs one trial block."""
    trial = _block(original, BLOCK_STEPS if pace.block is None else pace.block, pace.settle, pace.timeout)
    end = time.monotonic() + pace.seconds
    if trial is None:
        return pace.block or BLOCK_STEPS, pace.settle, end
    step = max(trial.wall / 1e9, 1e-7)
    settle = pace.settle
    if trial.wait > LOADER_SHARE * trial.wall:
        settle = max(settle, original.prefetched)  # what its workers have ready was loaded before the block
    steps = pace.block or max(BLOCK_STEPS, math.ceil(BLOCK_SECONDS / step))
    affordable = pace.seconds / (step * variants * pace.rounds) - settle
    if pace.block is None:
        steps = max(1, min(steps, int(affordable)))
    return steps, settle, end


def _round(alive: list[Resident], steps: int, settle: int, pace: Pace, rng: random.Random) -> list[Resident]:
    """Run one block of each variant in random order; return those that go on. A partial round is dropped."""
    order = list(alive)
    rng.shuffle(order)
    taken: dict[str, Block] = {}
    for resident in order:
        block = _block(resident, steps, settle, pace.timeout)
        if block is not None:
            taken[resident.name] = block
    going = [resident for resident in alive if resident.name in taken]
    if alive[0] in going:
        for resident in going:
            resident.blocks.append(taken[resident.name])
    return going


def _block(resident: Resident, steps: int, settle: int, timeout: float) -> Block | None:
    assert resident.child is not None
    resident.child.thaw()
    resident.send(settle=settle, steps=steps)
    message = resident.receive(time.monotonic() + timeout)
    if message is None:
        resident.lost = resident.lost or f"timed out after {timeout:g} s"
        return None
    resident.child.freeze()
    return Block(*(float(message[key]) / steps for key in ("wall_ns", "cpu_ns", "wait_ns")))


def _quit(resident: Resident) -> None:
    """Ask a process to end, and give it a moment to leave its record."""
    assert resident.child is not None
    resident.child.thaw()
    resident.send(quit=True)
    deadline = time.monotonic() + 5
    while resident.child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL)
