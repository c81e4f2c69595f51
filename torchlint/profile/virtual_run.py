"""A run of the user's program on the ledger's virtual device: it counts what steps would wait for
and copy on a machine with a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torchlint.api import ledger_rows
from torchlint.base.records import frozen
from torchlint.profile.running import COUNTING, Run, Wanted, told
from torchlint.program.errors import ProgramFailedError
from torchlint.program.machine.workspace import Workspace
from torchlint.program.traffic import SKIPPED_STEPS


@frozen
class Counted:
    """What such a run left: the ledger's summary, None where there is none; and how the program
    failed under the ledger, empty where it did not, and the last lines of its output then."""

    counts: Mapping[str, Any] | None
    failed: str
    log: str = ""


def counted(wanted: Wanted, show: Callable[[str], None]) -> Counted:
    """Run a program under the ledger, in a copy of its own: one run may leave what changes the
    next.

    Args:
        wanted: what program, and how; its steps are counted after a few.
        show: takes a line of progress.
    """
    eager = replace(wanted, env={**wanted.env, "TORCHDYNAMO_DISABLE": "1"})
    settings = {
        "steps": wanted.steps,
        "skipped": SKIPPED_STEPS,
        "operations": ledger_rows(),
    }
    with Workspace() as workspace:
        run = Run(eager, workspace, COUNTING)
        try:
            records = run.records(
                settings, lambda words: show("predicting what a GPU would wait for")
            )
            run.check(records)
        except ProgramFailedError as error:
            return Counted(None, f"under the ledger {told(error)}", error.log)
    most = max(records, key=lambda record: int(record["steps"]), default=None)
    return Counted(None if most is None else most["counts"], "")
