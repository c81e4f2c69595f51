"""``torchlint profile``: where a program's time goes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchlint import __version__
from torchlint.base.errors import OutputError, TraceError, UsageError
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.cli.options import (
    Given,
    color_option,
    config_option,
    isolated_option,
    max_tokens,
    wants_color,
)
from torchlint.cli.output import (
    check_output_file,
    check_output_folder,
    complain,
    write_output_file,
    write_report,
)
from torchlint.cli.profile_against import keep, regressed
from torchlint.cli.profile_live import demand_run, demand_trace, for_verify, live_options, run
from torchlint.cli.profile_sweep import refuse_others, swept
from torchlint.cli.program import COMMAND, DASHES, ProgramCommand
from torchlint.cli.progress import Status
from torchlint.cli.terminal import is_terminal
from torchlint.profile.errors import demand
from torchlint.program.errors import ProgramFailedError
from torchlint.report.kit.words import pluralise, size, visible

if TYPE_CHECKING:
    from torchlint.base.finding import Finding
    from torchlint.cli.scope import Scope
    from torchlint.profile.elsewhen import Elsewhen
    from torchlint.profile.growth import Growth
    from torchlint.profile.join import Costs, Found
    from torchlint.profile.limits import Operators
    from torchlint.profile.lines import Lines
    from torchlint.profile.live import Recorded, Steps
    from torchlint.profile.modules import Modules
    from torchlint.profile.output.content import Content
    from torchlint.profile.perfetto import Track
    from torchlint.profile.predicted import Predicted
    from torchlint.profile.report import Rank, Report, Summary
    from torchlint.profile.sites import Sources
    from torchlint.profile.statements import Loading, Statement
    from torchlint.profile.timeline import Timeline
    from torchlint.trace.columns import Trace

_PERCENT = regex(r"(\d+(?:\.\d+)?)\s*%")


class _Share(click.ParamType):  # type: ignore[type-arg]
    """A part of a whole, ``5%``; from 0 to 1 to the program."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        found = _PERCENT.fullmatch(value.strip())
        if found is None or float(found[1]) > 100:
            self.fail(f"{value!r} is no share; write 5%", param, ctx)
        return float(found[1]) / 100


def _moved(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Return the folders of ``OLD=NEW``."""
    found = []
    for each in value:
        old, separator, new = each.partition("=")
        if not separator or not old or not new:
            raise click.BadParameter(f"{each!r} is no OLD=NEW", ctx, param)
        if not os.path.exists(new):
            raise click.BadParameter(f"{new}: there is no such file or folder", ctx, param)
        found.append((old, new))
    return tuple(found)


@click.command("profile", cls=ProgramCommand)
@click.argument("paths", nargs=-1)
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="FILE|DIR",
    help="Read this trace of PyTorch's profiler, .json or .json.gz, or those in a folder. "
    "Repeatable: several are ranks of one run.",
)
@click.option(
    "--snapshot",
    multiple=True,
    metavar="FILE",
    help="Say what held the GPU's memory, from this snapshot of torch.cuda.memory. Repeatable.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="FILE|DIR",
    help="Compare with this older trace: a verdict on the step, and its figures beside them. "
    "Repeatable.",
)
@click.option(
    "--history",
    metavar="FILE",
    help="With --against: append what it came to, as a line of JSON, for torchlint history.",
)
@click.option(
    "--rank", type=click.IntRange(min=0), metavar="N", help="Show this rank. [default: lowest]"
)
@click.option(
    "--source-map",
    "source_maps",
    multiple=True,
    metavar="OLD=NEW",
    callback=_moved,
    help="Files that the trace calls OLD/... lie at NEW/... here: lines of calls are looked for "
    "there. Repeatable.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="List so many kernels, waits and findings.",
)
@click.option(
    "--all-steps",
    is_flag=True,
    help="Count the last step too. [default: left out, as its work may not be all there]",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "markdown", "html", "agent"]),
    default="text",
    show_default=True,
    help="The form of the report.",
)
@max_tokens
@click.option(
    "-o",
    "--output-file",
    metavar="FILE",
    help="Write the report to FILE instead of standard output.",
)
@color_option
@config_option
@click.option(
    "--perfetto",
    metavar="FILE",
    help="Also write the trace with findings and costly places as tracks, for ui.perfetto.dev.",
)
@click.option(
    "--csv",
    metavar="DIR",
    help="Also write each table of the report into this folder, as CSV under its name in JSON.",
)
@click.option(
    "--summary",
    metavar="FILE",
    help="Write what was counted, small and mergeable, to FILE instead of a report.",
)
@click.option("--merge", is_flag=True, help="Put summaries together: PATHS are files of --summary.")
@click.option(
    "--fail-above",
    type=_Share(),
    metavar="SHARE",
    help="Exit with 1 where fixing one finding of a default rule alone could save more of the "
    "time than SHARE (5%); with --against instead where a step is shown to take that much longer.",
)
@live_options
@isolated_option
@click.option("-q", "--quiet", is_flag=True, help="Do not say what is being read.")
@click.pass_context
def profile_command(ctx: click.Context, /, **given: Any) -> int:
    """Say where a program's time went, line by line, and what fixing a line saves at most: of a
    program that is run, or from traces of PyTorch's profiler.

    \b
    torchlint profile . -- train.py --epochs 1             a program, unchanged
    torchlint profile --trace trace.json.gz
    torchlint profile . --trace trace.json.gz              findings beside what they cost
    torchlint profile --trace traces/                      all ranks of a run
    torchlint profile --trace new.json --against old.json  before and after
    torchlint profile --merge *.summary.json               many ranks, each reduced with --summary
    torchlint profile . --snapshot memory.pickle           what held the GPU's memory
    torchlint profile . --sweep-workers -- train.py        how many workers its DataLoaders need

    PATHS are the program's files: of a trace with Python frames (with_stack=True) waits get their
    lines, and findings what was measured there.

    Your program is run in a copy, and ended after a few steps; it may use the network, which is not
    blocked. Reading a trace needs neither torch nor a GPU; pip install '.[profile]' in a clone of
    torchlint brings what reads traces.

    Exit code: 0 a report, 1 a finding (with --against a step) above --fail-above, 2 wrong usage or
    nothing that can be read, 3 the program itself fails, 4 no torch, no such device or a package
    is missing, 130 interrupted.
    """
    demand()
    _refuse_configuration(given)
    if given["snapshot"]:
        from torchlint.cli import profile_snapshot

        if ctx.meta[DASHES]:
            raise UsageError("--snapshot and a program to run cannot be used together")
        demand_trace(given)
        profile_snapshot.refuse_others(given)
        sources = _sources(_scope(given) if given["paths"] else None, given)
        return profile_snapshot.snapshot_reported(given, sources, ctx.find_object(tuple) or ())
    if not ctx.meta[DASHES]:
        demand_trace(given)
        _refuse(given, program=False)
        return _reported(ctx, given, None)
    demand_run(given)
    given["paths"] = given["paths"] or (os.curdir,)
    if given["sweep_workers"]:
        refuse_others(given)
    else:
        _refuse(given, program=True)
    with Status(not given["quiet"]) as status:
        try:
            if given["sweep_workers"]:
                typed = ctx.find_object(tuple) or ()
                return swept(ctx.meta[COMMAND], _scope(given), given, status, typed)
            with run(ctx.meta[COMMAND], _scope(given), given, status.show) as left:
                status.show("")
                return _reported(ctx, {**given, "traces": tuple(map(str, left.traces))}, left)
        except ProgramFailedError as error:
            status.show("")
            complain("\n".join(f"  | {visible(line)}" for line in error.log.splitlines()))
            raise


def _reported(ctx: click.Context, given: Given, left: Recorded | None) -> int:
    """Read traces and write the report."""
    from torchlint.profile.live import doubts, renamed
    from torchlint.profile.report import report

    inputs = _inputs(given)
    command = ctx.find_object(tuple) or ()
    with Status(not given["quiet"]) as status:
        counted, trace = _counted(given, inputs, status.show)
        if given["summary"] is not None:
            return _write_summary(given, counted, status)
        if left is not None:
            counted = renamed(counted, left)
        found = report(counted, command, __version__)
        shown = found.rank(given["rank"])  # raises where there is none of this number
        older = None
        if given["against"]:
            before, _ = _counted(given, given["against"], status.show)
            older = report(before, command, __version__)
        known = _program(given)
        if known.left_out and not given["quiet"]:
            status.show("")
            complain(known.left_out)
        measured = None
        if trace is not None:
            measured = _measured(ctx, given, trace, known, left, shown)
        if measured is not None and measured.steps is not None and left is not None:
            device = "cuda" if left.device else "cpu"
            worried = doubts(measured.steps, device)
            found = replace(found, notes=(*found.notes, *worried))
        content = _content(given, found, older, trace, known, measured)
        text = _rendered(given, content)
    write_report(given["output_file"], text)
    if given["csv"] is not None:
        _write_csv(given["csv"], content)
    if given["history"] is not None:
        keep(given["history"], content, ctx.meta[COMMAND])
    if given["against"]:
        return regressed(given["fail_above"], content)
    # The exit code, and say why where findings cost too much.
    costs = None if measured is None else measured.costs
    limit = given["fail_above"]
    if limit is None or costs is None:
        return 0
    over = [cost for cost in costs.each if cost.default and costs.share(cost) > limit]
    if not over:
        return 0
    first = over[0].finding
    more = f" and {len(over) - 1} more" if len(over) > 1 else ""
    complain(
        f"torchlint: fixing {first.code} at {visible(first.filename)}:{first.start.row}{more} "
        f"could save more than {100 * limit:g} % of the time"
    )
    return 1


@frozen
class _Measured:
    """What a trace says of places and of findings, and a run of its steps; where the lines of
    findings ran, if that is shown; places that ran only in steps of another kind."""

    on: Found
    costs: Costs
    steps: Steps | None
    tracks: tuple[Track, ...]
    growth: tuple[Growth, ...] | None
    predicted: Predicted | None
    statements: tuple[Statement, ...]
    loading: tuple[Loading, ...]
    aside: tuple[Elsewhen, ...]
    modules: Modules | None
    operators: Operators | None


def _measured(
    ctx: click.Context,
    given: Given,
    trace: Trace,
    known: _Program,
    left: Recorded | None,
    shown: Rank,
) -> _Measured:
    from torchlint.profile.bounds import Whole
    from torchlint.profile.elsewhen import elsewhen
    from torchlint.profile.growth import growth
    from torchlint.profile.join import Found
    from torchlint.profile.limits import operators
    from torchlint.profile.lines import Lines
    from torchlint.profile.live import divided, steps_of
    from torchlint.profile.modules import modules
    from torchlint.profile.places import Places
    from torchlint.profile.predicted import predicted
    from torchlint.profile.replay import Replay
    from torchlint.profile.statements import loading, statements
    from torchlint.profile.waits import waits
    from torchlint.trace.marks import recorded
    from torchlint.trace.threads import recorded_events

    replay, everywhere = Replay(trace), Places(trace, known.sources)
    parts = divided(trace, replay) if recorded(trace) else None
    apart = parts is not None and bool(parts.odd)
    places = everywhere
    if parts is not None and apart:
        places = everywhere.within(parts.spans(trace, parts.usual))
    span = shown.figures.span if parts is None else parts.time
    lines = Lines(places, replay)
    drawn = lines
    if apart and (trace.memory is not None or _is_tracked(given)):
        drawn = Lines(everywhere, replay)
    tracks: tuple[Track, ...] = ()
    if _is_tracked(given):
        from torchlint.profile.perfetto import of_findings

        tracks = tuple(of_findings(drawn, trace.columns, known.findings))
    _write_perfetto(given, tracks, drawn, trace)
    steps = None
    if left is not None:
        workers = None if left.workers is None else left.workers.named(known.sources)
        steps = steps_of(left, given["paths"], places, parts, workers, for_verify(ctx))
    events = int(places.looked_at(recorded_events(trace)).sum())
    whole = Whole(span) if steps is None else steps.whole(span, events)
    on = Found(replay, places, waits(replay, places, given["top"], span), lines.each, whole)
    costs = _costs(known, on, steps, left)
    aside: tuple[Elsewhen, ...] = ()
    if parts is not None and apart:
        costs, aside = elsewhen(costs, known.effects, on, everywhere, parts)
    counts = left.counted if left is not None else None
    return _Measured(
        on,
        costs,
        steps,
        tracks,
        growth(trace, drawn),
        None if counts is None else predicted(counts, known.sources),
        statements(lines, span),
        loading(lines, places),
        aside,
        modules(places, replay),
        operators(places, replay, shown.device),
    )


def _is_tracked(given: Given) -> bool:
    """Say whether it is shown where lines of findings ran."""
    return given["perfetto"] is not None or given["output_format"] == "html"


def _costs(known: _Program, on: Found, steps: Steps | None, left: Recorded | None) -> Costs:
    """Return what findings cost in a trace, and in the workers that are not in it."""
    from torchlint.profile.join import joined
    from torchlint.profile.worker_bounds import loading, with_workers

    workers = None if steps is None else steps.workers
    if workers is None or left is None:
        return joined(known.findings, known.effects, on)
    ran = workers.of
    costs = joined(known.findings, known.effects, on, lambda finding: ran(finding) > 0)
    return with_workers(costs, workers, loading(workers, left.pace, left.queued))


def _content(
    given: Given,
    found: Report,
    older: Report | None,
    trace: Trace | None,
    known: _Program,
    measured: _Measured | None,
) -> Content:
    """Return what the report shows."""
    from torchlint.profile.output.content import Content

    content = Content(report=found, rank=given["rank"], top=given["top"], against=older)
    if trace is None or measured is None:
        return content
    return replace(
        content,
        waits=measured.on.waits,
        whole=measured.on.whole,
        costs=measured.costs,
        lines=tuple(measured.on.lines),
        checked=bool(given["paths"]),
        steps=measured.steps,
        step=_step(given, content, trace, measured),
        predicted=measured.predicted,
        growth=measured.growth,
        texts=known.texts,
        statements=measured.statements,
        loading=measured.loading,
        aside=measured.aside,
        modules=measured.modules,
        operators=measured.operators,
    )


def _rendered(given: Given, content: Content) -> str:
    """Return the report in the form that was asked for."""
    if given["output_format"] == "json":
        from torchlint.profile.output import json_report

        return json_report.render(content)
    if given["output_format"] == "html":
        from torchlint.profile.output import html

        return html.render(content)
    if given["output_format"] == "markdown":
        from torchlint.profile.output import markdown

        return markdown.render(content)
    if given["output_format"] == "agent":
        from torchlint.profile.output import agent

        return agent.render(content, given["max_tokens"])
    from torchlint.profile.output import text

    terminal = given["output_file"] is None and is_terminal(sys.stdout)
    return text.render(content, wants_color(given["color"], terminal))


def _refuse(given: Given, program: bool) -> None:
    """Refuse what cannot be meant, before any work is done.

    Args:
        given: the parameters.
        program: whether one is run, and no trace is read.

    Raises:
        UsageError: nothing is named, or options contradict each other.
        OutputError: what is to be written is one of the inputs, or cannot be.
    """
    if given["merge"]:
        if given["traces"]:
            raise UsageError("--merge puts summaries together; name them without --trace")
        if not given["paths"]:
            raise UsageError("name the summaries: torchlint profile --merge FILE ...")
        if given["perfetto"] is not None:
            raise UsageError("--perfetto needs a trace; summaries hold none")
    elif not given["traces"] and not program:
        named = shlex.join(given["paths"]) or os.curdir
        raise UsageError(
            f"name a program to run: torchlint profile {named} -- train.py, or a trace to read: "
            f"torchlint profile {named} --trace FILE"
        )
    alone = given["merge"] or not given["paths"]
    if given["fail_above"] is not None and alone and not given["against"]:
        raise UsageError("--fail-above is about findings: name the program's files")
    if given["history"] is not None and not given["against"]:
        raise UsageError("--history goes with --against")
    if given["summary"] is not None and (
        given["output_file"] or given["against"] or given["perfetto"] or given["csv"]
    ):
        others = "-o, --against, --perfetto and --csv"
        raise UsageError(f"--summary writes a summary alone; leave out {others}")
    _refuse_outputs(given)


def _refuse_outputs(given: Given) -> None:
    if given["csv"] is not None:
        check_output_folder(given["csv"], f"--csv {visible(given['csv']) or repr('')}")
    read = _files(given, [*_inputs(given), *given["against"]])
    for path in read:
        if not os.path.exists(path):
            raise TraceError(f"{path}: No such file or directory")
    written = {
        "": given["output_file"],
        "--summary": given["summary"],
        "--perfetto": given["perfetto"],
        "--history": given["history"],
        "--keep-trace": given["keep_trace"],
    }
    for option, path in written.items():
        if path is not None:
            words = f"{option} {visible(path)}" if option else ""
            check_output_file(path, {os.path.realpath(each) for each in read}, words)


def _inputs(given: Given) -> Sequence[str]:
    """Return what is to be read, as the user named it."""
    named: Sequence[str] = given["paths"] if given["merge"] else given["traces"]
    return named


def _files(given: Given, named: Sequence[str]) -> list[str]:
    from torchlint.profile.report import files_of
    from torchlint.profile.summary import ENDINGS

    return files_of(named, ENDINGS) if given["merge"] else files_of(named)


def _counted(
    given: Given, named: Sequence[str], tell: Callable[[str], None]
) -> tuple[Summary, Trace | None]:
    """Return what is counted of traces, or was of those that are merged, and the trace of the rank
    that is shown."""
    from torchlint.profile.report import summarised
    from torchlint.profile.summary import merged

    if given["merge"]:
        return merged(_files(given, named)), None
    wanted = given["rank"]
    return summarised(named, tell, lambda number: wanted in (None, number), given["all_steps"])


def _step(given: Given, content: Content, trace: Trace, measured: _Measured) -> Timeline | None:
    """Return the drawing of the median step, where a page shows it."""
    if given["output_format"] != "html":
        return None
    from torchlint.profile.timeline import timeline

    pinned = [(track.name, track.slices) for track in measured.tracks]
    return timeline(trace, content.shown, measured.on.waits.rows, pinned)


def _write_csv(folder: str, content: Content) -> None:
    """Write the tables of a report.

    Raises:
        OutputError: the folder or a file in it cannot be written.
    """
    from torchlint.profile.output.csv_tables import tables
    from torchlint.profile.output.json_report import whole

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--csv {visible(folder)}: {error.strerror or error}") from error
    written = set()
    for name, text in tables(whole(content)):
        path = os.path.join(folder, f"{name}.csv")
        write_output_file(path, text.encode(), f"--csv {visible(path)}")
        written.add(f"{name}.csv")
    others = sorted({path.name for path in Path(folder).glob("*.csv")} - written)
    if others:
        complain(f"--csv {visible(folder)}: not of this report: {visible(', '.join(others))}")


def _write_perfetto(given: Given, findings: Sequence[Track], lines: Lines, trace: Trace) -> None:
    if given["perfetto"] is None:
        return
    from torchlint.profile.perfetto import exported, of_places

    tracks = [*findings, *of_places(lines, trace.columns, given["top"])]
    option = f"--perfetto {visible(given['perfetto'])}"
    write_output_file(given["perfetto"], exported(trace.path, tracks), option)


def _write_summary(given: Given, counted: Summary, status: Status) -> int:
    from torchlint.profile.summary import encoded

    data = encoded(counted)
    write_output_file(given["summary"], data)
    if not given["quiet"]:
        status.show("")
        ranks = pluralise(len(counted.ranks), "rank")
        complain(f"{visible(given['summary'])}: {ranks}, {size(len(data))}")
    return 0


@frozen
class _Program:
    """The files of the program and what is found in them; in words what was left out; by code what
    fixing a rule's findings takes out, and whether the rule is on when nothing is selected."""

    sources: Sources
    texts: Mapping[str, str]
    findings: tuple[Finding, ...]
    left_out: str
    effects: Mapping[str, tuple[str, bool]]


def _program(given: Given) -> _Program:
    """Check PATHS as `check` does.

    Raises:
        UsageError: a path is not there.
    """
    from torchlint.catalog.rules import load_catalog
    from torchlint.cli.session import Session, cache_for
    from torchlint.report.summary import undone

    if given["merge"] or not given["paths"]:
        return _Program(_sources(None, given), {}, (), "", {})
    catalog, found = load_catalog(), _scope(given)
    cache = cache_for(catalog, given, reading=True)
    done = Session(found, catalog, progress=not given["quiet"], cache=cache).execute()
    sources = _sources(found, given)
    texts = {source.name: source.text for same in sources.by_name.values() for source in same}
    effects = {info.code: (info.effect, info.default) for info in catalog.rules}
    return _Program(sources, texts, tuple(done.findings()), undone(done), effects)


def _sources(found: Scope | None, given: Given) -> Sources:
    """Return the program's files; none where PATHS names nothing, but those of moved folders."""
    from torchlint.profile.sites import Source, Sources

    named = [target.found for target in found.targets] if found is not None else []
    return Sources(
        (
            Source(each.path, each.filename, Path(each.path).read_text("utf-8", "replace"))
            for each in named
            if each.path.endswith(".py")
        ),
        given["source_maps"],
    )


def _refuse_configuration(given: Given) -> None:
    """Refuse a configuration that cannot be used, also where no file is looked for."""
    from torchlint.catalog.rules import load_catalog
    from torchlint.cli.scope import refuse_configuration

    refuse_configuration(given, load_catalog())


def _scope(given: Given) -> Scope:
    """Find the files of PATHS.

    Raises:
        UsageError: a path is not there.
    """
    from torchlint.catalog.rules import load_catalog
    from torchlint.cli.scope import scope
    from torchlint.source.discover import SkipKind

    asked = {name: given[name] for name in ("paths", "configs", "isolated")}
    found = scope({**asked, "stdin_filename": None}, load_catalog())
    for skip in found.skipped:
        if skip.kind is SkipKind.ERROR and skip.filename in given["paths"]:
            raise UsageError(f"{skip.filename}: {skip.reason}")
    return found
