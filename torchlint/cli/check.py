"""``torchlint check``: find what wastes a GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from torchlint.base.errors import UsageError
from torchlint.base.finding import NoteKind
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.cli import add_ignore, show
from torchlint.cli.adoption import Checking, adoption_options, refuse_contradictions
from torchlint.cli.destinations import check_destinations, refuse_files, to_files, write_reports
from torchlint.cli.options import Given, common_options, in_order, table_options, wants_color
from torchlint.cli.output import complain, emit, emit_bytes, write_output_file
from torchlint.cli.part import Part
from torchlint.cli.progress import is_terminal
from torchlint.cli.scope import STDIN, Scope, scope
from torchlint.cli.session import Session, exit_code
from torchlint.cli.terminal import terminal_width
from torchlint.report.formats import FORMATS, TEXT_FORMATS
from torchlint.report.kit.words import visible
from torchlint.report.run_report import RunReport
from torchlint.report.summary import next_steps, summary, undone
from torchlint.source.discover import SkipKind
from torchlint.source.document import encode

if TYPE_CHECKING:
    from torchlint.cli.recall import Outcome
    from torchlint.run.caches import Caches


@click.command("check", cls=Checking)
@common_options
@click.option("--fix", is_flag=True, help="Apply safe fixes, and report what remains.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of listing them.")
@click.option(
    "--show-source/--no-show-source",
    default=None,
    help="Show the source of each finding, why it matters and the repair (default: of up to 5 findings).",
)
@click.option("--show-infos", is_flag=True, help="List infos too, where there are many findings.")
@click.option("--explain", is_flag=True, help="Say why the line FILE:LINE is flagged, or why it is not.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever the rules find.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 when a fix was applied.")
@adoption_options
@click.option("--no-cache", is_flag=True, help="Neither use nor keep the results of earlier runs.")
@in_order(table_options("check"))
def check_command(**given: Any) -> int:
    """Check PATHS (files and directories, - for standard input; default: here) and list what is found.

    Exit code: 0 nothing to report, 1 findings or unreadable files, 2 wrong usage or a file that torchlint
    itself failed on, 130 interrupted.
    """
    refuse_contradictions(given)
    if given["watch"]:
        from torchlint.cli.watch import watch

        return watch(given, checked)
    return checked(given)


def checked(given: Given) -> int:
    """Check once; see `check_command`."""
    catalog = load_catalog()
    if given["explain"]:
        from torchlint.cli.explain import explain

        return explain(given, catalog)
    caches = _caches(catalog, given)
    whole = scope(given, catalog, caches.folder if caches is not None else None)
    part = Part(whole, catalog, given)
    found = part.scope
    if given["show_settings"] or given["show_files"]:
        return shown(found, given)
    _check_reports(whole, given)
    announce(found, given, part.nothing())
    if given["diff"]:
        from torchlint.cli.preview import preview

        return preview(found, catalog, given)
    session = _session(part, catalog, given, caches)
    if add_ignore.wanted(given):
        again = Part(whole, catalog, given)
        session, run = add_ignore.add_ignore(session, given, lambda: _session(again, catalog, given, None))
    else:
        run = session.execute()
    write_reports(run, to_files(given))
    out, err = _words(session, run, given)
    out, err = _with_part(part, run, given, (out, err))
    gated = session.gated and not given["exit_zero"]
    code = exit_code(run, gated or (given["exit_non_zero_on_fix"] and run.fix_applied > 0))
    if caches is not None:
        _keep(part, caches, given, (out, err, code))
    emit(out)
    complain(err)
    return code


def _check_reports(found: Scope, given: Given) -> None:
    """Refuse reports that cannot be made or written, before any work is done."""
    if given["diff"]:
        refuse_files(given, "check --diff")
    check_destinations(given, {target.found.path for target in found.targets})
    printed = found.settings.output_format
    for option, asked in (("--show-source", given["show_source"] is not None), ("--show-infos", given["show_infos"])):
        if asked and (printed != "ranked" or given["statistics"]):
            other = "--statistics" if given["statistics"] else f"--output-format {printed}"
            raise UsageError(f"{option} and {other} cannot be used together")
    formats = {printed, *(report.format for report in to_files(given))}
    if given["report_suppressed"] and "sarif" not in formats:
        raise UsageError("--report-suppressed needs a report that can tell: --output-format sarif or sarif:FILE")
    if "html" in formats:
        from torchlint.report.kit import html

        html.demand()


def _with_part(part: Part, run: RunReport, given: Given, words: tuple[str, str]) -> tuple[str, str]:
    """Return what goes to standard output and standard error with what is to say of the part that was left out."""
    out, err = words
    if given["write_baseline"] and part.baselines is not None:
        said = part.baselines.write()
        return ("" if not run.findings() and not any(run.notes()) else out) + said, err
    if given["quiet"]:
        return out, err
    for_people = part.scope.settings.output_format in TEXT_FORMATS and STDIN not in given["paths"]
    return (out + part.words(), err) if for_people else (out, err + part.words())


def _caches(catalog: Catalog, given: Given) -> Caches | None:
    """Return the caches for a run that may use them: one that only checks files."""
    if given["no_cache"] or given["fix"] or given["diff"] or STDIN in given["paths"]:
        return None
    if given["show_settings"] or given["show_files"]:
        return None
    from torchlint.run.caches import Caches

    return Caches(catalog, named=given["cache_dir"] is not None)


def _keep(part: Part, caches: Caches, given: Given, outcome: Outcome) -> None:
    """Keep what a run says for a run that finds all as it is now; say once where that cannot be."""
    arguments = click.get_current_context().obj
    if caches.warning and not given["quiet"]:
        complain(f"torchlint: warning: {visible(caches.warning)}")
    if part.scope.refused():  # which is said before anything is looked up
        return
    whole = given["output_file"] is None and not to_files(given) and not given["verbose"] and part.scope.targets
    same_again = given["since"] is None and not (given["write_baseline"] or given["watch"] or add_ignore.wanted(given))
    if whole and same_again and arguments is not None and outcome[2] in (0, 1):
        from torchlint.cli.recall import remember

        remember(arguments, part.scope, caches, outcome, part.watched())


def shown(found: Scope, given: Given) -> int:
    """Print the files or the settings, and return the exit code."""
    emit(show.settings(found.settings) if given["show_settings"] else show.files(found))
    complain(show.left_out(found, SkipKind.ERROR, *([SkipKind.NOTE, SkipKind.EXCLUDED] * given["verbose"])))
    return 1 if any(skip.kind is SkipKind.ERROR for skip in found.skipped) else 0


def announce(found: Scope, given: Given, nothing: str = "") -> None:
    """Say on standard error what a run is about where the user asked, and always when there is nothing to do.

    Args:
        found: the files.
        given: the parameters of the command.
        nothing: why there are none, where there could be.
    """
    if given["verbose"]:
        complain(f"configuration: {found.settings.config or 'none'}")
        complain(f"files to check: {len(found.targets)}")
        complain(show.left_out(found, SkipKind.EXCLUDED))
    if not given["quiet"]:
        complain("".join(f"torchlint: warning: {visible(words)}\n" for words in found.refused()))
    if not found.targets and not any(skip.kind is SkipKind.ERROR for skip in found.skipped):
        complain(f"torchlint: {nothing or 'no Python files found'}")


def _session(part: Part, catalog: Catalog, given: Given, caches: Caches | None) -> Session:
    fix = ("unsafe" if part.scope.settings.unsafe_fixes else "safe") if given["fix"] else ""
    return Session(
        part.scope,
        catalog,
        fix,
        apply=given["fix"],
        progress=not given["quiet"],
        color=given["output_file"] is None and wants_color(given["color"], is_terminal(sys.stdout)),
        caches=caches,
        formats=frozenset(report.format for report in to_files(given)),
        keep=part.keep if part.baselines is not None or part.since is not None else None,
        suppressed=given["report_suppressed"],
        width=terminal_width(sys.stdout if given["output_file"] is None else None),
        show_source=given["show_source"],
        show_infos=given["show_infos"],
        shard=part.shard,
    )


def _words(session: Session, run: RunReport, given: Given) -> tuple[str, str]:
    """Return what to write to standard output and standard error: the report, and what was not done.

    A report that goes to a file, and the source that `check --fix -` gives, are written at once.
    """
    format_ = session.scope.settings.output_format
    if given["statistics"]:
        text = _statistics(run, format_)
    else:
        text = FORMATS[format_](run)
    if given["output_file"] is not None:
        write_output_file(given["output_file"], text.encode("utf-8", "backslashreplace"))
        text = ""
    aside = ""
    if given["quiet"]:
        aside = undone(run, NoteKind.FAILED, NoteKind.UNWRITTEN)
    elif format_ in TEXT_FORMATS:
        text += summary(run) + (next_steps(run) if format_ == "ranked" and not given["statistics"] else "")
    else:
        aside = undone(run)
    if given["fix"] and STDIN in given["paths"]:  # then standard output holds the source
        emit_bytes(fixed_stdin(session, run))
        text, aside = "", text + aside
    return text, aside


def _statistics(run: RunReport, format_: str) -> str:
    from torchlint.manual.pages import costs
    from torchlint.report import counts

    return counts.FORMATS.get(format_, counts.render)(run, costs())


def fixed_stdin(session: Session, run: RunReport) -> bytes:
    """Return what standard input should become: its own bytes where nothing changed, nothing if unreadable."""
    for name, document in session.documents.items():
        after = next((file.after for file in run.files if file.filename == name and file.before != file.after), None)
        return document.data if after is None else encode(document, after)
    return b""
