"""The `rdjson` format: Reviewdog's JSON, for comments on pull requests of any host."""

from __future__ import annotations

from typing import Any

from torchlint.base.finding import Edit, Finding, Safety, Severity
from torchlint.base.span import Position
from torchlint.report.excerpt import Rows, source_rows
from torchlint.report.kit.ascii_json import dump
from torchlint.report.run_report import RunReport, applicable
from torchlint.report.text import file_row, in_cell

_SEVERITY = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}


def render(run: RunReport) -> str:
    """Return the diagnostics: every finding, and every file that was not analysed."""
    sources = {file.filename: source_rows(file).get(None, {}) for file in run.files}
    diagnostics = [
        _diagnostic(run, finding, sources.get(finding.filename, {})) for finding in run.entries()
    ]
    return dump(
        {"source": {"name": "torchlint"}, "severity": "WARNING", "diagnostics": diagnostics}
    )


def _diagnostic(run: RunReport, finding: Finding, rows: Rows) -> dict[str, Any]:
    rule = run.rules.get(finding.code)
    code = {"value": finding.code, **({"url": rule.url} if rule and rule.url else {})}
    if finding.cell is None:
        place: dict[str, Any] = _range(finding.start, finding.end, rows)
    else:
        place = {"start": {"line": file_row(finding)}}
    path = run.relative(finding.filename, run.cwd) or run.absolute(finding.filename)
    diagnostic: dict[str, Any] = {
        "message": in_cell(finding) + finding.said,
        "location": {"path": path, "range": place},
        "severity": _SEVERITY[finding.severity],
        "code": code,
    }
    edit = _suggested(run, finding)
    if edit is not None:
        diagnostic["suggestions"] = [
            {"range": _range(edit.start, edit.end, rows), "text": edit.text}
        ]
    return diagnostic


def _suggested(run: RunReport, finding: Finding) -> Edit | None:
    """Return the edit of a fix that can be accepted with a click: reviewers see each edit as a
    proposal of its own."""
    safety = applicable(finding)
    allowed = safety is Safety.SAFE or (safety is Safety.UNSAFE and run.unsafe_fixes)
    if (
        finding.fix is None
        or finding.cell is not None
        or not allowed
        or len(finding.fix.edits) != 1
        or finding.fix.elsewhere
    ):
        return None
    return finding.fix.edits[0]


def _range(start: Position, end: Position, rows: Rows) -> dict[str, Any]:
    return {"start": _position(start, rows), "end": _position(end, rows)}


def _position(position: Position, rows: Rows) -> dict[str, int]:
    """Return a position as Reviewdog counts: from 1, columns in bytes of UTF-8."""
    before = rows.get(position.row, "")[: position.column - 1]
    extra = len(before.encode("utf-8", "replace")) - len(before)
    return {"line": position.row, "column": position.column + extra}
