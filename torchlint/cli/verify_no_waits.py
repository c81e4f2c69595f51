"""``torchlint verify --no-waits -- train.py``: hold a run of the program to the list of the
contract: a step that waits at a line which is not on it fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchlint.base.contract import Contract
from torchlint.base.errors import SourceError, UsageError
from torchlint.base.records import frozen
from torchlint.cli.options import Given
from torchlint.cli.output import check_output_file, complain, write_report
from torchlint.cli.progress import Status
from torchlint.cli.scope import Scope
from torchlint.profile.errors import demand as demand_packages
from torchlint.program.command import parse
from torchlint.program.errors import ProgramFailedError
from torchlint.program.machine.doctor import ready
from torchlint.program.traffic import UNUSED, CountLine, count_lines
from torchlint.report.kit.ascii_json import dump
from torchlint.report.kit.terminal import aligned
from torchlint.report.kit.words import number, pluralise, visible
from torchlint.source.allowed_waits import Listed, listed
from torchlint.source.document import read
from torchlint.verify.options import Options

NOTHING = 5
"""The exit code where nothing could be counted."""
_HEAD = ("waits in a step", "line", "what", "listed by")
_OTHERS = ("apply", "commit", "patch", "inputs", "grad")


@frozen
class Line:
    """A line at which steps wait: how often each does on average, what waits, and what lists
    it."""

    file: str
    line: int
    waits: float
    what: tuple[str, ...]
    listed: Listed | None


def demand(given: Given, dashes: bool) -> None:
    """Refuse what cannot be meant together with ``--no-waits``.

    Raises:
        UsageError: naming it.
    """
    demand_packages()
    if not dashes:
        raise UsageError("--no-waits needs a program: torchlint verify --no-waits -- train.py")
    for name in _OTHERS:
        if given[name]:
            raise UsageError(f"--no-waits and --{name} cannot be used together")
    if given["targets"][:1] == ("rules",) or any("::" in each for each in given["targets"]):
        raise UsageError("--no-waits is about a program, not about functions or rules")
    if given["output_format"] not in ("text", "json"):
        raise UsageError("--no-waits prints text, or --output-format json")
    if given["output_file"] is not None:
        check_output_file(given["output_file"], ())


def no_waits(typed: Sequence[str], found: Scope, chosen: Options, given: Given) -> int:
    """Run the program for a few steps, print at which lines they wait, and return the exit code.

    Raises:
        ProgramFailedError: it fails.
        NoTorchError: its interpreter has no torch, or no GPU where one is asked for.
    """
    from torchlint.profile.running import Wanted
    from torchlint.profile.virtual_run import counted

    root, cwd = Path(found.settings.root), Path.cwd()
    cwd = cwd if cwd.is_relative_to(root) else root
    command = parse(typed, cwd, root)
    doctor = ready(chosen.python, chosen.device)
    observed = bool(doctor.gpus) and chosen.device in ("auto", "cuda")
    wanted = Wanted(
        root=root,
        cwd=cwd,
        command=command,
        doctor=doctor,
        python=chosen.python,
        device="cuda" if observed else "cpu",
        steps=chosen.check_steps,
        timeout=chosen.timeout,
        isolation=chosen.isolation,
        allow_write=chosen.allow_write,
        env=chosen.env,
    )
    with Status(not given["quiet"]) as status:
        run = counted(wanted, status.show)
    if run.failed:
        complain("\n".join(f"  | {visible(line)}" for line in run.log.splitlines()))
        raise ProgramFailedError(run.failed)
    counts = run.counts or {}
    reason = _why_not(counts)
    if reason:
        complain(f"torchlint: the contract is not checked: {visible(reason)}")
        return NOTHING
    lines = [*_lines(counts, root, found.settings.no_waits)]
    render = _json if given["output_format"] == "json" else _text
    write_report(given["output_file"], render(lines, counts, observed))
    complain("".join(f"torchlint: {visible(note)}\n" for note in counts["notes"]))
    return 1 if any(each.listed is None for each in lines) else 0


def _why_not(counts: Mapping[str, Any]) -> str:
    if counts.get("unavailable"):
        return str(counts["unavailable"])
    if not counts.get("steps"):
        return "the program ended before a step was counted"
    return "" if counts.get("used", True) else UNUSED


def _lines(counts: Mapping[str, Any], root: Path, contract: Contract) -> Iterator[Line]:
    """Yield the lines that wait, those that are not listed first."""
    waits: dict[tuple[str, int], list[CountLine]] = {}
    for each in count_lines(counts):
        if each.kind == "sync":
            waits.setdefault((each.file, each.line), []).append(each)
    lists = {file: _list_of(root, file, contract) for file, _ in waits}
    lines = [
        Line(
            file,
            row,
            sum(each.count for each in some) / int(counts["steps"]),
            tuple(dict.fromkeys(each.what for each in some)),
            next((one for one in lists[file] if one.first <= row <= one.last), None),
        )
        for (file, row), some in waits.items()
    ]
    yield from sorted(lines, key=lambda each: (each.listed is not None, each.file, each.line))


def _list_of(root: Path, file: str, contract: Contract) -> tuple[Listed, ...]:
    try:
        return listed(read(str(root / file), file, 0).text, file, contract)
    except SourceError:  # of a library, or made while the program ran
        return ()


def _text(lines: Sequence[Line], counts: Mapping[str, Any], observed: bool) -> str:
    steps = pluralise(int(counts["steps"]), "step")
    basis = "observed on the GPU" if observed else "predicted for a GPU"
    rows = [
        (
            number(each.waits),
            visible(f"{each.file}:{each.line}"),
            visible(", ".join(each.what)),
            visible(f"{each.listed.owner}: {each.listed.reason}") if each.listed else "nobody",
        )
        for each in lines
    ]
    missing = sum(each.listed is None for each in lines)
    verdict = (
        f"the contract is broken: {pluralise(missing, 'line')} that nobody lists"
        if missing
        else "the contract holds: every wait is listed"
        if lines
        else "the contract holds: no step waits"
    )
    table = aligned([_HEAD, *rows]) if rows else []
    return "".join(f"{line}\n" for line in (f"{steps}, {basis}", *table, verdict))


def _json(lines: Sequence[Line], counts: Mapping[str, Any], observed: bool) -> str:
    return dump(
        {
            "basis": "cuda" if observed else "virtual-cuda",
            "steps": counts["steps"],
            "holds": all(each.listed for each in lines),
            "lines": [
                {
                    "file": each.file,
                    "line": each.line,
                    "waits_per_step": each.waits,
                    "what": list(each.what),
                    "owner": each.listed.owner if each.listed else None,
                    "reason": each.listed.reason if each.listed else None,
                }
                for each in lines
            ],
        }
    )
