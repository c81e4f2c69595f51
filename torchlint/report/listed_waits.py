"""The waits that a contract of no waits lists, with who answers for each and why: a table, or
JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torchlint.base.contract import GONE, NO_WAITS
from torchlint.base.finding import Finding, Suppressed
from torchlint.report.kit.ascii_json import dump
from torchlint.report.kit.terminal import BOLD, RED, YELLOW, aligned, paint
from torchlint.report.kit.words import DASH, location, pluralise, visible
from torchlint.report.measured import Waited, WaitedAt
from torchlint.report.run_report import RunReport

_HEAD = ("place", "owner", "reason")
_STATES = {True: "not listed", False: "gone"}


def table(run: RunReport, costs: WaitedAt | None) -> str:
    """Return the list as a table, and below it what waits and is not listed, or is listed and
    gone.

    Args:
        run: with what comments and the configuration suppress.
        costs: what a profile says; None where there is none, and no column for it.
    """
    held = listed(run)
    rows = [
        (_location_of(each.finding), visible(each.owner), visible(each.reason), *_cost(each, costs))
        for each in held
    ]
    head = (*_HEAD, *(("cost",) if costs is not None else ()))
    lines = [paint(f"{pluralise(len(held), 'wait')} listed", BOLD, run.color)]
    lines += aligned([head, *rows]) if rows else []
    for finding in amiss(run):
        fresh = finding.code == NO_WAITS
        state = paint(_STATES[fresh], RED if fresh else YELLOW, run.color)
        lines.append(f"{state}: {_location_of(finding)}: {visible(finding.message)}")
    return "".join(f"{line}\n" for line in lines)


def document(run: RunReport, costs: WaitedAt | None) -> str:
    """Return the same as JSON: a list of entries, each with its ``state``."""
    return dump([*_entries(run, costs)])


def listed(run: RunReport) -> list[Suppressed]:
    """Return the waits that are listed, in report order."""
    return [each for each in run.suppressed() if each.finding.code == NO_WAITS and each.owner]


def amiss(run: RunReport) -> list[Finding]:
    """Return the waits that are not listed, and those that are listed and gone."""
    return [each for each in run.findings() if each.code == NO_WAITS or GONE in each.message]


def _entries(run: RunReport, costs: WaitedAt | None) -> Iterator[dict[str, Any]]:
    for held in listed(run):
        cost = costs.of(held.finding) if costs is not None else None
        yield {
            **_entry(run, held.finding),
            "state": "listed",
            "owner": held.owner,
            "reason": held.reason,
            "cost": None
            if cost is None
            else {"waited_ns": cost.ns, "share": cost.share, "predicted_per_step": cost.per_step},
        }
    for finding in amiss(run):
        yield {**_entry(run, finding), "state": _STATES[finding.code == NO_WAITS]}


def _entry(run: RunReport, finding: Finding) -> dict[str, Any]:
    return {
        "filename": run.absolute(finding.filename),
        "cell": finding.cell,
        "line": finding.start.row,
        "column": finding.start.column,
        "message": finding.message,
    }


def _cost(held: Suppressed, costs: WaitedAt | None) -> Iterable[str]:
    if costs is None:
        return ()
    found = costs.of(held.finding)
    return (DASH if found is None else _words(found),)


def _words(cost: Waited) -> str:
    if not cost.ns:
        return f"predicted: {cost.per_step:.3g} in each step"
    return f"{cost.ns / 1e6:.3g} ms, {cost.share:.1%} of the time"


def _location_of(finding: Finding) -> str:
    start = finding.start
    return visible(location(finding.filename, finding.cell, start.row, start.column))
