"""The time pass: launches of lock-step rounds, in waves where not all variants fit into memory at
once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torchlint.program.machine.processes import Child
from torchlint.verify.model import Status
from torchlint.verify.script import lockstep
from torchlint.verify.script.lockstep import LaunchSettings, Resident
from torchlint.verify.script.pacing import Pace
from torchlint.verify.script.runs import Home, Runner, record_in
from torchlint.verify.session.times import Times
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.variants import NULL, ORIGINAL, Variant

MEMORY_SHARE = 0.7
"""How much of the free memory the processes of one wave may take."""


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
        self.found = Times()
        self.started = 0.0
        """Seconds that the processes of the last launch took to warm up."""
        self.launches = 0
        """How many there were."""
        self._sockets = 0

    def launch(self, variants: Sequence[Variant], rounds: int, seconds: float, pace: Pace) -> None:
        """Run one launch of all variants; each wave holds the original and the null control.

        Args:
            variants: the original and the null control first.
            rounds: blocks of each.
            seconds: for all rounds of the launch.
            pace: of the original; the steps that are not measured.

        Raises:
            KeyboardInterrupt: complete rounds are kept.
        """
        waves = _waves(variants, self.capacity)
        self.runner.launch, self.launches = self.launches, self.launches + 1
        try:
            for wave in waves:
                self._wave(wave, rounds, seconds / len(waves), pace)
        finally:
            self.runner.launch = 0

    def _wave(self, variants: Sequence[Variant], rounds: int, seconds: float, pace: Pace) -> None:
        options = pace.options
        if self.found.length:
            options = pace.within(self.found.length, rounds)
        started: dict[str, tuple[Child, Path]] = {}
        residents = [self._resident(variant.name, started, options.warmup) for variant in variants]
        settings = LaunchSettings(
            rounds,
            options.settle,
            options.block,
            options.timeout,
            seconds,
            self.together,
            self.runner.end,
            pace.step,
            lockstep.TRIALS if self.runner.device == "cuda" and not self.found.length else 0,
        )
        number, begun = self.launches, time.monotonic()

        def tell(done: int) -> None:
            if not done:
                self.started = time.monotonic() - begun
            self.tick(f"timing, launch {number}: round {done} of {rounds}")

        try:
            steps = lockstep.run(residents, settings, self.rng, tell)
        except KeyboardInterrupt:
            self.found.add(residents)
            raise
        self.found.block_steps = steps or self.found.block_steps
        for resident in residents:
            if resident.name in started:
                if resident.failure is not None:
                    resident.failure = self._in_words(resident.failure, *started[resident.name])
                name = resident.name
                folder = started[resident.name][1]
                record = record_in(folder)
                if record.get("peak"):
                    self.found.peaks.setdefault(name, []).append(int(record["peak"]))
                    self.found.basis = str(record.get("peak_basis", "vmhwm"))
                if record.get("alloc_retries") is not None:
                    self.found.retries[name] = int(record["alloc_retries"])
        self.found.add(residents)

    def _in_words(self, failure: ProgramError, child: Child, folder: Path) -> ProgramError:
        """Say why a process gave no more blocks: that it ended does not tell the end of its data
        from a crash."""
        if failure.kind != "ended":
            return failure
        record = self.runner.finished(child, folder)
        if record.status is Status.OK:
            self.found.length = record.steps
            return ProgramError(str(failure), "done")
        return ProgramError(
            self.runner.failure(record),
            "memory" if record.status is Status.OUT_OF_MEMORY else "ended",
        )

    def _resident(self, name: str, started: dict[str, tuple[Child, Path]], warmup: int) -> Resident:
        self._sockets += 1
        address = self.sockets / f"{self._sockets}.s"

        def start() -> Child:
            started[name] = self.runner.start(
                self.homes[name], "time", socket=str(address), warmup=warmup
            )
            return started[name][0]

        return Resident(name, start, address)


def _waves(variants: Sequence[Variant], capacity: int) -> list[list[Variant]]:
    """Cut the variants into waves of at most `capacity` processes, original and null control in
    each."""
    base = [variant for variant in variants if variant.name in (ORIGINAL, NULL)]
    rest = [variant for variant in variants if variant.name not in (ORIGINAL, NULL)]
    size = max(1, capacity - len(base))
    return [base + rest[at : at + size] for at in range(0, len(rest), size)] or [base]


def capacity(free: int | None, peak: int, least: int = 3) -> int:
    """Return how many processes of `peak` bytes fit into `MEMORY_SHARE` of `free` bytes; `least` in
    any case."""
    if free is None or peak <= 0:
        return 64
    return max(least, int(free * MEMORY_SHARE / peak))
