"""The waits of a file that the configuration's contract lists, and which of its entries are
idle."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from torchlint.base.contract import GONE, NO_WAITS, Allowed
from torchlint.base.finding import UNUSED_SUPPRESSION, Finding, Severity, Suppressed
from torchlint.base.records import frozen
from torchlint.base.span import Position
from torchlint.engine.job import Job
from torchlint.source.allowed_waits import entries_for, rows_of
from torchlint.source.suppress import UNUSED


@frozen
class Sorted:
    """The findings of a file: those to report, those of waits that are listed, and one for each
    entry of the list that is idle."""

    kept: list[Finding]
    listed: list[Suppressed]
    idle: list[Finding]


def by_list(job: Job, text: str, findings: Sequence[Finding]) -> Sorted:
    """Take out the findings of waits that the configuration lists."""
    found = Sorted([], [], [])
    entries = {each: list(rows_of(text, each)) for each in entries_for(job.relative, job.contract)}
    used: set[Allowed] = set()
    for finding in findings:
        entry = _entry(finding, entries) if finding.code == NO_WAITS else None
        if entry is None:
            found.kept.append(finding)
        else:
            used.add(entry)
            held = replace(finding, fix=None, why_hot=())
            found.listed.append(Suppressed(held, True, entry.reason, entry.owner))
    if {NO_WAITS, UNUSED_SUPPRESSION} <= job.codes:
        found.idle.extend(
            _idle(job, each, rows) for each, rows in entries.items() if each not in used
        )
    return found


def _entry(finding: Finding, entries: dict[Allowed, list[tuple[int, int]]]) -> Allowed | None:
    return next(
        (
            each
            for each, rows in entries.items()
            for first, last in rows
            if first <= finding.start.row <= last
        ),
        None,
    )


def _idle(job: Job, entry: Allowed, rows: Collection[tuple[int, int]]) -> Finding:
    row = min((first for first, _ in rows), default=1)
    at = Position(row, 1)
    where = entry.at.rpartition(":")[2] or entry.at
    words = (
        f"the wait in `{where}` that {entry.owner} answers for {GONE} at "
        f"`{entry.line}`; take the entry out of the configuration's no-waits"
    )
    name = job.document.filename
    return Finding(UNUSED_SUPPRESSION, UNUSED, words, Severity.WARNING, name, at, at, row, row)
