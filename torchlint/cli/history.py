"""``torchlint history``: what ``--history`` wrote, drawn; and the writing of it."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path

import click

from torchlint.base.errors import OutputError
from torchlint.cli.against import HERE
from torchlint.cli.options import color_option, wants_color
from torchlint.cli.output import check_output_file, write_report
from torchlint.cli.terminal import is_terminal
from torchlint.report.history import Entry, drawing, line, read, text
from torchlint.report.kit.words import pluralise, visible
from torchlint.source.revisions import described
from torchlint.verify.model import Report
from torchlint.verify.output.phrases import bounded, counted, verdict
from torchlint.verify.output.versions import change, results


@click.command("history")
@click.argument("file", metavar="FILE")
@click.option(
    "--output-format",
    type=click.Choice(["text", "svg"]),
    default="text",
    help="A table for the terminal, or a drawing.",
)
@click.option(
    "-o",
    "--output-file",
    metavar="FILE",
    help="Write it to FILE instead of standard output.",
)
@color_option
def history_command(file: str, output_format: str, output_file: str | None, color: str) -> int:
    """Draw FILE, to which verify and profile append what they compared (--history): one row for
    each comparison, those of one program and machine together.

    Exit code: 0, or 2 where FILE is no history.
    """
    if output_file is not None:
        check_output_file(output_file, {os.path.realpath(file)})
    entries = read(file)
    if output_format == "svg":
        found = drawing(entries)
    else:
        terminal = output_file is None and is_terminal(sys.stdout)
        found = text(entries, color=wants_color(color, terminal))
    write_report(output_file, found)
    return 0


def append(path: str, entry: Entry) -> None:
    """Add an entry to a file of ``--history``.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with Path(path).open("ab") as stream:
            stream.write(line(entry))
    except OSError as error:
        raise OutputError(f"--history {visible(path)}: {error.strerror or error}") from None


def now() -> str:
    """Return the time for an entry."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def of_versions(report: Report, root: str) -> Entry:
    """Return what the comparison of two versions came to.

    Args:
        report: of ``verify``.
        root: a folder of the project, absolute.
    """
    assert report.versions is not None
    before, after = report.versions
    found, machine = change(report), report.machine
    speed = found.speed if found is not None else None
    counts = counted(found) if found is not None else None
    ratio = speed.ratio if speed is not None else None
    commit = report.extra.get(after, "")
    commit = "" if commit.startswith(after) else commit[:10]
    copied = None
    if counts is not None and counts.h2d_bytes is not None and counts.d2h_bytes is not None:
        one, two = zip(counts.h2d_bytes, counts.d2h_bytes, strict=True)
        copied = sum(one), sum(two)
    ms = None
    if speed is not None and speed.before_ms is not None and speed.after_ms is not None:
        ms = speed.before_ms, speed.after_ms
    device = machine.device_name or machine.device
    return Entry(
        date=now(),
        command=shlex.join(report.command),
        machine=f"{device}, {pluralise(machine.cores, 'core')}, torch {machine.torch}",
        before=before,
        after=after,
        commit=commit or (described(root) if after.startswith(HERE) else ""),
        verdict=verdict(found) if found is not None else "",
        ratio=ratio.estimate if ratio is not None else None,
        ci95=(bounded(ratio.ci95[0]), bounded(ratio.ci95[1])) if ratio is not None else None,
        results=results(found.equality) if found is not None else None,
        ms=ms,
        waits=counts.syncs if counts is not None else None,
        copied_bytes=copied,
        peak_bytes=found.memory.peak_bytes if found is not None and found.memory else None,
    )
