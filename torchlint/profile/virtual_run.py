"""A run of the user's program on the ledger's virtual device: it counts what steps would wait for
and copy on a machine with a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchlint.api import ledger_rows
from torchlint.base.records import frozen
from torchlint.profile.running import COUNTING, Run, Wanted
from torchlint.program.command import Command
from torchlint.program.errors import ProgramFailedError
from torchlint.program.machine.doctor import Doctor
from torchlint.program.machine.workspace import Workspace
from torchlint.program.traffic import SKIPPED_STEPS


@frozen
class Counted:
    """What such a run left: the ledger's summary, None where there is none; and how the program
    failed under the ledger, empty where it did not, and the last lines of its output then."""

    counts: Mapping[str, Any] | None
    failed: str
    log: str = ""


def counted(
    root: Path,
    cwd: Path,
    command: Command,
    wanted: Wanted,
    doctor: Doctor,
    show: Callable[[str], None],
) -> Counted:
    """Run a program under the ledger, in a copy of its own: one run may leave what changes the
    next.

    Args:
        root: the project, which is copied.
        cwd: where the program is run, in the project.
        command: the program.
        wanted: how; its steps are counted after a few.
        doctor: the interpreter and the machine.
        show: takes a line of progress.
    """
    eager = replace(wanted, env={**wanted.env, "TORCHDYNAMO_DISABLE": "1"})
    settings = {
        "steps": wanted.steps,
        "skipped": SKIPPED_STEPS,
        "operations": ledger_rows(),
    }
    with Workspace() as workspace:
        run = Run(root, cwd, command, eager, doctor, workspace, COUNTING)
        try:
            records = run.records(
                settings, lambda words: show("predicting what a GPU would wait for")
            )
            run.check(records)
        except ProgramFailedError as error:
            return Counted(None, _failure(error), error.log)
    most = max(records, key=lambda record: int(record["steps"]), default=None)
    return Counted(None if most is None else most["counts"], "")


def _failure(error: ProgramFailedError) -> str:
    """Return how a program failed, with the last line that it wrote."""
    last = next((line for line in reversed(error.log.splitlines()) if line.strip()), "")
    return f"under the ledger {error}{f': {last.strip()}' if last else ''}"
