"""Findings beside what was measured at their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchlint.base.finding import Finding
from torchlint.profile.waits import Wait, Waits


@dataclass(frozen=True, slots=True)
class FindingCost:
    """A finding with the wait that was measured in its statement; None where none was."""

    finding: Finding
    wait: Wait | None


def joined(findings: Sequence[Finding], found: Waits) -> tuple[FindingCost, ...]:
    """Join findings with waits whose line is known; the most saving first, then as they came.

    Args:
        findings: what the linter says of the program.
        found: the waits.
    """
    known = [wait for wait in found.each if wait.site.has_line]
    costs = [FindingCost(finding, _at(finding, known)) for finding in findings]
    return tuple(sorted(costs, key=_rank))


def _at(finding: Finding, known: Sequence[Wait]) -> Wait | None:
    """Return the wait in a finding's statement, the most saving where there are several."""
    inside = (
        wait
        for wait in known
        if wait.site.file == finding.filename
        and finding.statement <= wait.site.line <= finding.statement_end
    )
    return next(inside, None) if finding.cell is None else None


def _rank(cost: FindingCost) -> tuple[bool, int, int]:
    wait = cost.wait
    return (wait is None, -(wait.alone or 0) if wait else 0, -wait.waited if wait else 0)
