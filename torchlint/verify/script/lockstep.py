"""Lock-step timing: every variant is one resident process; one runs a block of steps while the
others are frozen."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torchlint.base.records import frozen
from torchlint.program.machine.processes import Child
from torchlint.verify.inside.channel import POLL, Channel
from torchlint.verify.session.timing import Block, Lane, take_turns, trial
from torchlint.verify.session.wire import Listener, ProgramError, asked

BLOCK_SECONDS = 0.05
"""The least length of a block; shorter ones measure the timer and the scheduler."""
BLOCK_STEPS = 10
LOADER_SHARE = 0.2
"""Share of a step's time spent waiting for the DataLoader from which prefetched batches are drained
first."""
TRIALS, TRIAL_SHARE = 10, 0.25
"""Rounds, at most, until a GPU is at its pace, and the share of a launch's time; those before are
given up. On an H200 the first six rounds, 70 steps, took 6.9 to 3.8 ms a step."""
PATIENCE, FASTER_BY = 2, 0.95
"""It is at its pace where so many rounds in turn are no faster than this share of the best."""
SPENT = "was in a block when the time was over (--budget)"
_QUIT_SECONDS = 5.0


class Resident(Lane):
    """A variant's process in one launch; it calls when it has warmed up.

    Args:
        name: of the variant.
        start: starts the process.
        address: where it calls.
    """

    def __init__(self, name: str, start: Callable[[], Child], address: Path) -> None:
        super().__init__(name)
        self.start = start
        self.address = address
        self.child: Child | None = None
        self.prefetched = 0
        self.steps, self.settle, self.timeout = BLOCK_STEPS, 0, 0.0
        """Of each block: the steps that are measured, those before them, and the most seconds for
        both."""
        self.until = math.inf
        """When all must be over (`time.monotonic`)."""
        self._listener: Listener | None = None
        self._channel: Channel | None = None

    def launch(self) -> None:
        """Start the process."""
        self._listener = Listener(self.address)
        self.child = self.start()

    def ready(self) -> bool:
        """Look whether the process has warmed up, and freeze it then.

        Raises:
            ProgramError: it has ended.
        """
        assert self._listener is not None
        self._channel = self._channel or self._listener.look()
        if self._channel is None:
            if not self._lives():
                raise ProgramError("ended before its warm-up was over", "ended")
            return False
        try:
            message = self._channel.receive(5 * POLL, self._lives)
        except TimeoutError:
            return False
        if message is None:
            raise ProgramError("ended", "ended")
        self.prefetched = int(message.get("prefetched", 0))
        assert self.child is not None
        self.child.freeze()
        return True

    def block(self) -> Block:
        assert self.child is not None
        self.child.thaw()
        message = self._ask(settle=self.settle, steps=self.steps)
        self.child.freeze()
        return Block(
            *(float(message[key]) / self.steps for key in ("wall_ns", "cpu_ns", "wait_ns"))
        )

    def quit(self) -> bool:
        """Ask the process to end and leave its record; return whether it could be told."""
        assert self.child is not None
        assert self._channel is not None
        self.child.thaw()
        try:
            self._channel.send({"quit": True})
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Stop the process and let go of the sockets."""
        if self.child is not None:
            self.child.stop(0.5)
        for end in (self._channel, self._listener):
            if end is not None:
                end.close()

    def _ask(self, **message: object) -> dict[str, Any]:
        assert self._channel is not None
        left = self.until - time.monotonic()
        try:
            return asked(self._channel, message, max(0.0, min(self.timeout, left)), self._lives)
        except ProgramError as error:
            if error.kind == "timeout" and left < self.timeout:
                raise ProgramError(SPENT, "done") from None
            raise

    def _lives(self) -> bool:
        return self.child is not None and self.child.poll() is None


@frozen
class LaunchSettings:
    """How a launch is timed.

    Args:
        rounds: blocks of each variant.
        settle: steps before each block that are not measured.
        block: steps of a block; None to choose by `BLOCK_SECONDS` and `BLOCK_STEPS`.
        timeout: seconds for the warm-up of one process, and for one block.
        seconds: the time that all rounds together should take; blocks get shorter, then rounds
            fewer.
        together: how many processes may start at the same time.
        until: when all must be over (`time.monotonic`).
        step: about how many seconds a step takes; 0 where that is not known.
        trials: rounds, at most, until the versions get no faster; those before are given up.
    """

    rounds: int
    settle: int = 2
    block: int | None = None
    timeout: float = 600.0
    seconds: float = 300.0
    together: int = 2
    until: float = math.inf
    step: float = 0.0
    trials: int = 0


def run(
    residents: Sequence[Resident],
    pace: LaunchSettings,
    rng: random.Random,
    tick: Callable[[int], None],
) -> int:
    """Time all variants in one launch, and return the steps of a block; the residents hold the
    rest.

    Each variant has as many blocks as the shortest complete series. All processes are stopped at
    the end.

    Args:
        residents: the variants; the first is the original.
        pace: how.
        rng: for the order of the rounds.
        tick: called with the number of complete rounds, at first with 0.
    """
    try:
        _warm_up(residents, pace)
        tick(0)
        alive = [resident for resident in residents if resident.failure is None]
        if residents[0].failure is not None or len(alive) < 2:
            return 0
        steps, settle, end = _calibrate(residents[0], pace, len(alive))
        for resident in alive:
            resident.steps, resident.settle, resident.timeout = steps, settle, pace.timeout
        kept = _find_pace(residents, pace, rng)
        left = pace.rounds - kept
        take_turns(residents, left, rng, end=end, tick=lambda done: tick(kept + done))
        leaving = [resident for resident in alive if resident.failure is None and resident.quit()]
        over = min(time.monotonic() + _QUIT_SECONDS, pace.until)
        for resident in leaving:
            assert resident.child is not None
            resident.child.wait(max(0.0, over - time.monotonic()))
        return steps
    finally:
        for resident in residents:
            resident.close()


def _warm_up(residents: Sequence[Resident], pace: LaunchSettings) -> None:
    """Start every process, a few at a time, and freeze each when it has warmed up."""
    waiting = list(residents)
    starting: dict[Resident, float] = {}
    while waiting or starting:
        while waiting and len(starting) < pace.together:
            resident = waiting.pop(0)
            resident.launch()
            starting[resident] = time.monotonic() + pace.timeout
            resident.until = pace.until
        for resident, deadline in list(starting.items()):
            if _is_settled(resident, deadline, pace.timeout):
                del starting[resident]


def _is_settled(resident: Resident, deadline: float, timeout: float) -> bool:
    """Look whether a process has warmed up, or never will."""
    try:
        if not resident.ready():
            if time.monotonic() <= min(deadline, resident.until):
                return False
            if time.monotonic() <= deadline:
                raise ProgramError("had not warmed up when the time was over (--budget)", "done")
            raise ProgramError(f"timed out after {timeout:g} s", "timeout")
    except ProgramError as error:
        resident.failure = error
    return True


def _find_pace(lanes: Sequence[Resident], pace: LaunchSettings, rng: random.Random) -> int:
    """Run rounds until the versions together get no faster, and drop those before; return how many
    are kept."""
    end = min(time.monotonic() + TRIAL_SHARE * pace.seconds, pace.until)
    best, done, since = math.inf, 0, 0
    while done < pace.trials and since < PATIENCE and (not done or time.monotonic() < end):
        take_turns(lanes, 1, rng)
        going = [lane for lane in lanes if lane.failure is None]
        if lanes[0].failure is not None or len(going) < 2:
            break
        took = sum(lane.blocks[-1].wall for lane in going)
        since = 0 if took < FASTER_BY * best else since + 1
        best, done = min(best, took), done + 1
    kept = min(done, since + 1)
    for lane in lanes:
        del lane.blocks[: done - kept]
    return kept


def _calibrate(original: Resident, pace: LaunchSettings, variants: int) -> tuple[int, int, float]:
    """Return steps of a block, settle steps, and the time at which no new round is begun; runs one
    trial block."""
    begun = time.monotonic()
    original.steps, original.settle, original.timeout = (
        pace.block or max(1, min(BLOCK_STEPS, math.ceil(BLOCK_SECONDS / max(pace.step, 1e-7)))),
        pace.settle,
        pace.timeout,
    )
    first = trial(original)
    if first is None:
        return original.steps, pace.settle, 0.0
    step = max(first.wall / 1e9, 1e-7)
    settle = pace.settle
    if first.wait > LOADER_SHARE * first.wall:
        settle = max(
            settle, original.prefetched
        )  # what its workers have ready was loaded before the block
    steps = pace.block or max(BLOCK_STEPS, math.ceil(BLOCK_SECONDS / step))
    end = min(begun + pace.seconds, pace.until)
    affordable = (end - time.monotonic()) / (step * variants * pace.rounds) - settle
    if pace.block is None:
        steps = max(1, min(steps, int(affordable)))
    return steps, settle, end - (settle + steps) * step * variants
