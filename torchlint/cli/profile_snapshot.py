"""``torchlint profile --snapshot``: what held a GPU's memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.base.errors import UsageError
from torchlint.cli.options import Given, wants_color
from torchlint.cli.output import check_output_file, write_report
from torchlint.cli.profile_live import refuse_traces
from torchlint.cli.progress import Status
from torchlint.cli.terminal import is_terminal
from torchlint.profile.sites import Sources

if TYPE_CHECKING:
    from torchlint.profile.snapshot import Snapshot


def refuse_others(given: Given) -> None:
    """Refuse what a snapshot says nothing of.

    Raises:
        UsageError: naming the first.
    """
    refuse_traces(given, "--snapshot")
    if given["output_format"] not in ("text", "json"):
        raise UsageError(f"--snapshot gives text or json, not {given['output_format']}")


def snapshot_reported(given: Given, sources: Sources, command: Sequence[str]) -> int:
    """Read the snapshots and write the report.

    Raises:
        TraceError: one of them cannot be read.
        OutputError: the report cannot be written.
    """
    from torchlint.profile.output import memory
    from torchlint.profile.snapshot import snapshots

    to_file = given["output_file"] is not None
    if to_file:
        inputs = {os.path.realpath(path) for path in given["snapshot"]}
        check_output_file(given["output_file"], inputs)
    found: list[Snapshot] = []
    with Status(not given["quiet"]) as status:
        for path in given["snapshot"]:
            status.show(f"reading {path}")
            found += snapshots(path, sources)
    if given["output_format"] == "json":
        text = memory.document(found, command, __version__)
    else:
        color = not to_file and wants_color(given["color"], is_terminal(sys.stdout))
        text = memory.render(found, given["top"], color)
    write_report(given["output_file"], text)
    return 0
