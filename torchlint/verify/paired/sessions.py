"""A run with resident workers: its zygotes, one a launch, and the versions of a program that they
time in turns.

Two launches by default, each from a zygote of its own: workers forked from one zygote share its
address layout.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchlint.program.machine.workspace import Workspace
from torchlint.verify import statistics
from torchlint.verify.model import Machine, NullControl, Plan, Speed, Verdict
from torchlint.verify.options import Options
from torchlint.verify.session.site import Site, site_in
from torchlint.verify.session.times import Times
from torchlint.verify.session.timing import Block, Lane, take_turns
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.session.workers import Worker, Zygote
from torchlint.verify.variants import ORIGINAL

SETTLE_NS = 5_000_000
"""A run up to this long is run once more, unmeasured, before each block: other workers have had the
caches."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the program: settings for the worker, and where it starts (in an empty folder
    where None)."""

    program: Mapping[str, object]
    cwd: Path | None = None


class _Resident(Lane):
    """A version that is loaded in a worker, with the number of runs that make a block."""

    def __init__(self, name: str, worker: Worker, version: Version, block_ms: float) -> None:
        super().__init__(name)
        self.worker = worker
        loaded = worker.load(version.program)
        self.device, self.device_name = str(loaded["device"]), loaded["device_name"]
        found = worker.ask(calibrate=int(block_ms * 1e6))
        self.reps, self.ns = int(found["reps"]), float(found["ns"])

    def block(self) -> Block:
        if self.ns <= SETTLE_NS:
            self.worker.ask(block=1)
        taken = self.worker.ask(block=self.reps)
        return Block(taken["wall_ns"] / self.reps, taken["cpu_ns"] / self.reps)


@dataclass(frozen=True, slots=True)
class Session:
    """What all programs of a run share: where they work, and the zygotes that fork their
    workers."""

    site: Site
    zygotes: tuple[Zygote, ...]

    @property
    def options(self) -> Options:
        """How it is run."""
        return self.site.options

    def fork(self, cwd: Path | None = None) -> Worker:
        """Return a new worker for what is not timed."""
        return self.zygotes[0].fork(cwd)

    def measure(
        self, versions: Mapping[str, Version], block_ms: float, long_ms: float = float("inf")
    ) -> Times:
        """Time all versions against each other, one launch a zygote; the first is the original.

        A version that fails is left out from then on. Where the original fails nothing goes on.

        Args:
            block_ms: the least length of a block.
            long_ms: where one run takes longer there are 12 pairs at most, the smallest number for
                a verdict.
        """
        times, rng, launches = Times(), random.Random(self.options.seed), len(self.zygotes)
        for number, zygote in enumerate(self.zygotes):
            if ORIGINAL in times.failures:
                break
            rounds = self.options.pairs // launches + (number < self.options.pairs % launches)
            with ExitStack() as stack:
                lanes = []
                for name, version in versions.items():
                    if name in times.failures:
                        continue
                    try:
                        worker = stack.enter_context(zygote.fork(version.cwd))
                        lanes.append(_Resident(name, worker, version, block_ms))
                    except ProgramError as error:
                        times.failures[name] = error
                        if name == ORIGINAL:
                            return times
                times.device, times.device_name = lanes[0].device, lanes[0].device_name
                if max(lane.ns for lane in lanes) > long_ms * 1e6:
                    rounds = min(rounds, -(-statistics.LOOKS[0] // launches))
                take_turns(lanes, rounds, rng)
                times.add(lanes)
        return times

    def speed(self, times: Times, name: str, null: NullControl | None) -> Speed:
        """Return what the times of a version say. On a GPU, CPU time says nothing and is left
        out."""
        if not times.pairs(name):
            return Speed(Verdict.NOT_MEASURED, why=str(times.why_lost(name) or "no pair was timed"))
        alone = times.device == "cpu" and self.options.threads == 1
        return times.speed(name, self.options, null, cpu_time=alone, remedy="raise --pairs")

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
