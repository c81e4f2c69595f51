"""``torchlint check``: find what wastes a GPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from torchlint.base.errors import UsageError
from torchlint.base.finding import FAILING, Severity
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.cli import add_ignore, show
from torchlint.cli.check_options import Checking, check_options, refuse_contradictions
from torchlint.cli.destinations import (
    check_destinations,
    printed_to,
    refuse_reports,
    to_files,
    write_reports,
)
from torchlint.cli.filters import Filters
from torchlint.cli.options import (
    Given,
    common_options,
    parameter,
    quietened,
    variable,
    wants_color,
)
from torchlint.cli.output import complain, emit, emit_bytes, write_output_file
from torchlint.cli.scope import STDIN, Scope, scope
from torchlint.cli.session import Session, cache_for, exit_code, fix_level
from torchlint.cli.terminal import is_terminal, terminal_width
from torchlint.report.formats import FORMATS, TEXT_FORMATS
from torchlint.report.kit.words import visible
from torchlint.report.run_report import RunReport
from torchlint.report.summary import next_steps, summary, undone
from torchlint.settings import values
from torchlint.settings.keys import KEYS

if TYPE_CHECKING:
    from torchlint.cli.cached_run import Outcome
    from torchlint.run.cache import Cache

_WITHOUT_REPORT = ("diff", "explain", "show_files", "show_settings", "write_baseline")
"""What prints something else than a report, for which no variable names a file."""
_NAMED = 60
"""Columns of named rules and paths that a command that is shown repeats; of more it shows the
first."""


@click.command("check", cls=Checking)
@common_options
@check_options
def check_command(**given: Any) -> int:
    """Check PATHS (files and directories, - for standard input; default: here) and list what is
    found.

    Exit code: 0 nothing to report, 1 findings or unreadable files, 2 wrong usage or a file that
    torchlint itself failed on, 130 interrupted.
    """
    given = {**quietened(given)}
    refuse_contradictions(given)
    if given["output_file"] is None and not any(map(given.get, _WITHOUT_REPORT)):
        given["output_file"] = variable("output-file")
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
    measured = None
    if given["profile"] is not None:
        from torchlint.report.measured import read_measurements

        measured = read_measurements(given["profile"])
    fixing = given["fix"] or given["diff"]
    cache = cache_for(catalog, given, reading=fixing)
    whole = scope(given, catalog, cache.folder if cache is not None else None)
    filters = Filters(whole, catalog, given)
    if given["show_settings"] or given["show_files"]:
        return show.shown(filters.scope, given)
    _check_reports(whole, given)
    show.announce(filters.scope, catalog, given, filters.nothing())
    if given["diff"]:
        from torchlint.cli.fix import preview

        return preview(filters.scope, catalog, given, cache)
    session = _session(filters, catalog, given, cache)
    if add_ignore.wanted(given):
        session, run = add_ignore.add_ignore(session, given, Filters(whole, catalog, given).keep)
    else:
        run = session.execute()
    if given["waits"]:
        from torchlint.cli import waits

        return waits.shown(_for_reports(run, filters, given), given, whole.settings)
    if measured is not None:
        run = replace(run, files=tuple(map(measured.beside, run.files)))
    run = _for_reports(run, filters, given)
    if "agent" in _formats(filters.scope, given):
        from torchlint.cli.agents import portion

        run = replace(run, portion=portion(run, given, click.get_current_context().obj or ()))
    write_reports(run, to_files(given))
    out, err = _words(session, run, given)
    out, err = _with_filtered(filters, run, given, (out, err))
    gated = session.gated and not given["exit_zero"]
    code = exit_code(run, gated or (given["exit_non_zero_on_fix"] and run.fix_applied > 0))
    if given["silent"]:
        out, err = out if given["statistics"] else "", ""
    if cache is not None and not fixing:
        _store(filters, catalog, cache, given, (out, err, code))
    emit(out)
    complain(err)
    return code


def _check_reports(found: Scope, given: Given) -> None:
    """Refuse reports that cannot be made or written, before any work is done."""
    if given["diff"]:
        refuse_reports(given, "check --diff")
    check_destinations(given, {target.found.path for target in found.targets})
    printed = found.settings.output_format
    source = given["show_source"] is not None
    if given["statistics"] and (source or given["show_infos"]):
        option = "--show-source" if source else "--show-infos"
        raise UsageError(f"{option} and --statistics cannot be used together")
    if source and printed != "ranked":  # all other formats list infos, with --show-infos or not
        raise UsageError(f"--show-source and --output-format {printed} cannot be used together")
    formats = _formats(found, given)
    if given["waits"]:
        from torchlint.cli import waits

        waits.demand(given, found.settings)
    if given["report_suppressed"] and "sarif" not in formats:
        raise UsageError(
            "--report-suppressed needs a report that can tell: --output-format sarif or sarif:FILE"
        )
    if "html" in formats:
        from torchlint.report.kit import html

        html.demand()


def _with_filtered(
    filters: Filters, run: RunReport, given: Given, words: tuple[str, str]
) -> tuple[str, str]:
    """Return what goes to standard output and standard error with what is to say of what was
    filtered out."""
    out, err = words
    if given["write_baseline"] and filters.baselines is not None:
        said = filters.baselines.write()
        return ("" if not run.findings() and not any(run.notes()) else out) + said, err
    if given["quiet"]:
        return out, err
    for_people = (
        filters.scope.settings.output_format in TEXT_FORMATS and STDIN not in given["paths"]
    )
    return (out + filters.words(), err) if for_people else (out, err + filters.words())


def _store(
    filters: Filters, catalog: Catalog, cache: Cache, given: Given, outcome: Outcome
) -> None:
    """Store what a run says for a run that finds all as it is now; say once where that cannot
    be."""
    arguments = click.get_current_context().obj
    if cache.warning and not given["quiet"]:
        complain(f"torchlint: warning: {visible(cache.warning)}")
    # What is said before anything is looked up has to be said again.
    if filters.scope.refused() or filters.scope.lacks_rules(catalog):
        return
    whole = (
        given["output_file"] is None
        and given["profile"] is None
        and not to_files(given)
        and not given["verbose"]
        and filters.scope.targets
    )
    same_again = given["since"] is None and not (
        given["write_baseline"] or given["watch"] or add_ignore.wanted(given)
    )
    if whole and same_again and arguments is not None and outcome[2] in (0, 1):
        from torchlint.cli import cached_run

        cached_run.store(arguments, filters.scope, cache, outcome, filters.watched())


def _formats(found: Scope, given: Given) -> frozenset[str]:
    """Return the formats of all reports."""
    return frozenset({found.settings.output_format, *(report.format for report in to_files(given))})


def _session(filters: Filters, catalog: Catalog, given: Given, cache: Cache | None) -> Session:
    fix = fix_level(filters.scope) if given["fix"] else ""
    return Session(
        filters.scope,
        catalog,
        fix,
        apply=given["fix"],
        progress=not given["quiet"],
        cache=cache,
        formats=_formats(filters.scope, given),
        keep=filters.keep,
        suppressed=given["report_suppressed"] or given["waits"],
        ignore_noqa=given["ignore_noqa"],
    )


def _for_reports(run: RunReport, filters: Filters, given: Given) -> RunReport:
    """Return what a run found with what the user said of the way to show it."""
    to_file = given["output_file"] is not None
    return replace(
        run,
        color=not to_file and wants_color(given["color"], is_terminal(sys.stdout)),
        width=terminal_width(None if to_file else sys.stdout),
        show_source=given["show_source"],
        show_infos=given["show_infos"] or filters.scope.settings.fail_on is Severity.INFO,
        shard=filters.shard,
        named=_named(given),
    )


def _named(given: Given) -> str:
    """Return the rules and paths that were named as a command that is shown repeats them."""
    import shlex  # Few runs need it.

    paths = tuple(given["paths"])
    if given["stdin_filename"] is not None:
        paths = ("--stdin-filename", given["stdin_filename"], *paths)

    kinds = (values.selection, values.rules, values.texts, values.rules_by_glob)
    keys = [key for key, row in KEYS.items() if row.option and row.check in kinds]
    chosen = [(f"--{key}", _typed(given[parameter(key)])) for key in keys]
    rules = [word for option in chosen if option[1] for word in option]
    rules += ["--ignore-noqa"] * given["ignore_noqa"]
    words = [*map(shlex.quote, rules), *map(shlex.quote, () if paths == (".",) else paths)]
    shown = words
    while len(" ".join(shown)) > _NAMED:
        shown = shown[:-1]
    return visible(" ".join(shown if shown == words else (*shown, "…")))


def _typed(value: Sequence[str] | Mapping[str, Sequence[str]] | None) -> str:
    """Return a list, or a table of lists, as the command line has it."""
    if isinstance(value, Mapping):
        return ",".join(f"{glob}:{rule}" for glob, rules in value.items() for rule in rules)
    return ",".join(value or ())


def _words(session: Session, run: RunReport, given: Given) -> tuple[str, str]:
    """Return what to write to standard output and standard error: the report, and what was not
    done.

    A report that goes to a file, and the source that `check --fix -` gives, are written at once.
    """
    format_ = session.scope.settings.output_format
    if given["statistics"]:
        from torchlint.manual.pages import costs
        from torchlint.report import counts

        text = counts.FORMATS.get(format_, counts.render)(run, costs())
    else:
        text = FORMATS[format_](run)
    if given["output_file"] is not None:
        data = text.encode("utf-8", "backslashreplace")
        write_output_file(given["output_file"], data, printed_to(given))
        text = ""
    aside = ""
    if given["quiet"]:
        aside = undone(run, *FAILING)
    elif format_ in TEXT_FORMATS:
        if format_ == "ranked" and not given["statistics"]:
            from torchlint.report.ranked import folded

            text += summary(run, folded(run)) + next_steps(run)
        else:
            text += summary(run, fixes=format_ != "agent")  # an agent proves them first
    else:
        aside = undone(run)
    if given["fix"] and STDIN in given["paths"]:  # then standard output holds the source
        emit_bytes(session.fixed_stdin(run))
        text, aside = "", text + aside
    return text, aside
