"""How many workers a program's DataLoaders need: it is run with several numbers of them, in rounds,
and the steps of each are timed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.profile.running import NO_STEP, Pace, Run, Wanted, pace_of, stepped, told
from torchlint.program.errors import ProgramFailedError
from torchlint.program.machine.manifest import manifest, warnings
from torchlint.program.machine.workspace import Workspace
from torchlint.report.kit.words import pluralise

ROUNDS = 3
"""How often each number is tried, in turn with the others, so that what disturbs the machine for a
while meets all of them."""
LEAST = 0.03
"""Share of a step below which a change does not matter."""
_FAR = 0.1
"""Share of a step that a round may not differ by where nothing is said to matter."""
_STEPS = 20
"""So many steps are timed at least: workers hand out their batches in bursts of their number."""
_FEWEST = 6
"""So many steps are timed where the program has no more."""
_MOST = 4
"""How many workers for each core are tried, where the program itself asks for so many."""


@dataclass(slots=True)
class Tried:
    """What was measured with a number of workers.

    Args:
        workers: the number.
        steps: nanoseconds of a step, of each round.
        waits: nanoseconds of these in which the program waited for a batch.
        failed: why the program cannot run so; empty where it can.
    """

    workers: int
    steps: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    failed: str = ""

    @property
    def step(self) -> float:
        """Return the median over the rounds."""
        return statistics.median(self.steps)

    @property
    def wait(self) -> float:
        """Return the median over the rounds."""
        return statistics.median(self.waits)

    def faster(self, other: Tried) -> bool:
        """Say whether a step is faster than with another number, by more than does not matter, in
        every round."""
        pairs = zip(self.steps, other.steps, strict=True)
        return all(mine < (1 - LEAST) * its for mine, its in pairs)

    def may_be_faster(self, other: Tried) -> bool:
        """Say whether the median is, or one round is by far, though not every round."""
        if self.faster(other):
            return False
        least = min(mine / its for mine, its in zip(self.steps, other.steps, strict=True))
        return self.step < (1 - LEAST) * other.step or least < 1 - _FAR


@frozen
class Sweep:
    """All numbers that were tried, by number.

    Args:
        typed: the command.
        tried: what was measured.
        own: the numbers of workers that the program itself gives its loaders.
        cores: how many the machine has for it.
        timed: steps of each round.
        device: the GPU's name; empty for a run on a CPU.
        notes: what a reader has to know.
    """

    typed: tuple[str, ...]
    tried: tuple[Tried, ...]
    own: tuple[int, ...]
    cores: int
    timed: int
    device: str
    notes: tuple[str, ...]

    @property
    def ran(self) -> tuple[Tried, ...]:
        """Return the numbers with which the program runs."""
        return tuple(one for one in self.tried if not one.failed)

    @property
    def enough(self) -> Tried:
        """Return the least number than which no larger one is faster, in every round and by more
        than does not matter."""
        ran = self.ran
        for at, one in enumerate(ran):
            if not any(more.faster(one) for more in ran[at + 1 :]):
                return one
        raise AssertionError("the largest number has none above it")

    @property
    def unsettled(self) -> tuple[Tried, ...]:
        """Return the larger numbers of which the rounds do not agree whether they are faster."""
        enough = self.enough
        more = (one for one in self.ran if one.workers > enough.workers)
        return tuple(one for one in more if one.may_be_faster(enough))

    @property
    def slower(self) -> tuple[Tried, ...]:
        """Return the larger numbers with which steps are slower in every round."""
        enough = self.enough
        return tuple(one for one in self.ran if one.workers > enough.workers and enough.faster(one))


def sweep(wanted: Wanted, show: Callable[[str], None]) -> Sweep:
    """Run a program with 0, 1, 2, 4 ... workers up to the number of cores, and with its own number.

    Args:
        wanted: what program, and how; its project is copied for each run.
        show: takes a line of progress.

    Raises:
        ProgramFailedError: the program fails with every number of workers.
        UsageError: it has no DataLoader, or ends before enough steps.
    """
    before = manifest(wanted.root)
    cores = available()
    numbers = counts(cores)
    timed = -(-max(_STEPS, wanted.steps) // numbers[-1]) * numbers[-1]
    pace = _Steps(max(wanted.warmup, 2 * numbers[-1]), timed)
    show("running the program as it is")
    loaders, device, pace = _survey(wanted, pace)
    own = tuple(sorted({each["workers"] for each in loaders}))
    numbers = sorted({*numbers, *(each for each in own if each <= _MOST * cores)})
    found = {number: Tried(number) for number in numbers}
    first: ProgramFailedError | None = None
    for turn in range(ROUNDS):
        for number in reversed(numbers) if turn % 2 else numbers:
            one = found[number]
            if one.failed:
                continue
            show(f"round {turn + 1} of {ROUNDS}: {pluralise(number, 'worker')}")
            try:
                measured = _paced(wanted, number, pace)
            except ProgramFailedError as error:
                one.failed, first = told(error), first or error
            else:
                one.steps.append(measured.step)
                one.waits.append(sum(measured.loading) / len(measured.loading))
    if first is not None and all(one.failed for one in found.values()):
        raise first
    busy = filter(None, (wanted.doctor.host.busy,))
    notes = (*warnings(wanted.root, before), *busy, *_short(pace, timed), *_doubts(loaders))
    return Sweep(wanted.command.typed, tuple(found.values()), own, cores, pace.timed, device, notes)


@frozen
class _Steps:
    """How many steps settle, and how many are timed behind them."""

    settle: int
    timed: int


def _survey(wanted: Wanted, pace: _Steps) -> tuple[list[dict[str, Any]], str, _Steps]:
    """Run it as it is; return its loaders, its device and how many steps can be timed.

    Raises:
        ProgramFailedError: it fails.
        UsageError: it has no DataLoader, or too few steps.
    """
    records = _run_with(wanted, None, pace)
    if not records:
        raise UsageError(NO_STEP)
    first, steps = records[0], stepped(records)
    if not first["loaders"]:
        raise UsageError(
            f"the program makes no DataLoader of torch.utils.data in {pluralise(steps, 'step')}"
            ": there are no workers to try"
        )
    if first["total_ns"] is None:
        # How many steps of a short program can be timed.
        settle = steps // 3
        if steps - settle - 1 < _FEWEST:
            raise UsageError(
                f"the program ended after {pluralise(steps, 'step')}: a sweep needs "
                f"{_FEWEST * 3 // 2 + 1} at least"
            )
        pace = _Steps(settle, steps - settle - 1)
    return first["loaders"], first["device"], pace


def _paced(wanted: Wanted, number: int, pace: _Steps) -> Pace:
    """Run it with a number of workers, and return its steps.

    Raises:
        ProgramFailedError: it fails, or does fewer steps than it did without workers.
    """
    records = _run_with(wanted, number, pace)
    found = pace_of(records[0]) if records else None
    if found is None:
        raise ProgramFailedError(f"the program ended after {stepped(records)} steps")
    return found


def _run_with(wanted: Wanted, number: int | None, pace: _Steps) -> list[dict[str, Any]]:
    with Workspace() as workspace:
        run = Run(wanted, workspace)
        settings = {
            "settle": pace.settle,
            "warmup": pace.settle + pace.timed,
            "steps": 0,
            "memory": False,
            "shapes": False,
            "workers": number,
        }
        records = run.records(settings, lambda words: None)
        if not records or records[0]["total_ns"] is None:
            run.check(records)
        return records


def _short(pace: _Steps, wanted: int) -> tuple[str, ...]:
    if pace.timed >= wanted:
        return ()
    return (
        f"the program ends so soon that {pluralise(pace.timed, 'step')} of {wanted} were timed: "
        "workers that load ahead look better than they are",
    )


def available() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def counts(cores: int) -> list[int]:
    """Return the numbers to try: none, powers of two, and all cores."""
    powers = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
    return sorted({0, *powers, cores})


def _doubts(loaders: Sequence[dict[str, Any]]) -> list[str]:
    """Return what makes numbers of workers something else than a matter of speed."""
    found = []
    for name in sorted({each["dataset"] for each in loaders if each["iterable"]}):
        shards = all(each["shards"] for each in loaders if each["dataset"] == name)
        if not shards:
            found.append(
                f"{name} is an IterableDataset whose __iter__ does not ask get_worker_info(): each "
                "worker reads all of it, so that with n workers its data comes n times"
            )
    return found
