"""Reports of files as JSON values, and back; what does not look like one raises."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from torchlint.base.finding import (
    Edit,
    FileEdits,
    FileReport,
    Finding,
    Frequency,
    Note,
    NoteKind,
    Reason,
    Safety,
    Severity,
    Suppressed,
    TextFix,
)
from torchlint.base.span import Position, Span

Name = Callable[[str], str]
"""Turns the name of a file into the one that is cached or to show."""


class NoReportError(ValueError):
    """A value of the cache that is no report."""


def packed(report: FileReport, name: Name) -> list[Any]:
    """Return the findings, notes and source rows of a report, and what its comments silence.

    `name` gives the names of files that are cached.
    """
    return [
        [_packed_finding(finding, name) for finding in report.findings],
        [[note.kind.value, note.message, note.line, note.cell] for note in report.notes],
        [list(row) for row in report.source],
        [
            [_packed_finding(held.finding, name), held.reason, held.owner]
            for held in report.suppressed
            if held.in_source
        ],
    ]


def unpacked(value: Any, filename: str, name: Name) -> FileReport:
    """Return the report of a file called `filename`.

    Raises:
        NoReportError: the value is not one that `packed` gave.
    """
    try:
        findings, notes, source, suppressed = value
        return FileReport(
            filename,
            tuple(_finding(item, name) for item in findings),
            tuple(
                Note(NoteKind(_text(kind)), filename, _text(text), _int(line), _cell(cell))
                for kind, text, line, cell in notes
            ),
            source=tuple((_cell(cell), _int(row), _text(text)) for cell, row, text in source),
            suppressed=tuple(
                Suppressed(_finding(item, name), True, _text(reason), _text(owner))
                for item, reason, owner in suppressed
            ),
        )
    except (TypeError, ValueError) as error:
        raise NoReportError(str(error)) from error


def _packed_finding(finding: Finding, name: Name) -> list[Any]:
    return [
        finding.code,
        finding.name,
        finding.message,
        finding.severity.value,
        name(finding.filename),
        [finding.start.row, finding.start.column, finding.end.row, finding.end.column],
        [finding.statement, finding.statement_end],
        finding.fingerprint,
        None if finding.fix is None else _packed_fix(finding.fix, name),
        [
            [reason.text, name(reason.filename), reason.line, reason.cell]
            for reason in finding.why_hot
        ],
        finding.cell,
        finding.help,
        finding.file_row,
        finding.content,
        int(finding.frequency),
    ]


def _finding(value: Any, name: Name) -> Finding:
    (
        code,
        title,
        message,
        severity,
        filename,
        place,
        statement,
        fingerprint,
        fix,
        reasons,
        cell,
        words,
        *more,
    ) = value
    stored, content, frequency = more
    start_row, start_column, end_row, end_column = place
    first, last = statement
    return Finding(
        _text(code),
        _text(title),
        _text(message),
        Severity(_text(severity)),
        name(_text(filename)),
        Position(_int(start_row), _int(start_column)),
        Position(_int(end_row), _int(end_column)),
        _int(first),
        _int(last),
        _text(fingerprint),
        None if fix is None else _fix(fix, name),
        tuple(
            Reason(_text(text), name(_text(of)), _int(line), _cell(at))
            for text, of, line, at in reasons
        ),
        _cell(cell),
        _text(words),
        _cell(stored),
        _text(content),
        Frequency(_int(frequency)),
    )


def _packed_fix(fix: TextFix, name: Name) -> list[Any]:
    return [
        fix.safety.value,
        fix.title,
        list(map(_packed_edit, fix.edits)),
        fix.note,
        fix.withheld,
        [
            [
                name(part.filename),
                name(part.path),
                part.text,
                list(map(_packed_edit, part.edits)),
                [list(row) for row in part.source],
            ]
            for part in fix.elsewhere
        ],
        list(fix.assumes),
    ]


def _packed_edit(edit: Edit) -> list[Any]:
    start, end = edit.start, edit.end
    return [
        edit.span.start,
        edit.span.end,
        edit.text,
        start.row,
        start.column,
        end.row,
        end.column,
        edit.cell,
    ]


def _fix(value: Any, name: Name) -> TextFix:
    safety, title, edits, note, withheld, elsewhere, assumes = value
    return TextFix(
        Safety(_text(safety)),
        _text(title),
        tuple(map(_edit, edits)),
        _text(note),
        _text(withheld),
        tuple(_file_edits(item, name) for item in elsewhere),
        assumes=tuple(map(_text, assumes)),
    )


def _file_edits(value: Any, name: Name) -> FileEdits:
    filename, path, text, edits, source = value
    return FileEdits(
        name(_text(filename)),
        os.path.realpath(name(_text(path))),
        _text(text),
        tuple(map(_edit, edits)),
        tuple((_int(row), _text(line)) for row, line in source),
    )


def _edit(value: Any) -> Edit:
    first, last, text, start_row, start_column, end_row, end_column, cell = value
    return Edit(
        Span(_int(first), _int(last)),
        _text(text),
        Position(_int(start_row), _int(start_column)),
        Position(_int(end_row), _int(end_column)),
        _cell(cell),
    )


def _cell(value: Any) -> int | None:
    return None if value is None else _int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not a whole number")
    return value
