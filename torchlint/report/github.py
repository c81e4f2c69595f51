"""The `github` format: workflow commands that GitHub Actions shows beside the changed lines."""

from __future__ import annotations

from torchlint.base.finding import NOT_ANALYSED, Finding, Note, NoteKind, Severity
from torchlint.report.run_report import UNANALYSED, RunReport
from torchlint.report.text import file_row, shown_code, visible

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
    cell = "" if finding.cell is None else f"cell {finding.cell}:"
    place = f"{cell}{start.row}:{start.column}"
    message = f"{finding.filename}:{place}: {shown_code(finding)} {finding.message}"
    return _command(_COMMAND[finding.severity], properties, message)


def _note(run: RunReport, note: Note) -> str:
    command = "error" if note.kind is NoteKind.FAILED else "warning"
    title = f"torchlint ({NOT_ANALYSED})"
    cell = "" if note.cell is None else f"cell {note.cell}:{max(note.line, 1)}: "  # a row of the cell, not of the file
    line = max(note.line, 1) if note.cell is None else 1
    properties = {"file": run.absolute(note.filename), "line": str(line), "title": title}
    return _command(command, properties, f"{note.filename}: {cell}{NOT_ANALYSED}: {note.message}")


def _command(command: str, properties: dict[str, str], message: str) -> str:
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{command} {listed}::{_data(message)}"


def _data(text: str) -> str:
    """Escape a message: with no raw newline left, it cannot start a command of its own."""
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
