"""What script mode is asked for, and what its report says of the asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchlint.api import Document
from torchlint.verify.fixes import FixUnit
from torchlint.verify.machine.doctor import Doctor
from torchlint.verify.model import Machine, Plan
from torchlint.verify.options import Options
from torchlint.verify.script.command import Command


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be verified.

    Args:
        root: the project, which is copied.
        cwd: where the program is run, in the project.
        command: the program.
        units: the fixes.
        documents: the files that they change, by posix path under `root`.
        skipped: fixes that are left out, in words.
        options: how.
        doctor: the interpreter and the machine.
    """

    root: Path
    cwd: Path
    command: Command
    units: tuple[FixUnit, ...]
    documents: Mapping[str, Document]
    skipped: tuple[str, ...]
    options: Options
    doctor: Doctor

    @property
    def device(self) -> str:
        """Where the program runs: "cuda" or "cpu"; counts alone are taken from a CPU."""
        wanted = self.options.device
        return ("cuda" if self.doctor.gpus else "cpu") if wanted == "auto" else "cpu" if wanted != "cuda" else wanted

    @property
    def landlock(self) -> bool:
        """Whether writes outside the copy are refused."""
        return self.options.isolation == "auto" and self.doctor.host.landlock > 0


def machine(request: Request) -> Machine:
    """Return where it ran."""
    doctor, host = request.doctor, request.doctor.host
    landlock = f"copy + Landlock {host.landlock}" if request.landlock else "copy"
    return Machine(
        device="virtual-cuda" if request.options.device == "virtual-cuda" else request.device,
        device_name=doctor.gpus[0].name if request.device == "cuda" and doctor.gpus else None,
        torch=doctor.torch or "",
        python=doctor.python_version or "",
        threads=request.options.threads,
        cores=host.cores,
        loadavg=host.loadavg,
        psi_cpu_some_avg10=host.psi_cpu_some_avg10,
        isolation=landlock,
    )


def plan(options: Options, block_steps: int) -> Plan:
    """Return what was to be run; `block_steps` is 0 where nothing was timed."""
    return Plan(
        pairs=options.pairs,
        launches=options.launches,
        block_steps=block_steps or None,
        warmup=options.warmup,
        settle=options.settle,
        seed=options.seed,
        min_effect=options.min_effect,
        ablation=options.ablation,
        check_steps=options.check_steps,
    )
