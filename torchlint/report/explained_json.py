"""Explanations as JSON: a list with one entry for each place, with all that the text says and what
it leaves out."""

from __future__ import annotations

from collections.abc import Iterable
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
    }


def _pace(pace: Pace) -> dict[str, Any]:
    return {
        "grade": pace.grade,
        "words": pace.words,
        "why": [_reason(why) for why in pace.why],
        "guards": [_guard(guard) for guard in pace.guards],
        "roles": list(pace.roles),
    }


def _guard(guard: Guard) -> dict[str, Any]:
    told = {
        "test": guard.test,
        "row": guard.row,
        "needed": guard.needed,
        "throttles": guard.throttles,
    }
    return told | _cell(guard.cell)


def _belief(belief: Belief) -> dict[str, Any]:
    return {
        "expression": belief.expression,
        "row": belief.row,
        "column": belief.column,
        "kind": None if belief.kind == "?" else belief.kind,
        "device": belief.device,
        "dtype": belief.dtype,
        "on_device": belief.on_device,
        "grad": belief.grad,
        "words": belief.words,
        "origin": [_reason(link) for link in belief.origin],
        "unknown": belief.unknown or None,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {"text": reason.text, "filename": reason.filename, "line": reason.line} | _cell(
        reason.cell
    )


def _cell(cell: int | None) -> dict[str, Any]:
    """Return the cell of what may lie in another one than the place; outside of notebooks there is
    no such key."""
    return {} if cell is None else {"cell": cell}
