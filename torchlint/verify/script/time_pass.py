"""The time pass: launches of lock-step rounds, in waves where not all variants fit into memory at once."""

from __future__ import annotations

import math
import random
import statistics as numbers
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchlint.verify import statistics
from torchlint.verify.machine.processes import Child
from torchlint.verify.model import Ratio, Status
from torchlint.verify.options import Options
from torchlint.verify.script import lockstep
from torchlint.verify.script.baseline import failure
from torchlint.verify.script.lockstep import BLOCK_SECONDS, BLOCK_STEPS, Block, Pace, Resident
from torchlint.verify.script.runs import Home, Runner, record_in
from torchlint.verify.variants import NULL, ORIGINAL, Variant

MEMORY_SHARE = 0.7
"""How much of the free memory the processes of one wave may take."""
Pair = tuple[Block, Block]
"""The same round's block of the original and of the variant."""


@dataclass(slots=True)
class Timed:
    """What the time pass measured.

    Args:
        launches: per variant, the pairs of each launch.
        lost: per variant, why it gave no more blocks.
        failed: per variant that crashed or hung, how.
        peaks: per variant, the peaks of memory in bytes, one a launch, with what they were read from.
        block_steps: steps of a block in the last launch.
        level: per variant, the error that its last look may spend.
    """

    launches: dict[str, list[list[Pair]]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Status] = field(default_factory=dict)
    peaks: dict[str, list[int]] = field(default_factory=dict)
    basis: str = "vmhwm"
    retries: dict[str, int] = field(default_factory=dict)
    block_steps: int = 0
    level: dict[str, float] = field(default_factory=dict)

    def pairs(self, name: str) -> list[Pair]:
        """Return all pairs of a variant."""
        return [pair for launch in self.launches.get(name, []) for pair in launch]

    def merge(self, other: Timed) -> None:
        """Add what a later pass measured."""
        for name, launches in other.launches.items():
            self.launches.setdefault(name, []).extend(launches)
        for name, peaks in other.peaks.items():
            self.peaks.setdefault(name, []).extend(peaks)
        self.lost.update(other.lost)
        self.failed.update(other.failed)
        self.retries.update(other.retries)
        self.level.update(other.level)
        self.block_steps = other.block_steps or self.block_steps

    def ratio(self, name: str, clock: str = "wall") -> Ratio | None:
        """Return a variant's ratio by wall or CPU time, or None where there is no pair."""
        return _ratio(self.pairs(name), clock)

    def each_launch(self, name: str) -> list[Ratio]:
        """Return the ratio of each launch that has enough pairs for an interval."""
        found = (_ratio(launch, "wall") for launch in self.launches.get(name, []))
        return [ratio for ratio in found if ratio is not None and ratio.n >= 6]

    def milliseconds(self, name: str, side: int) -> float | None:
        """Return the median milliseconds per step of the original (side 0) or the variant (1)."""
        values = [pair[side].wall for pair in self.pairs(name)]
        return numbers.median(values) / 1e6 if values else None

    def peak(self, name: str) -> int | None:
        """Return the median peak of memory in bytes."""
        values = self.peaks.get(name)
        return int(numbers.median(values)) if values else None


def _ratio(pairs: Sequence[Pair], clock: str) -> Ratio | None:
    before = [getattr(pair[0], clock) for pair in pairs]
    after = [getattr(pair[1], clock) for pair in pairs]
    if not pairs or min(before + after) <= 0:
        return None
    return statistics.ratio(before, after)


class TimePass:
    """Times variants launch by launch.

    Args:
        runner: starts them.
        homes: their copies.
        sockets: a folder with a short path.
        together: how many processes may start at the same time.
        capacity: how many may be resident at once.
        rng: for the order of rounds.
        tick: called with a line of progress.
    """

    def __init__(
        self,
        runner: Runner,
        homes: Mapping[str, Home],
        sockets: Path,
        together: int,
        capacity: int,
        rng: random.Random,
        tick: Callable[[str], None],
    ) -> None:
        self.runner = runner
        self.homes = homes
        self.sockets = sockets
        self.together = together
        self.capacity = capacity
        self.rng = rng
        self.tick = tick
        self.found = Timed()
        self._number = 0
        self._sockets = 0

    def launch(self, variants: Sequence[Variant], rounds: int, seconds: float) -> None:
        """Run one launch of all variants; each wave holds the original and the null control.

        Args:
            variants: the original and the null control first.
            rounds: blocks of each.
            seconds: for all rounds of the launch.
        """
        waves = _waves(variants, self.capacity)
        for wave in waves:
            self._wave(wave, rounds, seconds / len(waves))

    def _wave(self, variants: Sequence[Variant], rounds: int, seconds: float) -> None:
        options = self.runner.options
        started: dict[str, tuple[Child, Path]] = {}
        residents = [self._resident(variant.name, started) for variant in variants]
        pace = Pace(rounds, options.settle, options.block, options.timeout, seconds, self.together)
        self._number += 1
        number = self._number
        steps = lockstep.run(
            residents, pace, self.rng, lambda done: self.tick(f"timing, launch {number}: round {done} of {rounds}")
        )
        self.found.block_steps = steps or self.found.block_steps
        first = residents[0]
        for resident in residents:
            if resident.lost:
                self.found.lost[resident.name] = self._in_words(resident, started)
            if resident is not first:
                pairs = list(zip(first.blocks, resident.blocks, strict=False))
                self.found.launches.setdefault(resident.name, []).append(pairs)
            self._take_peak(resident.name, started[resident.name][1] if resident.name in started else None)

    def _in_words(self, resident: Resident, started: Mapping[str, tuple[Child, Path]]) -> str:
        """Say why a process gave no more blocks: that it ended does not tell the end of its data from a crash."""
        if resident.name not in started:
            return resident.lost
        if not resident.lost.startswith("ended"):
            self.found.failed[resident.name] = Status.TIMEOUT
            return resident.lost
        record = self.runner.finished(*started[resident.name])
        if record.status is Status.OK:
            return resident.lost
        self.found.failed[resident.name] = record.status
        return failure(record, self.runner)

    def _resident(self, name: str, started: dict[str, tuple[Child, Path]]) -> Resident:
        self._sockets += 1
        address = self.sockets / f"{self._sockets}.s"

        def start() -> Child:
            started[name] = self.runner.start(self.homes[name], "time", socket=str(address))
            return started[name][0]

        return Resident(name, start, address)

    def _take_peak(self, name: str, folder: Path | None) -> None:
        record = record_in(folder) if folder is not None else {}
        if record.get("peak"):
            self.found.peaks.setdefault(name, []).append(int(record["peak"]))
            self.found.basis = str(record.get("peak_basis", "vmhwm"))
        if record.get("alloc_retries") is not None:
            self.found.retries[name] = int(record["alloc_retries"])


def rounds_of(options: Options) -> list[int]:
    """Return the rounds of each launch; after each is a look. The last, of as many as all others, is for what is open.

    Too few pairs to decide anything before the end are one look.
    """
    each = max(1, options.pairs // options.launches)
    planned = [each] * options.launches
    return [*planned, each * options.launches] if each >= statistics.LOOKS[0] else planned


def expected_seconds(record: Mapping[str, float], processes: int, options: Options, together: int) -> float:
    """Return about how long the launches will take, by the pace of the original's first run.

    Args:
        record: ``start_seconds`` up to the first step, ``step_seconds`` of a step.
        processes: resident at once.
        options: launches, pairs, warm-up, settle steps, block.
        together: how many processes start at the same time.
    """
    step = max(float(record.get("step_seconds", 0.0)), 1e-6)
    block = options.block or max(BLOCK_STEPS, math.ceil(BLOCK_SECONDS / step))
    start = float(record.get("start_seconds", 0.0)) + options.warmup * step
    rounds = max(1, options.pairs // options.launches)
    return options.launches * processes * (start / together + rounds * (options.settle + block) * step)


def _waves(variants: Sequence[Variant], capacity: int) -> list[list[Variant]]:
    """Cut the variants into waves of at most `capacity` processes, original and null control in each."""
    base = [variant for variant in variants if variant.name in (ORIGINAL, NULL)]
    rest = [variant for variant in variants if variant.name not in (ORIGINAL, NULL)]
    size = max(1, capacity - len(base))
    return [base + rest[at : at + size] for at in range(0, len(rest), size)] or [base]


def capacity(free: int | None, peak: int) -> int:
    """Return how many processes of `peak` bytes fit into `MEMORY_SHARE` of `free` bytes; three at least."""
    if free is None or peak <= 0:
        return 64
    return max(3, int(free * MEMORY_SHARE / peak))


class Stopwatch:
    """What is left of a budget of seconds."""

    def __init__(self, budget: float) -> None:
        self.start = time.monotonic()
        self.budget = budget

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def left(self) -> float:
        """Seconds left; negative when overdrawn."""
        return self.budget - self.spent
