"""What stands on the HTML page, part by part, as plain values for the template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from torchlint.base.finding import (
    FAILING,
    UNANALYSED,
    FileReport,
    Finding,
    NoteKind,
    Reason,
    Safety,
    Severity,
    TextFix,
)
from torchlint.report.excerpt import Rows, around, by_cell, marked, source_rows
from torchlint.report.kit.markdown import blocks
from torchlint.report.kit.terminal import clip
from torchlint.report.kit.words import location, pluralise
from torchlint.report.patch import MOST_ROWS, changes
from torchlint.report.run_report import (
    ENGINE,
    RuleMeta,
    RunReport,
    applicable,
    fixable,
    report_order,
)
from torchlint.report.text import in_file

OPEN = 60
"""Up to so many findings are shown unfolded."""
MOST = 9
"""Rows of a list in the summary before the rest is folded away."""
GRADES = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_FIXES = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe"}
_NOTES = {
    NoteKind.SKIPPED: "left out",
    NoteKind.UNSUPPORTED: "not analysed",
    NoteKind.FAILED: "failed",
    NoteKind.UNWRITTEN: "fix not written",
    NoteKind.WITHHELD: "fix withheld",
    NoteKind.CHECKED_LESS: "fixed with fewer checks",
}


def page(run: RunReport) -> dict[str, Any]:
    """Return the values that ``report.html.jinja`` shows."""
    findings = run.findings()
    safe, unsafe = fixable(findings)
    grades = Counter(finding.severity for finding in findings)
    unanalysed = {note.filename for note in run.notes(*UNANALYSED)}
    files = [file for file in sorted(run.files, key=lambda file: file.filename) if file.findings]
    return {
        "root": run.root,
        "version": run.version,
        "verdict": _verdict(run, len(findings), len(unanalysed)),
        "total": len(findings),
        "open": len(findings) <= OPEN,
        "checked": run.files_checked,
        "with_findings": len({finding.filename for finding in findings}),
        "unanalysed": len(unanalysed),
        "fixed": run.fix_applied,
        "fixes": {"safe": safe, "unsafe": unsafe},
        "grades": [{"name": grade.value, "count": grades[grade]} for grade in GRADES],
        "families": _shares(findings, lambda finding: (run.family(finding), "")),
        "ranked_rules": _shares(findings, lambda finding: (finding.code, finding.name)),
        "ranked_files": _shares(findings, lambda finding: (finding.filename, "")),
        "most": MOST,
        "rules": list(_rules(run)),
        "files": [_file(run, file) for file in files],
        "numbers": {file.filename: number for number, file in enumerate(files, 1)},
        "notes": [
            {
                "kind": _NOTES[note.kind],
                "grade": "error" if note.kind in FAILING else "info",
                "where": location(note.filename, note.cell, note.line),
                "message": note.message,
            }
            for note in run.notes()
        ],
    }


def _verdict(run: RunReport, total: int, unanalysed: int) -> str:
    if total:
        return f"{pluralise(total, 'finding')} in {pluralise(run.files_checked, 'checked file')}"
    if unanalysed:
        return "No findings, but not everything was analysed"
    return "All checks passed" if run.files_checked else "No files were checked"


def _shares(
    findings: Sequence[Finding], key: Callable[[Finding], tuple[str, str]]
) -> list[dict[str, Any]]:
    """Return how the findings are shared out by `key`, a name and a title, the largest share
    first."""
    groups: dict[tuple[str, str], Counter[Severity]] = {}
    for finding in findings:
        groups.setdefault(key(finding), Counter())[finding.severity] += 1
    ordered = sorted(groups.items(), key=lambda group: (-sum(group[1].values()), group[0]))
    most = sum(ordered[0][1].values()) if ordered else 1
    return [
        {
            "name": name,
            "title": title,
            "count": sum(grades.values()),
            "bars": list(_bars(grades, most)),
        }
        for (name, title), grades in ordered
    ]


def _bars(grades: Counter[Severity], most: int) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a bar, in percent of the largest share."""
    start = 0
    for grade in GRADES:
        if grades[grade]:
            yield {
                "grade": grade.value,
                "x": f"{100 * start / most:.2f}",
                "width": f"{100 * grades[grade] / most:.2f}",
            }
            start += grades[grade]


def _rules(run: RunReport) -> Iterator[dict[str, Any]]:
    """Yield the rules that found something, the most frequent first, with their manuals."""
    for code, found in sorted(run.by_code().items(), key=lambda group: (-len(group[1]), group[0])):
        meta = run.rules.get(code) or RuleMeta(code, found[0].name, "", found[0].severity, ENGINE)
        kinds = zip(("safe", "unsafe"), fixable(found), strict=True)
        yield {
            "code": code,
            "name": meta.name,
            "title": meta.title,
            "family": meta.family,
            "grade": max(
                (finding.severity for finding in found), key=lambda grade: grade.rank
            ).value,
            "count": len(found),
            "fixes": " and ".join(
                pluralise(count, f"{kind} fix") for kind, count in kinds if count
            ),
            "cost": meta.cost,
            "url": meta.url if meta.url.startswith("https://") else "",
            "manual": [
                block
                for block in blocks(meta.help_markdown)
                if block.lines != (((False, meta.title),),)
            ],
        }


def _file(run: RunReport, file: FileReport) -> dict[str, Any]:
    rows = source_rows(file)
    ordered = sorted(file.findings, key=report_order)
    cells = [
        {
            "label": "" if cell is None else f"Cell {cell}",
            "findings": [_finding(run, finding, rows) for finding in found],
        }
        for cell, found in groupby(ordered, lambda finding: finding.cell)
    ]
    return {"name": file.filename, "count": len(ordered), "cells": cells}


def _finding(run: RunReport, finding: Finding, rows: Mapping[int | None, Rows]) -> dict[str, Any]:
    safety = applicable(finding)
    return {
        "code": finding.code,
        "family": run.family(finding),
        "grade": finding.severity.value,
        "fixable": "none" if safety is None else _FIXES[safety],
        "message": finding.said,
        "row": finding.start.row,
        "where": in_file(finding),
        "excerpt": list(_excerpt(finding, rows.get(finding.cell, {}))),
        "why": [
            {"text": each.text, "where": _reason_place(each, finding)} for each in finding.why_hot
        ],
        "help": finding.help,
        "fix": None if finding.fix is None else _fix(finding.fix, rows),
    }


def _reason_place(reason: Reason, finding: Finding) -> str:
    if reason.filename == finding.filename and reason.cell == finding.cell:
        return f"line {reason.line}" if reason.line else ""
    return location(reason.filename, reason.cell, reason.line)


def _excerpt(finding: Finding, rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the rows around a finding; of its first row, what lies before, within and after it."""
    for row in around(finding, rows):
        if row != finding.start.row:
            yield {"row": row, "text": (clip(rows[row], 1)[0], "", "")}
            continue
        text, start, end = marked(finding, rows[row])
        end = max(end, start + 1)
        yield {"row": row, "text": (text[:start], text[start:end] or " ", text[end:])}


def _fix(fix: TextFix, rows: Mapping[int | None, Rows]) -> dict[str, Any]:
    hunks: list[dict[str, Any]] = []
    for cell, here in by_cell(fix):
        label = "Change" if cell is None else f"Change in cell {cell}"
        hunks += _hunks(here, rows.get(cell, {}), label)
    for part in fix.elsewhere:
        there = replace(fix, edits=part.edits)
        hunks += _hunks(there, dict(part.source), f"Change in {part.filename}")
    return {
        "title": fix.title,
        "safety": fix.safety.value,
        "note": fix.note,
        "withheld": fix.withheld,
        "hunks": hunks,
        "labelled": len({edit.cell for edit in fix.edits}) > 1 or bool(fix.elsewhere),
    }


def _hunks(fix: TextFix, rows: Rows, label: str) -> Iterator[dict[str, Any]]:
    for column, changed in changes(fix, rows):
        lines = [
            {"sign": sign, "row": row or "", "text": clip(text, column)[0]}
            for sign, row, text in changed
        ]
        more = len(lines) - MOST_ROWS
        yield {
            "label": label,
            "lines": lines[:MOST_ROWS],
            "more": f"and {pluralise(more, 'more row')}" if more > 0 else "",
        }
