"""``torchlint profile --sweep-workers … -- train.py``: how many workers a program's DataLoaders
need."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.base.errors import UsageError
from torchlint.cli.options import Given, wants_color
from torchlint.cli.output import check_output_file, write_report
from torchlint.cli.profile_live import prepared, refuse_traces
from torchlint.cli.progress import Status
from torchlint.cli.terminal import is_terminal

if TYPE_CHECKING:
    from torchlint.cli.scope import Scope
    from torchlint.profile.sweep import Sweep


def refuse_others(given: Given) -> None:
    """Refuse what a sweep says nothing of.

    Raises:
        UsageError: naming the first.
    """
    refuse_traces(given, "--sweep-workers", ("memory", "shapes", "keep_trace"))
    if given["output_file"] is not None:
        check_output_file(given["output_file"], set())
    if given["output_format"] == "html":
        raise UsageError("--sweep-workers makes no page: --output-format text, markdown or json")


def swept(
    typed: list[str], found: Scope, given: Given, status: Status, command: Sequence[str]
) -> int:
    """Run the program with several numbers of workers, and write the report.

    Raises:
        UsageError: it cannot be run as it was typed, has no DataLoader, or ends too early.
        NoTorchError: the interpreter has no torch, or no GPU where one is asked for.
        ProgramFailedError: the program fails with every number of workers.
        OutputError: the report cannot be written.
    """
    from torchlint.profile.sweep import sweep

    done = sweep(prepared(typed, found, given, status.show), status.show)
    status.show("")
    write_report(given["output_file"], _rendered(done, given, command))
    return 0


def _rendered(done: Sweep, given: Given, command: Sequence[str]) -> str:
    from torchlint.profile.output import sweeping

    match given["output_format"]:
        case "json":
            return sweeping.document(done, command, __version__)
        case "markdown":
            return sweeping.markdown(done)
    terminal = given["output_file"] is None and is_terminal(sys.stdout)
    return sweeping.text(done, wants_color(given["color"], terminal))
