"""The `sarif` format: SARIF 2.1.0, for code scanning and editors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from torchlint.base.finding import (
    Edit,
    Finding,
    Note,
    NoteKind,
    Reason,
    Severity,
    Suppressed,
    TextFix,
)
from torchlint.base.span import Position
from torchlint.report.kit.ascii_json import dump
from torchlint.report.kit.words import location, path_bytes
from torchlint.report.run_report import ENGINE, RuleMeta, RunReport, applicable, report_order
from torchlint.report.text import file_row, in_cell

MOST_RESULTS = 25_000
"""Results per run that GitHub takes; it refuses a longer file as a whole."""
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_NOTE_LEVELS = {
    NoteKind.SKIPPED: "warning",
    NoteKind.UNSUPPORTED: "error",
    NoteKind.FAILED: "error",
    NoteKind.UNWRITTEN: "error",
    NoteKind.WITHHELD: "note",
    NoteKind.CHECKED_LESS: "note",
}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"


def render(run: RunReport) -> str:
    """Return the log with one run.

    Above `MOST_RESULTS` the suppressed and then the least severe findings are left out, and a
    notification says so.
    """
    findings, suppressed = run.findings(), run.suppressed()
    kept = findings
    if len(findings) > MOST_RESULTS:
        by_rank = sorted(findings, key=lambda finding: -finding.severity.rank)
        kept = sorted(by_rank[:MOST_RESULTS], key=report_order)
    held = suppressed[: MOST_RESULTS - len(kept)]
    left_out = len(findings) + len(suppressed) - len(kept) - len(held)
    rules = _rules(run, [*kept, *(one.finding for one in held)])
    index = {rule["id"]: at for at, rule in enumerate(rules)}
    results = [_result(run, finding, index[finding.code]) for finding in kept]
    if held:
        # SARIF 2.1.0: either all results of a run say whether they are suppressed, or none does.
        results = [{**result, "suppressions": []} for result in results]
        results += [_suppressed(run, one, index[one.finding.code]) for one in held]
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "torchlint", "version": run.version, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    _ROOT: {"description": {"text": "The root of the project."}}
                },
                "invocations": [_invocation(run, left_out)],
                "results": results,
                **(
                    {"properties": {"shard": run.shard.as_json(run.version)}}
                    if run.shard is not None
                    else {}
                ),
            }
        ],
    }
    return dump(log)


def _rules(run: RunReport, findings: list[Finding]) -> list[dict[str, Any]]:
    """Describe the rules that were on, and the engine's own codes where they occur."""
    metas = dict(run.rules)
    for finding in findings:
        if finding.code not in metas:
            title = finding.name.replace("-", " ").capitalize()
            metas[finding.code] = RuleMeta(
                finding.code, finding.name, title, finding.severity, ENGINE
            )
    return [_rule(metas[code]) for code in sorted(metas)]


def _rule(meta: RuleMeta) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "id": meta.code,
        "name": meta.name,
        "shortDescription": {"text": meta.title},
        "help": {"text": meta.title},
        "defaultConfiguration": {"enabled": meta.default, "level": _LEVELS[meta.severity]},
        "properties": {"tags": ["performance", "pytorch", meta.family]},
    }
    if meta.help_markdown:
        rule["help"] = {
            "text": meta.help_text or meta.help_markdown,
            "markdown": meta.help_markdown,
        }
    if meta.url:
        rule["helpUri"] = meta.url
    return rule


def _invocation(run: RunReport, left_out: int) -> dict[str, Any]:
    notifications = [_notification(run, note) for note in run.notes()]
    if left_out:
        text = f"{left_out} findings are left out: a SARIF run holds at most {MOST_RESULTS}."
        notifications.append(
            {
                "level": "warning",
                "message": {"text": text},
                "descriptor": {"id": "too-many-findings"},
            }
        )
    failed = any(run.notes(NoteKind.FAILED))
    return {"executionSuccessful": not failed, "toolExecutionNotifications": notifications}


def _notification(run: RunReport, note: Note) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(run, note.filename)}
    if note.line and note.cell is None:
        physical["region"] = {"startLine": note.line}
    return {
        "level": _NOTE_LEVELS[note.kind],
        "message": {
            "text": note.message if note.cell is None else f"cell {note.cell}: {note.message}"
        },
        "descriptor": {"id": note.kind.value},
        "locations": [{"physicalLocation": physical}],
    }


def _result(run: RunReport, finding: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": in_cell(finding) + finding.said},
        "locations": [_location(run, finding)],
    }
    if finding.fingerprint:
        result["partialFingerprints"] = {"torchlint/v1": finding.fingerprint}
    if finding.measured is not None:
        result["rank"] = round(100 * finding.measured.share, 2)
    if finding.why_hot:
        result["relatedLocations"] = [_related(run, reason) for reason in finding.why_hot]
    # A cell's rows are not the rows of the .ipynb file, and a suggestion is not for a tool to
    # apply.
    if finding.fix is not None and finding.cell is None and applicable(finding):
        result["fixes"] = [_fix(run, finding, finding.fix)]
    return result


def _suppressed(run: RunReport, held: Suppressed, index: int) -> dict[str, Any]:
    suppression = {"kind": "inSource" if held.in_source else "external"}
    if held.reason:
        suppression["justification"] = ": ".join(filter(None, (held.owner, held.reason)))
    return {**_result(run, held.finding, index), "suppressions": [suppression]}


def _location(run: RunReport, finding: Finding) -> dict[str, Any]:
    """Return where a finding lies; a notebook's lines are those of its JSON text, in which a column
    says nothing."""
    cell = finding.cell
    region = (
        _region(finding.start, finding.end) if cell is None else {"startLine": file_row(finding)}
    )
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": _artifact(run, finding.filename), "region": region}
    }
    if cell is not None:
        location["logicalLocations"] = [{"name": f"cell {cell}"}]
    return location


def _related(run: RunReport, reason: Reason) -> dict[str, Any]:
    place = "" if reason.cell is None else f"{location('', reason.cell, reason.line)}: "
    physical: dict[str, Any] = {"artifactLocation": _artifact(run, reason.filename)}
    if reason.cell is None:
        physical["region"] = {"startLine": max(reason.line, 1)}
    return {"message": {"text": place + reason.text}, "physicalLocation": physical}


def _fix(run: RunReport, finding: Finding, fix: TextFix) -> dict[str, Any]:
    note = f" ({fix.safety.value}: {fix.note})" if fix.note else ""
    return {
        "description": {"text": fix.title + note},
        "artifactChanges": [
            _changes(run, finding.filename, fix.edits),
            *(_changes(run, part.filename, part.edits) for part in fix.elsewhere),
        ],
    }


def _changes(run: RunReport, filename: str, edits: Sequence[Edit]) -> dict[str, Any]:
    replacements = []
    for edit in edits:
        replacement: dict[str, Any] = {"deletedRegion": _region(edit.start, edit.end)}
        if edit.text:
            replacement["insertedContent"] = {"text": edit.text}
        replacements.append(replacement)
    return {"artifactLocation": _artifact(run, filename), "replacements": replacements}


def _region(start: Position, end: Position) -> dict[str, int]:
    return {
        "startLine": start.row,
        "startColumn": start.column,
        "endLine": end.row,
        "endColumn": end.column,
    }


def _artifact(run: RunReport, filename: str) -> dict[str, Any]:
    """Return a percent-encoded URI under the root; a file outside it gets an absolute one without a
    base."""
    relative = run.relative(filename)
    if relative is not None:
        return {"uri": quote(path_bytes(relative)), "uriBaseId": _ROOT}
    return {"uri": "file://" + quote(path_bytes("/" + run.absolute(filename).lstrip("/")))}
