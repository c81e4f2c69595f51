"""What a command would work on, and with which settings: ``--show-files``, ``--show-settings``,
``--verbose``."""

from __future__ import annotations

from torchlint.catalog.rules import Catalog
from torchlint.cli.options import Given
from torchlint.cli.output import complain, emit
from torchlint.cli.scope import Scope
from torchlint.report.kit.words import visible, visible_path
from torchlint.source.discover import SkipKind


def shown(found: Scope, given: Given) -> int:
    """Print the files or the settings, and return the exit code."""
    if given["show_settings"]:
        from torchlint.settings.documentation import settings_page

        emit(settings_page(found.settings))
    else:
        emit(_files(found))
    complain(
        _left_out(found, SkipKind.ERROR, *([SkipKind.NOTE, SkipKind.EXCLUDED] * given["verbose"]))
    )
    return 1 if any(skip.kind is SkipKind.ERROR for skip in found.skipped) else 0


def announce(found: Scope, catalog: Catalog, given: Given, nothing: str = "") -> None:
    """Say on standard error what a run is about where the user asked, and always when there is
    nothing to do.

    Args:
        found: the files.
        catalog: the rules.
        given: the parameters of the command.
        nothing: why there are none, where there could be.
    """
    if given["verbose"]:
        complain(f"configuration: {found.settings.config or 'none'}")
        complain(f"files to check: {len(found.targets)}")
        complain(_left_out(found, SkipKind.EXCLUDED))
    if not given["quiet"]:
        complain("".join(f"torchlint: warning: {visible(words)}\n" for words in found.refused()))
        if found.lacks_rules(catalog):
            complain("torchlint: warning: no rule is on: all are ignored")
    broken = any(skip.kind is SkipKind.ERROR for skip in found.skipped)
    if not (found.targets or broken or given["silent"]):
        complain(f"torchlint: {nothing or 'no Python files found'}")


def _files(scope: Scope) -> str:
    """Return the names of the files to check, a line each."""
    return "".join(f"{visible_path(target.found.filename)}\n" for target in scope.targets)


def _left_out(scope: Scope, *kinds: SkipKind) -> str:
    """Return what was left out and why, a line each."""
    return "".join(
        f"{visible_path(skip.filename)}: left out: {visible(skip.reason)}\n"
        for skip in scope.skipped
        if skip.kind in kinds
    )
