"""The `github` format: workflow commands that GitHub Actions shows beside the changed lines."""

from __future__ import annotations

from torchlint.base.finding import (
    FAILING,
    NOT_ANALYSED,
    UNANALYSED,
    Finding,
    Note,
    Severity,
)
from torchlint.report.kit.words import location
from torchlint.report.run_report import RunReport
from torchlint.report.text import file_row, log_data, place, shown_code

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(run: RunReport) -> str:
    """Return one command per finding and per file that was not analysed."""
    lines = [_finding(run, finding) for finding in run.findings()]
    lines += [_note(run, note) for note in run.notes(*UNANALYSED)]
    return "".join(f"{line}\n" for line in lines)


def _finding(run: RunReport, finding: Finding) -> str:
    start, end = finding.start, finding.end
    notebook = finding.cell is not None  # whose rows and columns are not those of the file
    # GitHub refuses columns for an annotation of several rows.
    one_row = start.row == end.row and not notebook
    properties = {
        "file": run.absolute(finding.filename),
        "line": str(file_row(finding)),
        "col": str(start.column) if one_row else "",
        "endLine": "" if notebook else str(end.row),
        "endColumn": str(end.column) if one_row else "",
        "title": f"torchlint ({finding.code})",
    }
    return _command(
        _COMMAND[finding.severity],
        properties,
        f"{place(finding)}: {shown_code(finding)} {finding.said}",
    )


def _note(run: RunReport, note: Note) -> str:
    command = "error" if note.kind in FAILING else "warning"
    title = f"torchlint ({NOT_ANALYSED})"
    notebook = note.cell is not None  # whose rows are not those of the file
    line = 1 if notebook else max(note.line, 1)
    where = location(note.filename, note.cell, note.line) if notebook else note.filename
    properties = {"file": run.absolute(note.filename), "line": str(line), "title": title}
    return _command(command, properties, f"{where}: {NOT_ANALYSED}: {note.message}")


def _command(command: str, properties: dict[str, str], message: str) -> str:
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{command} {listed}::{log_data(message, '%25')}"


def _property(text: str) -> str:
    return log_data(text, "%25").replace(":", "%3A").replace(",", "%2C")
