"""``torchlint fix``: show, or write, what can be fixed."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from torchlint.base.errors import UsageError
from torchlint.base.finding import FAILING, FileReport, NoteKind
from torchlint.base.places import fixes_page
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.cli import show
from torchlint.cli.destinations import AskedType, check_destinations, refuse_reports
from torchlint.cli.options import Given, common_options, quietened, wants_color
from torchlint.cli.output import complain, emit, emit_bytes, write_output_file
from torchlint.cli.patches import patch_bytes
from torchlint.cli.scope import STDIN, Scope, scope
from torchlint.cli.session import BROKEN, Session, cache_for, exit_code, fix_level
from torchlint.cli.terminal import is_terminal
from torchlint.report.concise import render
from torchlint.report.diff import render_diff
from torchlint.report.kit.words import pluralise, visible
from torchlint.report.run_report import RunReport, fixable
from torchlint.report.summary import applied, undone

if TYPE_CHECKING:
    from torchlint.run.cache import Cache


class _Fix(click.Command):
    """With ``--proven`` it is `verify`, which has the options that say how to run a program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        if "--proven" not in args[:end] or {"-h", "--help"} & {*args[:end]}:
            return super().parse_args(ctx, args)
        words = [word for word in args[:end] if word not in ("--proven", "--no-cache")]
        patch = [] if "--apply" in words else ["--patch", STDIN]
        ctx.meta["torchlint.proven"] = [*patch, *words, *args[end:]]
        return super().parse_args(ctx, ["--proven"])


@click.command("fix", cls=_Fix)
@common_options
@click.option("--apply", is_flag=True, help="Write the fixes instead of showing them.")
@click.option("--diff", is_flag=True, help="Show the fixes, as without --apply.")
@click.option(
    "--proven",
    is_flag=True,
    help=(
        "Only fixes that the program behind -- proves: `torchlint verify --patch -`, with --apply "
        "`verify --apply`; takes the options of verify."
    ),
)
@click.option(
    "--no-cache",
    is_flag=True,
    help="Do not use what check found earlier: analyse files without fixes, too.",
)
@click.pass_context
def fix_command(ctx: click.Context, /, **given: Any) -> int:
    """Show the safe fixes for PATHS as a patch; with --apply, write them.

    \b
    torchlint fix --proven -- train.py             safe or unsafe, those that this program proves

    Exit code: without --apply 1 if there is anything to fix, else 0; with --apply 0 if all was
    written, 1 if something could not be. Either way 1 for unreadable files, 2 for wrong usage or a
    file that torchlint itself failed on.
    """
    if given["diff"] and given["apply"]:
        raise UsageError("--diff and --apply cannot be used together")
    if given["proven"]:
        from torchlint.cli.verify import verify_command

        words = ctx.meta["torchlint.proven"]
        verify = verify_command.make_context("fix --proven", words, parent=ctx.parent)
        with verify:
            code: int = verify_command.invoke(verify)
            return code
    given = {**quietened(given)}
    catalog = load_catalog()
    cache = cache_for(catalog, given, reading=True)
    found = scope(given, catalog, cache.folder if cache is not None else None)
    if given["show_settings"] or given["show_files"]:
        return show.shown(found, given)
    refuse_reports(given, "fix")
    if given["apply"] and given["output_file"] is not None:
        raise UsageError("--output-file: with --apply no patch is printed that it could hold")
    check_destinations(given, {target.found.path for target in found.targets})
    show.announce(found, catalog, given)
    run = _apply if given["apply"] else preview
    return run(found, catalog, given, cache)


for _option in fix_command.params:
    if isinstance(_option, click.Option) and _option.name != "configs":
        _option.hidden = isinstance(_option.type, AskedType)  # `refuse_reports` refuses it
        _option.help = (_option.help or "").partition(" [env:")[0]  # these are about reports


def _apply(found: Scope, catalog: Catalog, given: Given, cache: Cache | None) -> int:
    session = _session(found, catalog, given, cache)
    run = session.execute()
    if STDIN in given["paths"]:
        emit_bytes(session.fixed_stdin(run))
    report_undone(run, given)
    if not given["quiet"]:
        complain(_joint(session, run) + _closing_line(run, "Fixed") + _granted(run))
    return exit_code(run, False)


def _session(found: Scope, catalog: Catalog, given: Given, cache: Cache | None) -> Session:
    return Session(
        found,
        catalog,
        fix_level(found),
        apply=given.get("apply", False),
        progress=not given["quiet"],
        ignore_noqa=given["ignore_noqa"],
        cache=cache,
    )


def preview(found: Scope, catalog: Catalog, given: Given, cache: Cache | None) -> int:
    """Print what fixes would change as a unified diff; return 1 where that is anything, else
    0."""
    terminal = is_terminal(sys.stdout)
    color = given["output_file"] is None and wants_color(given["color"], terminal)
    session = _session(found, catalog, given, cache)
    run = dataclasses.replace(session.execute(), color=color)
    differs = any(file.before != file.after for file in run.files)
    if given["output_file"] is not None:
        write_output_file(given["output_file"], _patch(session, run))
    elif terminal or color:
        emit(render_diff(run, for_eyes=True))
    else:
        emit_bytes(_patch(session, run))
    report_undone(run, given)
    if not given["quiet"]:
        complain(_joint(session, run) + _closing_line(run, "Would fix") + _granted(run))
    return exit_code(run, differs)


def _joint(session: Session, run: RunReport) -> str:
    """Return a line for each fix that changes several files, where there were no troubles."""
    written = not any(run.notes(NoteKind.UNWRITTEN))
    return "".join(f"{visible(line)}\n" for line in session.joint if written)


def _closing_line(run: RunReport, verb: str) -> str:
    """Return the closing line of `fix`: what was done, and what only unsafe fixes would do."""
    unwritten = any(run.notes(NoteKind.UNWRITTEN))
    line = "Nothing was fixed." if unwritten else "Nothing to fix."
    changed = any(file.before != file.after for file in run.files)
    if changed:
        line = f"{verb} {applied(run)}."
    unsafe = 0 if run.unsafe_fixes else fixable(run.findings())[1]
    if unsafe and not (changed or unwritten):
        line = f"Nothing to fix, but {unsafe} with `--unsafe-fixes`."
    elif unsafe:
        line += f" {unsafe} more with `--unsafe-fixes`."
    left = len(list(run.findings()))
    if (changed or unwritten) and left > unsafe:
        line += f" {pluralise(left, 'finding')} {'remain' if left > 1 else 'remains'}."
    return line


def _granted(run: RunReport) -> str:
    """Return what the fixes of a run took for granted of the project, a line each."""
    used = {name for file in run.files for fix in file.fixes for name in fix.assumes}
    if not used:
        return ""
    from torchlint.semantic.uses.assumptions import ASSUMPTIONS  # most runs need no model here

    lines = [f"\n  {name}: {each.sentence}" for name, each in ASSUMPTIONS.items() if name in used]
    return f"\nThe fixes take for granted (why: {fixes_page()}):" + "".join(lines)


def _only_broken(file: FileReport) -> FileReport:
    return dataclasses.replace(
        file, findings=tuple(found for found in file.findings if found.code in BROKEN)
    )


def report_undone(run: RunReport, given: Given) -> None:
    """Say on standard error which files are no Python, and what was not done; with ``--quiet`` only
    what changes the exit code."""
    if given["silent"]:
        return
    kinds = FAILING if given["quiet"] else ()
    # The files that are no Python or cannot be read, a line each; other findings are not for
    # `fix`.
    complain(
        render(dataclasses.replace(run, files=tuple(map(_only_broken, run.files)), color=False))
    )
    complain(undone(run, *kinds))


def _patch(session: Session, run: RunReport) -> bytes:
    """Return the patch with each file's lines as the bytes that the file has, so that it applies.

    Of a notebook these are the lines of its JSON text.
    """
    return b"".join(
        patch_bytes(run, file, session.documents[file.filename])
        for file in sorted(run.files, key=lambda file: file.filename)
        if file.before != file.after
    )
