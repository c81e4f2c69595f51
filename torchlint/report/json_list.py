"""The `json` format: a bare list with ruff's keys, so that tools that read ruff's reports can read
ours.

Keys that ruff lacks: ``fingerprint`` and ``why_hot`` of an entry, ``note`` of a fix; in notebooks
``cell`` of an edit and of a reason, which may lie in other cells; ``shard`` where the report is of
a part of a run; ``measured`` where a profile says what fixing the finding saves at most;
``elsewhere`` of a fix that changes other files too, with their edits: all are applied, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlint.base.finding import (
    INVALID_SYNTAX,
    NOT_ANALYSED,
    UNREADABLE,
    Edit,
    Finding,
    Measured,
    Safety,
    TextFix,
)
from torchlint.base.span import Position
from torchlint.report.kit.ascii_json import dump
from torchlint.report.run_report import RunReport

_APPLICABILITY = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe", Safety.SUGGESTION: "display"}
_NO_COMMENT_HELPS = frozenset({INVALID_SYNTAX, UNREADABLE, NOT_ANALYSED})


def render(run: RunReport) -> str:
    """Return the list: every finding, then an entry ``not-analysed`` for each file that was left
    out."""
    found = list(entries(run))
    if run.shard is not None:
        found = [{**entry, "shard": run.shard.as_json(run.version)} for entry in found]
    return dump(found)


def entries(run: RunReport) -> Iterator[dict[str, Any]]:
    """Yield the entries of the list."""
    return (_finding(run, finding) for finding in run.entries())


def _finding(run: RunReport, finding: Finding) -> dict[str, Any]:
    rule = run.rules.get(finding.code)
    return {
        "cell": finding.cell,
        "code": finding.code,
        "end_location": _location(finding.end),
        "filename": run.absolute(finding.filename),
        "fingerprint": finding.fingerprint,
        "fix": None if finding.fix is None else _fix(run, finding.fix),
        "location": _location(finding.start),
        **({} if finding.measured is None else {"measured": _measured(finding.measured)}),
        "message": finding.message,
        "name": finding.name,
        # The statement's last row: a comment there is never inside a string or behind a backslash.
        "noqa_row": None if finding.code in _NO_COMMENT_HELPS else finding.statement_end,
        "severity": finding.severity.value,
        "url": rule.url or None if rule else None,
        "why_hot": [
            {
                "text": reason.text,
                "filename": run.absolute(reason.filename),
                "line": reason.line,
                **({} if reason.cell is None else {"cell": reason.cell}),
            }
            for reason in finding.why_hot
        ],
    }


def _measured(measured: Measured) -> dict[str, Any]:
    return {
        "alone_ns": measured.alone_ns,
        "joint_share": measured.joint,
        "negligible": measured.negligible,
        "share": measured.share,
    }


def _fix(run: RunReport, fix: TextFix) -> dict[str, Any]:
    elsewhere = [
        {"edits": [_edit(edit) for edit in part.edits], "filename": run.absolute(part.filename)}
        for part in fix.elsewhere
    ]
    return {
        "applicability": "display" if fix.withheld else _APPLICABILITY[fix.safety],
        "edits": [_edit(edit) for edit in fix.edits],
        **({"elsewhere": elsewhere} if elsewhere else {}),
        "message": fix.title,
        "note": fix.withheld or fix.note,
    }


def _edit(edit: Edit) -> dict[str, Any]:
    return {
        **({} if edit.cell is None else {"cell": edit.cell}),
        "content": edit.text,
        "end_location": _location(edit.end),
        "location": _location(edit.start),
    }


def _location(position: Position) -> dict[str, int]:
    return {"column": position.column, "row": position.row}
