"""Ping-pong timing: each version of a program is resident in a worker, and blocks alternate in random order.

Two launches by default, each from a zygote of its own: workers forked from one zygote share its address layout.
"""

from __future__ import annotations

import random
import statistics as numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchlint.verify import statistics
from torchlint.verify.model import NullControl, Ratio, Speed, Status, Verdict
from torchlint.verify.paired.workers import Worker, WorkerError, Zygote

BLOCK_MS = 20.0
"""The least length of a block."""
SETTLE_NS = 5_000_000
"""A run up to this long is run once more, unmeasured, before each block: other workers have had the caches."""
STATUSES = {"memory": Status.OUT_OF_MEMORY, "timeout": Status.TIMEOUT}


@dataclass(frozen=True, slots=True)
class Pace:
    """How pairs are timed.

    Args:
        pairs: paired blocks of each version, over all launches.
        seed: of the order of blocks.
        min_effect: the least change worth a verdict.
        block_ms: the least length of a block.
        timeout: seconds for one answer of a worker.
        long_ms: a program of which one run takes longer gets 12 pairs at most, the smallest number for a verdict.
        cpu_time: whether process CPU time says something: with one thread.
    """

    pairs: int = 24
    seed: int = 0
    min_effect: float = statistics.MIN_EFFECT
    block_ms: float = BLOCK_MS
    timeout: float = 60.0
    cpu_time: bool = True
    long_ms: float = float("inf")


@dataclass(slots=True)
class Lane:
    """One version of the program, and what was measured of it.

    Args:
        name: of the version.
        program: settings for the worker.
        cwd: where it starts; the zygote's folder where None.
        launches: per launch, the nanoseconds of one run in each block: (wall, CPU).
        failure: why it gave no more blocks.
    """

    name: str
    program: Mapping[str, object]
    cwd: Path | None = None
    launches: list[list[tuple[float, float]]] = field(default_factory=list)
    failure: WorkerError | None = None
    device: str = ""
    device_name: str | None = None

    def times(self, clock: int) -> list[float]:
        """Return the wall (0) or CPU (1) nanoseconds of all blocks."""
        return [block[clock] for launch in self.launches for block in launch]


def measure(zygotes: Sequence[Zygote], lanes: Sequence[Lane], pace: Pace) -> None:
    """Time all versions against each other, one launch a zygote; the first lane is the original.

    A lane that fails is left out from then on. Where the original fails nothing goes on.
    """
    rng = random.Random(pace.seed)
    rounds = [pace.pairs // len(zygotes) + (index < pace.pairs % len(zygotes)) for index in range(len(zygotes))]
    for zygote, count in zip(zygotes, rounds, strict=True):
        launch = _Launch(zygote, pace, rng)
        try:
            if launch.start(lanes) > pace.long_ms * 1e6:
                count = min(count, -(-statistics.LOOKS[0] // len(zygotes)))
            for _ in range(count):
                if lanes[0].failure is not None:
                    return
                launch.round()
        finally:
            launch.close()


class _Launch:
    """One worker a lane, all resident at once."""

    def __init__(self, zygote: Zygote, pace: Pace, rng: random.Random) -> None:
        self.zygote = zygote
        self.pace = pace
        self.rng = rng
        self.going: list[tuple[Lane, Worker, int, bool]] = []
        self.workers: list[Worker] = []

    def start(self, lanes: Sequence[Lane]) -> float:
        """Load and calibrate every lane, each for itself; return the nanoseconds of one run of the slowest."""
        slowest = 0.0
        for lane in lanes:
            if lane.failure is not None:
                continue
            lane.launches.append([])
            try:
                worker = self.zygote.fork(lane.cwd)
                self.workers.append(worker)
                loaded = worker.load(self.pace.timeout, lane.program)
                found = worker.ask(self.pace.timeout, calibrate=int(self.pace.block_ms * 1e6))
            except WorkerError as error:
                lane.failure = error
                continue
            lane.device, lane.device_name = str(loaded["device"]), loaded["device_name"]
            self.going.append((lane, worker, int(found["reps"]), found["ns"] <= SETTLE_NS))
            slowest = max(slowest, float(found["ns"]))
        return slowest

    def round(self) -> None:
        """Run one block of every lane, in random order."""
        self.rng.shuffle(self.going)
        for entry in list(self.going):
            lane, worker, reps, settles = entry
            try:
                if settles:
                    worker.ask(self.pace.timeout, block=1)
                block = worker.ask(self.pace.timeout, block=reps)
            except WorkerError as error:
                lane.failure = error
                self.going.remove(entry)
                continue
            lane.launches[-1].append((block["wall_ns"] / reps, block["cpu_ns"] / reps))

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.close()


def speed(before: Lane, after: Lane, null: NullControl | None, pace: Pace, adjusted_p: float | None = None) -> Speed:
    """Return what the times of two lanes say. On a GPU, CPU time says nothing and is left out."""
    pairs = _paired(before, after)
    if not pairs:
        return Speed(Verdict.NOT_MEASURED, why=str(after.failure or before.failure or "no pair was timed"))
    wall = _ratio(pairs, 0)
    cpu = _ratio(pairs, 1) if pace.cpu_time and before.device == "cpu" and _all_positive(pairs, 1) else None
    each = [_ratio(launch, 0) for launch in _by_launch(before, after) if len(launch) >= 6]
    verdict, why = statistics.verdict(
        wall,
        min_effect=pace.min_effect,
        null=null,
        adjusted_p=adjusted_p,
        cpu=cpu,
        launches=each,
        remedy="raise --pairs",
    )
    return Speed(
        verdict=verdict,
        ratio=wall,
        before_ms=numbers.median(pair[0][0] for pair in pairs) / 1e6,
        after_ms=numbers.median(pair[1][0] for pair in pairs) / 1e6,
        cpu_ratio=None if cpu is None else cpu.estimate,
        why=why,
    )


def null_control(before: Lane, null: Lane) -> NullControl | None:
    """Return what a second copy of the original read; None where it gave no pair."""
    pairs = _paired(before, null)
    return statistics.null_control([p[0][0] for p in pairs], [p[1][0] for p in pairs]) if pairs else None


def blocks(before: Lane, after: Lane) -> tuple[tuple[float, float], ...]:
    """Return the wall nanoseconds of each pair."""
    return tuple((first[0], second[0]) for first, second in _paired(before, after))


_Times = tuple[float, float]


def _by_launch(before: Lane, after: Lane) -> list[list[tuple[_Times, _Times]]]:
    """Return complete rounds; of a lane that failed on the way, those before it did."""
    return [
        list(zip(first, second, strict=False)) for first, second in zip(before.launches, after.launches, strict=False)
    ]


def _paired(before: Lane, after: Lane) -> list[tuple[_Times, _Times]]:
    return [pair for launch in _by_launch(before, after) for pair in launch]


def _ratio(pairs: Sequence[tuple[_Times, _Times]], clock: int) -> Ratio:
    return statistics.ratio([pair[0][clock] for pair in pairs], [pair[1][clock] for pair in pairs])


def _all_positive(pairs: Sequence[tuple[_Times, _Times]], clock: int) -> bool:
    return all(side[clock] > 0 for pair in pairs for side in pair)
