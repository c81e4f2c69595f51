"""``torchlint fix``: show, or write, what can be fixed."""

from __future__ import annotations

from typing import Any

import click

from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.cli.check import announce, fixed_stdin, shown
from torchlint.cli.destinations import check_destinations, refuse_files
from torchlint.cli.options import Given, common_options
from torchlint.cli.output import complain, emit_bytes
from torchlint.cli.preview import broken, preview, report_undone, told
from torchlint.cli.scope import STDIN, Scope, scope
from torchlint.cli.session import Session, exit_code


@click.command("fix")
@common_options
@click.option("--apply", is_flag=True, help="Write the fixes instead of showing them.")
def fix_command(**given: Any) -> int:
    """Show the safe fixes for PATHS as a patch; with --apply, write them.

    Exit code: without --apply 1 if there is anything to fix, else 0; with --apply 0 if all was written, 1 if
    something could not be. Either way 1 for unreadable files, 2 for wrong usage or a file that torchlint itself
    failed on.
    """
    catalog = load_catalog()
    found = scope(given, catalog)
    if given["show_settings"] or given["show_files"]:
        return shown(found, given)
    refuse_files(given, "fix")
    check_destinations(given, {target.found.path for target in found.targets})
    announce(found, given)
    return _apply(found, catalog, given) if given["apply"] else preview(found, catalog, given)


def _apply(found: Scope, catalog: Catalog, given: Given) -> int:
    fix = "unsafe" if found.settings.unsafe_fixes else "safe"
    session = Session(found, catalog, fix, apply=True, progress=not given["quiet"])
    run = session.execute()
    if STDIN in given["paths"]:
        emit_bytes(fixed_stdin(session, run))
    complain(broken(run))
    report_undone(run, given)
    if not given["quiet"]:
        complain(told(run, "Fixed"))
    return exit_code(run, False)
