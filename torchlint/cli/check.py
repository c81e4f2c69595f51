"""``torchlint check``: find what wastes a GPU."""

from __future__ import annotations

import sys
from typing import Any

import click

from torchlint.base.finding import NoteKind
from torchlint.cli import show
from torchlint.cli.options import Given, common_options, wants_color
from torchlint.cli.output import check_output_file, complain, emit, emit_bytes, undone, write_output_file
from torchlint.cli.preview import preview
from torchlint.cli.progress import is_terminal
from torchlint.cli.scope import STDIN, Scope, scope
from torchlint.cli.session import Session, exit_code
from torchlint.engine.catalog import Catalog, load_catalog
from torchlint.report import counts
from torchlint.report.formats import FORMATS, TEXT_FORMATS
from torchlint.report.run_report import RunReport
from torchlint.report.summary import summary
from torchlint.source.discover import SkipKind
from torchlint.source.document import encode


@click.command("check")
@common_options
@click.option("--fix", is_flag=True, help="Apply safe fixes, and report what remains.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of listing them.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever the rules find.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 when a fix was applied.")
def check_command(**given: Any) -> int:
    """Check PATHS (files and directories, - for standard input; default: here) and list what is found.

    Exit code: 0 nothing to report, 1 findings or unreadable files, 2 wrong usage or a file that torchlint
    itself failed on, 130 interrupted.
    """
    catalog = load_catalog()
    found = scope(given, catalog)
    if given["show_settings"] or given["show_files"]:
        return shown(found, given)
    if given["output_file"] is not None:
        check_output_file(given["output_file"], {target.found.path for target in found.targets})
    announce(found, given)
    if given["diff"]:
        return preview(found, catalog, given)
    session = _session(found, catalog, given)
    run = session.execute()
    _print(session, run, given)
    gated = session.gated and not given["exit_zero"]
    return exit_code(run, gated or (given["exit_non_zero_on_fix"] and run.fix_applied > 0))


def shown(found: Scope, given: Given) -> int:
    """Print the files or the settings, and return the exit code."""
    emit(show.settings(found.settings) if given["show_settings"] else show.files(found))
    complain(show.left_out(found, SkipKind.ERROR, *([SkipKind.NOTE, SkipKind.EXCLUDED] * given["verbose"])))
    return 1 if any(skip.kind is SkipKind.ERROR for skip in found.skipped) else 0


def announce(found: Scope, given: Given) -> None:
    """Say on standard error what a run is about where the user asked, and always when there is nothing to do."""
    if given["verbose"]:
        complain(f"configuration: {found.settings.config or 'none'}")
        complain(f"files to check: {len(found.targets)}")
        complain(show.left_out(found, SkipKind.EXCLUDED))
    if not found.targets and not any(skip.kind is SkipKind.ERROR for skip in found.skipped):
        complain("torchlint: no Python files found")


def _session(found: Scope, catalog: Catalog, given: Given) -> Session:
    fix = ("unsafe" if found.settings.unsafe_fixes else "safe") if given["fix"] else ""
    return Session(
        found,
        catalog,
        fix,
        apply=given["fix"],
        progress=not given["quiet"],
        color=given["output_file"] is None and wants_color(given["color"], is_terminal(sys.stdout)),
    )


def _print(session: Session, run: RunReport, given: Given) -> None:
    """Print the report, and below or beside it what was not done."""
    format_ = session.scope.settings.output_format
    if given["statistics"]:
        text = counts.render_json(run) if format_ == "json" else counts.render(run)
    else:
        text = FORMATS[format_](run)
    say = emit
    if given["fix"] and STDIN in given["paths"]:  # then standard output holds the source
        emit_bytes(fixed_stdin(session, run))
        say = complain
    if given["output_file"] is not None:
        write_output_file(given["output_file"], text.encode("utf-8", "backslashreplace"))
    else:
        say(text)
    if given["quiet"]:
        complain(undone(run, NoteKind.FAILED, NoteKind.UNWRITTEN))
    elif format_ in TEXT_FORMATS:
        say(summary(run))
    else:
        complain(undone(run))


def fixed_stdin(session: Session, run: RunReport) -> bytes:
    """Return what standard input should become: its own bytes where nothing changed, nothing if unreadable."""
    for name, document in session.documents.items():
        after = next((file.after for file in run.files if file.filename == name and file.before != file.after), None)
        return document.data if after is None else encode(document, after)
    return b""
