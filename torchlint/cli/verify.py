"""``torchlint verify``: prove each fix, before against after."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from torchlint.base.errors import OutputError, UsageError
from torchlint.base.finding import UNANALYSED, Finding
from torchlint.base.records import frozen
from torchlint.catalog.rules import load_catalog
from torchlint.cli import main
from torchlint.cli.against import Asked
from torchlint.cli.against import asked as versions_asked
from torchlint.cli.history import append, of_versions
from torchlint.cli.options import Given, asked_in, wants_color
from torchlint.cli.output import check_output_file, complain, emit, write_output_file
from torchlint.cli.program import COMMAND, DASHES, ProgramCommand
from torchlint.cli.progress import Status
from torchlint.cli.scope import STDIN, Scope, Target, scope
from torchlint.cli.session import BROKEN, Session, cache_for
from torchlint.cli.terminal import is_terminal
from torchlint.cli.verify_apply import Applying, asked, proving
from torchlint.cli.verify_options import options, verify_options
from torchlint.program.machine.doctor import diagnose, ready, render
from torchlint.report.kit.words import visible
from torchlint.report.summary import undone
from torchlint.source.discover import SkipKind
from torchlint.source.document import Document, read
from torchlint.verify.errors import OriginalFailedError
from torchlint.verify.fixes import UNSAFE, FixUnit, offered
from torchlint.verify.model import Report, Verdict
from torchlint.verify.options import Options
from torchlint.verify.proof import held
from torchlint.verify.stopwatch import Stopwatch, process_start

_MODULES = {
    "text": "text",
    "json": "json_report",
    "markdown": "markdown",
    "html": "html",
    "agent": "agent",
}
EXAMPLE = "torchlint verify . -- train.py --epochs 1"


@click.command("verify", cls=ProgramCommand)
@click.argument("targets", nargs=-1)
@verify_options
@click.pass_context
def verify_command(ctx: click.Context, /, **given: Any) -> int:
    """Compare a program with and without its fixes: speed, results, transfers, memory.

    \b
    torchlint verify . -- train.py --epochs 1      a program, unchanged
    torchlint verify pkg/mod.py::func --inputs "randn(64, 512)"
    torchlint verify rules [TL603 ...]             the rules' own examples
    torchlint verify . --apply -- train.py         write what it proves
    torchlint verify --no-waits -- train.py        no step waits but where the contract says so
    torchlint verify --doctor                      what can be measured here

    Your code is run in copies; your files are written with --apply alone. It may use the network,
    which is not blocked.

    It needs torch: pip install torch, or --python for the interpreter that has it. Unsafe fixes
    are left out unless --unsafe-fixes, --apply or --patch is given.

    --apply writes the fixes, safe or unsafe, that the program proves: results as promised, not
    slower, and speed, waits, transfers or memory better. The program with all of them must hold
    too, else nothing is written. With --no-unsafe-fixes only safe ones are tried.

    Exit code: 0 nothing in --fail-on, 1 a verdict in --fail-on or a fix that could not be written,
    2 wrong usage, 3 the program itself fails, 4 no torch or no such device, 5 nothing was proved
    and written (--apply, --patch), 130 interrupted.
    """
    chosen = options(given)
    watch = Stopwatch(chosen.budget, process_start() if main.as_program else None)
    if given["doctor"]:
        emit(render(diagnose(chosen.python)))
        return 0
    targets = given["targets"]
    if given["no_waits"]:
        from torchlint.cli import verify_no_waits

        verify_no_waits.demand(given, ctx.meta[DASHES])
        found = _scope(given, targets)
        return verify_no_waits.no_waits(ctx.meta[COMMAND], found, chosen, given)
    others = [each for each in targets[:1] if each == "rules"] or [t for t in targets if "::" in t]
    applying = asked(given, ctx.find_object(tuple) or (), others)
    try:
        report = _report(ctx, given, proving(chosen) if applying else chosen, applying, watch)
    except OriginalFailedError as error:
        complain("\n".join(f"  | {visible(line)}" for line in error.log.splitlines()))
        raise
    if report is None:
        return applying.code if applying else 0
    if report.cut == "interrupted":  # what was proved by then is told, not written
        _print(report, given, ctx.find_object(tuple) or ())
        raise KeyboardInterrupt
    if applying:
        report = applying.written(report)
    _print(report, given, ctx.find_object(tuple) or ())
    if given["history"] is not None:
        append(given["history"], of_versions(report, os.getcwd()))
    if applying and report.proof is not None:
        complain(f"torchlint: {visible(report.proof.outcome)}")
    fail_on = given["fail_on"]
    if fail_on is None:  # examples are small: on a CPU some remedies of a GPU's troubles are slower
        fail_on = ("different",) if report.mode == "rules" else ("slower", "different")
        fail_on = () if applying else fail_on  # such fixes are not written
    return 1 if failures(report, fail_on) else applying.code if applying else 0


def _report(
    ctx: click.Context,
    given: Given,
    chosen: Options,
    applying: Applying | None,
    watch: Stopwatch,
) -> Report | None:
    targets: tuple[str, ...] = given["targets"]
    compared = versions_asked(given)
    if given["history"] is not None:
        check_output_file(given["history"], (), f"--history {visible(given['history'])}")
    if given["output_file"] is not None:
        check_output_file(given["output_file"], ())
    if given["output_format"] == "html":
        importlib.import_module("torchlint.report.kit.html").demand()
    if targets[:1] == ("rules",):
        return _rules(targets[1:], chosen, given, watch)
    functions = [target for target in targets if "::" in target]
    if functions:
        if len(targets) > 1:
            raise UsageError("name one function: torchlint verify pkg/mod.py::func")
        return _function(functions[0], chosen, given, watch)
    if not ctx.meta[DASHES]:
        raise UsageError(
            f"name what to run behind --: {EXAMPLE}; or a function, or 'rules' (see --help)"
        )
    if compared is not None:
        return _versions(compared, ctx.meta[COMMAND], chosen, given, watch)
    return _script(ctx.meta[COMMAND], chosen, given, applying, watch)


def _versions(
    compared: Asked, typed: list[str], chosen: Options, given: Given, watch: Stopwatch
) -> Report | None:
    """Compare two versions of the project."""
    from torchlint.program.command import parse
    from torchlint.verify.script import script_mode
    from torchlint.verify.script.request import Request

    found = _scope(given, given["targets"])
    _demand_files(found, given)
    project = Path(found.settings.root)
    root, cwd = compared.root(project), Path.cwd()
    if not cwd.is_relative_to(root):
        cwd = root
    command = parse(typed, cwd, root)
    make = compared.maker(project)
    with script_mode.Early(chosen, root, cwd, command, watch, make) as early:
        versions = early.versions
        assert versions is not None
        if not versions.changed:
            names = versions.after.name, versions.before.name
            complain(f"torchlint: {visible(' and '.join(names))} do not differ: nothing to compare")
            return None
        doctor = ready(chosen.python, chosen.device, early.facts)
        units = (versions.unit(),)
        request = Request(root, cwd, command, units, {}, (), chosen, doctor, versions=versions)
        with Status(not given["quiet"]) as status:
            return script_mode.run(request, _teller(given, status), status.show, early)


def _script(
    typed: list[str],
    chosen: Options,
    given: Given,
    applying: Applying | None,
    watch: Stopwatch,
) -> Report | None:
    from torchlint.program.command import parse
    from torchlint.verify.script import script_mode
    from torchlint.verify.script.request import Request

    found = _scope(given, given["targets"])
    _demand_files(found, given)
    root, cwd = Path(found.settings.root), Path.cwd()
    if not cwd.is_relative_to(root):
        cwd = root
    command = parse(typed, cwd, root)
    if applying:
        applying.prepared(found)
    # Importing torch takes longer than looking at the files does: both at once.
    with script_mode.Early(chosen, root, cwd, command, watch) as early:
        fixes = _fixes(found, given, proving=applying is not None)
        if fixes is None:
            return None
        units = fixes.units
        if applying:
            units = applying.writable(held(units), fixes.documents, found)
            if not units:
                return None
        doctor = ready(chosen.python, chosen.device, early.facts)
        request = Request(
            root,
            cwd,
            command,
            units,
            fixes.documents,
            fixes.skipped,
            chosen,
            doctor,
            proving=applying is not None,
        )
        with Status(not given["quiet"]) as status:
            return script_mode.run(request, _teller(given, status), status.show, early)


def _teller(given: Given, status: Status) -> Callable[[str], None]:
    def tell(line: str) -> None:
        if not given["quiet"]:
            status.show("")
            complain(visible(line))

    return tell


def _scope(given: Given, paths: tuple[str, ...]) -> Scope:
    # Other options of verify bear the names of configuration keys, and mean something else.
    asked = {name: given[name] for name in (*asked_in("verify"), "configs", "isolated")}
    return scope({**asked, "paths": paths, "stdin_filename": None}, load_catalog())


def _demand_files(found: Scope, given: Given) -> None:
    """Refuse paths that are no files or folders, and a report in the place of one of the files."""
    if STDIN in given["targets"]:
        raise UsageError("standard input has no program to run; name files or folders")
    for skip in found.skipped:
        if skip.kind is SkipKind.ERROR and skip.filename in given["targets"]:
            raise UsageError(f"{skip.filename}: {skip.reason}")
    if given["output_file"] is not None:
        check_output_file(given["output_file"], {target.found.path for target in found.targets})


def _findings(
    found: Scope, given: Given
) -> tuple[dict[str, tuple[Finding, ...]], dict[str, Document], tuple[str, ...]]:
    """Check the files; return findings and documents by path under the root, and in words what was
    left out."""
    catalog = load_catalog()
    cache = cache_for(catalog, given, reading=True)
    run = Session(found, catalog, progress=not given["quiet"], cache=cache).execute()
    left_out = undone(run, *UNANALYSED).splitlines()
    targets = {target.found.filename: target for target in found.targets}
    findings, documents = {}, {}
    for file in run.files:
        left_out += [
            f"{file.filename}:{one.start.row}: not analysed: {one.message}"
            for one in file.findings
            if one.code in BROKEN
        ]
        target = targets.get(file.filename)
        if target is None or not any(finding.fix is not None for finding in file.findings):
            continue
        # Under the root of all, whatever configuration of its own a subfolder has.
        relative = Target(target.found, found.settings).relative
        if relative.startswith("../"):
            left_out.append(
                f"{file.filename}: lies outside {found.settings.root}, the project that is copied"
            )
            continue
        findings[relative] = file.findings
        documents[relative] = read(target.found.path, target.found.filename, 0)
    every = (finding for found_there in findings.values() for finding in found_there)
    wanted = {part.path for one in every if one.fix is not None for part in one.fix.elsewhere}
    for target in found.targets:
        relative = Target(target.found, found.settings).relative
        if target.found.path in wanted - {each.path for each in documents.values()}:
            documents[relative] = read(target.found.path, target.found.filename, 0)
    return findings, documents, tuple(left_out)


@frozen
class _Fixes:
    """The fixes to verify, the files that they change, and in words what is left out."""

    units: tuple[FixUnit, ...]
    documents: dict[str, Document]
    skipped: tuple[str, ...]


def _fixes(found: Scope, given: Given, *, proving: bool = False) -> _Fixes | None:
    """Return what there is to verify; say so and return None where there is nothing.

    What is to be proved may be unsafe, unless the user says no to that.
    """
    findings, documents, left_out = _findings(found, given)
    unsafe = found.settings.unsafe_fixes or (proving and given["unsafe_fixes"] is not False)
    offer = offered(findings, documents, load_catalog(), unsafe=unsafe)
    skipped = (*offer.skipped, *left_out)
    if offer.units:
        return _Fixes(offer.units, documents, skipped)
    where = visible(" ".join(given["targets"]) or os.curdir)
    more = sum(reason.endswith(UNSAFE) for reason in skipped)
    safe, hint = ("safe ", f"; with --unsafe-fixes: {more}") if more else ("", "")
    complain(f"torchlint: no {safe}fixes to verify in {where}{hint}")
    complain("".join(f"  {visible(reason)}\n" for reason in skipped[:20]))
    if len(skipped) > 20:
        complain(f"  and {len(skipped) - 20} more")
    return None


def _function(target: str, chosen: Options, given: Given, watch: Stopwatch) -> Report | None:
    from torchlint.verify.paired import function_mode

    found = _scope(given, (target.partition("::")[0],))
    root = Path(found.settings.root)
    aim = function_mode.parse_target(target, root)
    fixes = _fixes(found, given)
    if fixes is None:
        return None
    request = function_mode.FunctionRequest(
        target,
        root,
        aim,
        given["inputs"],
        fixes.units,
        fixes.documents,
        fixes.skipped,
        chosen,
        given["grad"],
    )
    with Status(not given["quiet"]) as status:
        return function_mode.run(request, _teller(given, status), status.show, watch)


def _rules(
    codes: tuple[str, ...], chosen: Options, given: Given, watch: Stopwatch
) -> Report | None:
    from torchlint.verify.paired import rule_mode

    with Status(not given["quiet"]) as status:
        return rule_mode.run(codes, chosen, status.show, watch, _teller(given, status))


def failures(report: Report, fail_on: tuple[str, ...]) -> list[str]:
    """Return the ids of the variants that ``--fail-on`` names: by verdict, or as their results
    differ."""
    found = []
    for variant in report.variants:
        different = variant.equality is not None and not variant.equality.ok
        if (
            (variant.speed.verdict is Verdict.SLOWER and "slower" in fail_on)
            or (variant.speed.verdict is Verdict.INCONCLUSIVE and "inconclusive" in fail_on)
            or (different and "different" in fail_on)
        ):
            found.append(variant.id)
    return found


def _print(report: Report, given: Given, typed: Sequence[str]) -> None:
    module = importlib.import_module(f"torchlint.verify.output.{_MODULES[given['output_format']]}")
    to_file = given["output_file"] is not None
    color = not to_file and wants_color(given["color"], is_terminal(sys.stdout))
    if module.__name__.endswith(".text"):
        terminal = not to_file and is_terminal(sys.stdout)
        text: str = module.render(
            report, color=color, width=shutil.get_terminal_size().columns if terminal else None
        )
    elif given["output_format"] == "agent":
        text = module.render(report, typed, given["max_tokens"])
    else:
        text = module.render(report, color=color)
    if not to_file:
        tell = complain if given["patch"] == STDIN else emit  # then the patch is what is printed
        tell(text)
        return
    try:
        write_output_file(given["output_file"], text.encode("utf-8", "backslashreplace"))
    except OutputError:
        emit(text)  # what took minutes to measure is not thrown away
        raise
