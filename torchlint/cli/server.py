"""``torchlint server``: findings and fixes in the editor."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from torchlint.base.errors import UsageError, extra
from torchlint.cli.output import complain


@click.command("server")
@click.option(
    "--stdio", is_flag=True, hidden=True, help="Use standard input and output, as is done anyway."
)
@click.option(
    "--clientProcessId",
    "client",
    type=int,
    hidden=True,
    help="Taken from the first message instead.",
)
@click.option(
    "--profile",
    metavar="FILE",
    help="Show what fixing findings saves at most, by this report of `torchlint profile` in JSON.",
)
def server_command(stdio: bool, client: int | None, profile: str | None) -> int:
    """Serve an editor by the Language Server Protocol, on standard input and output.

    Editors start it by themselves. Exit code: 0 the client ended it as it should, 1 the client went
    away, 2 wrong usage, 130 interrupted.
    """
    if importlib.util.find_spec("pygls") is None or importlib.util.find_spec("lsprotocol") is None:
        raise UsageError(f"the server needs pygls: {extra('lsp')}")
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("standard input or output is closed")
    if sys.stdin.isatty():
        complain(
            "torchlint: this is a server for editors, which speaks to them on standard input; "
            "Ctrl-C ends it"
        )
    from torchlint.lsp.serve import serve
    from torchlint.manual.local import local_pages
    from torchlint.manual.pages import page

    if profile is not None:
        from torchlint.report.measured import read_measurements

        read_measurements(profile)
    return serve(page, local_pages, os.path.abspath(profile) if profile is not None else "")
