"""A run with resident workers: its workspace, its zygotes (one a launch), and the facts about machine and plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from torchlint.verify.machine import host
from torchlint.verify.machine.workspace import Workspace
from torchlint.verify.model import Machine, Plan
from torchlint.verify.options import Options
from torchlint.verify.paired.pairs import Lane, Pace
from torchlint.verify.paired.workers import Place, Zygote


@dataclass(frozen=True, slots=True)
class Session:
    """What all programs of a run share.

    Args:
        zygotes: one a launch.
        place: where they work.
        here: the machine.
    """

    zygotes: tuple[Zygote, ...]
    place: Place
    here: host.Host

    @property
    def options(self) -> Options:
        """How it is run."""
        return self.place.options

    def pace(self, block_ms: float, long_ms: float = float("inf")) -> Pace:
        """Return how pairs are timed, with blocks of at least `block_ms` milliseconds; see `pairs.Pace`."""
        options = self.options
        return Pace(
            pairs=options.pairs,
            seed=options.seed,
            min_effect=options.min_effect,
            block_ms=block_ms,
            timeout=options.timeout,
            cpu_time=options.threads == 1,
            long_ms=long_ms,
        )

    def machine(self, lanes: Sequence[Lane]) -> Machine:
        """Return where it ran; the device is the one that the programs used."""
        options, facts = self.options, self.zygotes[0].facts
        used = next((lane for lane in lanes if lane.device), None)
        virtual = options.device == "virtual-cuda"
        return Machine(
            device="virtual-cuda" if virtual else used.device if used else "cpu",
            device_name=used.device_name if used else None,
            torch=str(facts["torch"]),
            python=str(facts["python"]),
            threads=options.threads,
            cores=self.here.cores,
            loadavg=self.here.loadavg,
            psi_cpu_some_avg10=self.here.psi_cpu_some_avg10,
            isolation=f"copy + Landlock {self.here.landlock}" if self.place.landlock else "copy",
        )

    def plan(self) -> Plan:
        """Return what was to be run."""
        options = self.options
        return Plan(
            pairs=options.pairs,
            launches=options.launches,
            block_steps=None,
            warmup=0,
            settle=1,
            seed=options.seed,
            min_effect=options.min_effect,
            ablation="none",
        )


@contextmanager
def session(options: Options, workspace: Workspace, preload: Sequence[str] = ()) -> Iterator[Session]:
    """Start the zygotes; they import torch while the parent goes on.

    Args:
        options: interpreter, device, launches, threads, isolation.
        workspace: of the run.
        preload: modules that many programs import.

    Raises:
        UsageError: this system cannot fork.
    """
    cwd = workspace.path / "cwd"  # empty: a zygote in the project would import the project's own json.py
    cwd.mkdir()
    here = host.look(workspace.path)
    landlock = options.isolation == "auto" and here.landlock > 0
    cpu = options.device in ("cpu", "virtual-cuda")
    place = Place(workspace.path, workspace.inject(), cwd, options, landlock, cpu)
    launches = 1 if options.device == "virtual-cuda" else max(1, options.launches)
    with ExitStack() as stack:
        yield Session(
            tuple(stack.enter_context(Zygote(place, number, preload)) for number in range(launches)), place, here
        )
