"""Explanations as JSON: a list with one entry for each place, with all that the text says and what
it leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from torchlint.base.explanation import Belief, ExplainedReport, Explanation, Guard, Pace, Verdict
from torchlint.base.finding import Reason
from torchlint.report.kit.ascii_json import dump


def render(reports: Iterable[ExplainedReport]) -> str:
    """Return the list."""
    return dump([_explanation(report, each) for report in reports for each in report.explanations])


def _explanation(report: ExplainedReport, each: Explanation) -> dict[str, Any]:
    return {
        "filename": report.filename,
        "cell": each.place.cell,
        "row": each.place.row,
        "column": each.place.column,
        "source": each.source,
        "remark": each.remark or None,
        "rules": [_verdict(verdict) for verdict in each.verdicts],
        "pace": None if each.pace is None else _pace(each.pace),
        "values": [_belief(belief) for belief in each.beliefs],
        "waits": list(each.waits),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "code": verdict.code,
        "name": verdict.name,
        "state": verdict.state.value,
        "because": verdict.because or None,
        "message": verdict.message or None,
        "expression": verdict.expression or None,
        "row": verdict.row,
        "column": verdict.column,
        "decided_by": verdict.decided_by or None,
    }


def _pace(pace: Pace) -> dict[str, Any]:
    parts = {"why": list(map(_cell_of, pace.why)), "guards": list(map(_cell_of, pace.guards))}
    return asdict(pace) | parts


def _belief(belief: Belief) -> dict[str, Any]:
    return asdict(belief) | {
        "kind": None if belief.kind == "?" else belief.kind,
        "origin": [_cell_of(link) for link in belief.origin],
        "unknown": belief.unknown or None,
    }


def _cell_of(part: Reason | Guard) -> dict[str, Any]:
    """Return what may lie in another cell than the place; outside of notebooks there is no key for
    it."""
    return {key: value for key, value in asdict(part).items() if (key, value) != ("cell", None)}
