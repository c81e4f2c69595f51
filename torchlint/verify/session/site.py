"""Where and how the processes of one verification work, the same for all modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchlint.base.records import frozen
from torchlint.program.machine import host
from torchlint.program.machine.processes import Child, start
from torchlint.program.machine.workspace import Workspace
from torchlint.verify import inside
from torchlint.verify.model import Machine, Plan
from torchlint.verify.options import Options

_PLANNED = (
    "pairs",
    "launches",
    "warmup",
    "settle",
    "seed",
    "min_effect",
    "ablation",
    "check_steps",
)


@frozen
class Site:
    """What all processes of a verification share.

    Args:
        folder: of the workspace, for sockets, logs and snapshots; its path is short (see
            `workspace.Workspace`).
        inject: the folder that holds ``torchlint_inside`` and the ``sitecustomize`` that starts the
            recorder.
        options: interpreter, threads, limits, folders that may be written.
        host: the machine.
    """

    folder: Path
    inject: Path
    options: Options
    host: host.Host

    @property
    def landlock(self) -> bool:
        """Whether writes outside the copies are refused."""
        return self.options.isolation == "auto" and self.host.landlock > 0

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        own: Sequence[Path],
    ) -> Child:
        """Start the interpreter; it may write to its `own` folders and to those that the user
        allows."""
        return start(
            [self.options.python, *arguments],
            cwd=cwd,
            env=env,
            log=log,
            writable=self.writable(own),
        )

    def writable(self, own: Sequence[Path]) -> list[Path] | None:
        """Return where a process may write that has some folders of its own; None for anywhere."""
        return [*own, *self.options.allow_write] if self.landlock else None

    def machine(self, *, device: str, device_name: str | None, torch: str, python: str) -> Machine:
        """Return where it ran; `device` is the one that the programs used."""
        return Machine(
            device="virtual-cuda" if self.options.device == "virtual-cuda" else device,
            device_name=device_name,
            torch=torch,
            python=python,
            threads=self.options.threads,
            cores=self.host.cores,
            loadavg=self.host.loadavg,
            psi_cpu_some_avg10=self.host.psi_cpu_some_avg10,
            isolation=f"copy + Landlock {self.host.landlock}" if self.landlock else "copy",
        )

    def plan(self, block_steps: int | None = None, **fixed: Any) -> Plan:
        """Return what was to be run: the options, but for what a mode has `fixed`."""
        given = {name: getattr(self.options, name) for name in _PLANNED}
        return Plan(block_steps=block_steps, **{**given, **fixed})


def site_in(workspace: Workspace, options: Options) -> Site:
    """Prepare a workspace for the processes of a verification."""
    inject = workspace.inject(Path(inside.__file__).parent)
    return Site(workspace.path, inject, options, host.look(workspace.path))
