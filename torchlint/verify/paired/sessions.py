"""A run with resident workers: its zygotes, one a launch, and the versions of a program that they
time in turns.

The versions are made anew every few pairs, each in a fork of its own: what memory a making got
stays with it, so a making is one sample. Two launches by default, which make in turns, each from a
zygote of its own: workers forked from one zygote share its address layout.

A fork is a tenth of a second, and what a version sets for its process (flags of torch, the working
folder, modules of one name, random streams) reaches no other. One process for all of them would
save the start of CUDA in each, and would have to find out which versions change what the others
share.

A block is as many runs in every version: as many as the original needs for its least length.
Blocks of one length would give a faster version more runs, and even identical ones different
numbers.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torchlint.base.records import frozen
from torchlint.program.machine.doctor import ready
from torchlint.program.machine.workspace import Workspace
from torchlint.verify import statistics
from torchlint.verify.model import Machine, NullControl, Plan, Speed, Verdict
from torchlint.verify.options import Options
from torchlint.verify.session.facts import WarmFacts
from torchlint.verify.session.site import Site, site_in
from torchlint.verify.session.times import INTERRUPTED, Times
from torchlint.verify.session.timing import Block, Lane, take_turns
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.session.workers import Worker, Zygote
from torchlint.verify.variants import ORIGINAL

SETTLE_NS = 2_000_000
"""The time of the runs before each block that are not measured: other workers have had the
caches."""
LONG_NS = 5_000_000
"""A run that takes longer needs none before it."""
FIRST_SECONDS, LATER_SECONDS = 5.0, 1.0
"""The most time until blocks of a version are even on CUDA, where it is made first and later:
clocks, allocator, libraries that are loaded when needed. On a CPU one block is enough."""


@frozen
class Version:
    """A version of the program: settings for the worker, and where it starts (in an empty folder
    where None)."""

    program: Mapping[str, object]
    cwd: Path | None = None


PAIRS = 4
"""The most pairs of one making."""
MAKINGS = 4
"""The least makings, where there are as many pairs."""
SLOW_MAKING = 1.0
"""A making of all versions that takes more seconds is done only `MAKINGS` times."""
CUDA_MS, CUDA_RUNS = 20.0, 5
"""The least length and number of runs of a block on CUDA."""


class _Resident(Lane):
    """A version that is loaded in a worker."""

    def __init__(self, name: str, worker: Worker, version: Version) -> None:
        super().__init__(name)
        self.worker = worker
        loaded = worker.load(version.program)
        self.device, self.device_name = str(loaded["device"]), loaded["device_name"]
        self.reps, self.ns = 0, 0.0

    def calibrated(self, block_ms: float) -> int:
        """Return how many runs make a block."""
        cuda = self.device == "cuda"
        least = max(block_ms, CUDA_MS) if cuda else block_ms
        reps = int(self.worker.ask(calibrate=int(least * 1e6))["reps"])
        return max(reps, CUDA_RUNS) if cuda else reps

    def warm(self, reps: int, seconds: float) -> None:
        """Run blocks that are not measured: one, and on CUDA for at most so many seconds until they
        are even. From now on a block is so many runs."""
        self.reps = reps
        on_device = seconds if self.device == "cuda" else 0.0
        self.ns = float(self.worker.ask(warm=reps, seconds=on_device)["ns"])

    @property
    def before(self) -> int:
        """Runs before a block that are not measured."""
        return math.ceil(SETTLE_NS / max(self.ns, 1.0)) if self.ns <= LONG_NS else 0

    @property
    def seconds(self) -> float:
        """About what a block takes."""
        return (self.before + self.reps) * self.ns / 1e9

    def block(self) -> Block:
        taken = self.worker.ask(block=self.reps, before=self.before)
        wall, cpu, events = (taken[key] / self.reps for key in ("wall_ns", "cpu_ns", "events_ns"))
        return Block(wall, cpu, events=events)


def _forked_workers(
    zygote: Zygote,
    versions: Mapping[str, Version],
    failures: dict[str, ProgramError],
    rng: random.Random,
    stack: ExitStack,
) -> list[_Resident]:
    """Fork a worker for each version, in random order, and return them in the order given; what
    fails, now or before, is left out."""
    lanes = {}
    for name in rng.sample(list(versions), len(versions)):
        if name not in failures:
            try:
                worker = stack.enter_context(zygote.fork(versions[name].cwd))
                lanes[name] = _Resident(name, worker, versions[name])
            except ProgramError as error:
                failures[name] = error
    return [lanes[name] for name in versions if name in lanes]


def _warmed(lanes: Sequence[_Resident], reps: int, block_ms: float) -> int:
    """Warm all versions up and return the runs of a block, found for the original where `reps` is
    0."""
    seconds = LATER_SECONDS if reps else FIRST_SECONDS
    for lane in lanes:
        try:
            reps = reps or lane.calibrated(block_ms)
            lane.warm(reps, seconds)
        except ProgramError as error:
            lane.failure = error
            if not reps:
                break
    return reps


def pairs_of_making(total: int, seconds: float) -> int:
    """Return how many pairs each making gets.

    Args:
        total: pairs of all makings.
        seconds: that one making of all versions takes.
    """
    if seconds > SLOW_MAKING:
        return -(-total // MAKINGS)
    return min(PAIRS, max(1, total // MAKINGS))


@frozen
class Session:
    """What all programs of a run share: where they work, and the zygotes that fork their
    workers."""

    site: Site
    zygotes: tuple[Zygote, ...]

    @property
    def options(self) -> Options:
        """How it is run."""
        return self.site.options

    def demand(self) -> None:
        """Wait until torch is imported.

        Raises:
            NoTorchError: the interpreter has none that can be used, or no GPU where one is asked
                for.
        """

        def first(end: float) -> Zygote:
            self.zygotes[0].ready(max(0.0, end - time.monotonic()))
            return self.zygotes[0]

        options = self.options
        ready(options.python, options.device, WarmFacts(options.python, first, cold=False))
        for zygote in self.zygotes:
            zygote.ready()

    def fork(self, cwd: Path | None = None) -> Worker:
        """Return a new worker for what is not timed."""
        return self.zygotes[0].fork(cwd)

    def measure(
        self,
        versions: Mapping[str, Version],
        block_ms: float,
        long_ms: float = math.inf,
        end: float = math.inf,
        tell: Callable[[float], None] = lambda seconds: None,
    ) -> Times:
        """Time all versions against each other; the first is the original.

        A version that fails is left out from then on. Where the original fails nothing goes on. At
        an interrupt it ends, and complete rounds are kept.

        Args:
            block_ms: the least length of a block of the original.
            long_ms: where one run takes longer there are 12 pairs at most, the smallest number for
                a verdict.
            end: the time (`time.monotonic`) at which no further round is begun, nor a making that
                would last longer than until then; one round is run in any case.
            tell: takes the seconds that it will take, about, once that is known.
        """
        times = Times(remade=True)
        try:
            self._measure(times, versions, block_ms, long_ms, end, tell)
        except KeyboardInterrupt:
            times.interrupted = True
        return times

    def _measure(
        self,
        times: Times,
        versions: Mapping[str, Version],
        block_ms: float,
        long_ms: float,
        end: float,
        tell: Callable[[float], None],
    ) -> None:
        rng = random.Random(self.options.seed)
        total, done, size, reps, seconds = self.options.pairs, 0, 0, 0, 0.0
        for zygote in itertools.cycle(self.zygotes):
            if done >= total or ORIGINAL in times.failures:
                break
            begun = time.monotonic()
            if done and begun + seconds > end:
                times.cut = True
                break
            with ExitStack() as stack:
                lanes = _forked_workers(zygote, versions, times.failures, rng, stack)
                if ORIGINAL in times.failures or len(lanes) < 2:
                    break
                reps = _warmed(lanes, reps, block_ms)
                seconds = time.monotonic() - begun
                if not done:
                    times.device, times.device_name = lanes[0].device, lanes[0].device_name
                    if max(lane.ns for lane in lanes) > long_ms * 1e6:
                        total = min(total, statistics.LOOKS[0])
                    size = pairs_of_making(total, seconds)
                    makings = math.ceil(total / size) - 1
                    tell(makings * seconds + total * sum(lane.seconds for lane in lanes))
                wanted = min(size, total - done)
                stack.callback(times.add, lanes)
                take_turns(lanes, wanted, rng, end=end)
                times.cut |= len(lanes[0].blocks) < wanted and time.monotonic() > end
            done += size

    def speed(self, times: Times, name: str, null: NullControl | None) -> Speed:
        """Return what the times of a version say. On a GPU, CPU time says nothing and is left
        out."""
        if not times.pairs(name):
            why = INTERRUPTED if times.interrupted else "no pair was timed"
            return Speed(Verdict.NOT_MEASURED, why=str(times.why_lost(name) or why))
        remedy = "raise --budget" if times.cut else "raise --pairs"
        remedy = "it was interrupted" if times.interrupted else remedy
        alone = times.device == "cpu" and self.options.threads == 1
        return times.speed(name, self.options, null, cpu_time=alone, remedy=remedy)

    def machine(self, used: Times | None) -> Machine:
        """Return where it ran; the device is the one that the programs used."""
        device, name = (used.device, used.device_name) if used is not None else ("", None)
        facts = self.zygotes[0].facts
        return self.site.machine(
            device=device or "cpu",
            device_name=name,
            torch=str(facts["torch"]),
            python=str(facts["python"]),
        )

    def plan(self) -> Plan:
        """Return what was to be run."""
        return self.site.plan(warmup=0, settle=1, ablation="none")


@contextmanager
def session(
    options: Options, workspace: Workspace, preload: Sequence[str] = ()
) -> Iterator[Session]:
    """Start the zygotes; they import torch while the parent goes on.

    Args:
        options: interpreter, device, launches, threads, isolation.
        workspace: of the run.
        preload: modules that many programs import.

    Raises:
        UsageError: this system cannot fork.
    """
    site = site_in(workspace, options)
    launches = 1 if options.device == "virtual-cuda" else max(1, options.launches)
    with ExitStack() as stack:
        yield Session(
            site,
            tuple(stack.enter_context(Zygote(site, number, preload)) for number in range(launches)),
        )
