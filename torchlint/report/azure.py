"""The `azure` format: logging commands that Azure Pipelines shows as the issues of a build."""

from __future__ import annotations

from torchlint.base.finding import Finding, Severity
from torchlint.report.run_report import RunReport
from torchlint.report.text import file_row, in_cell, log_data


def render(run: RunReport) -> str:
    """Return one command per finding and per file that was not analysed."""
    return "".join(f"{_command(run, finding)}\n" for finding in run.entries())


def _command(run: RunReport, finding: Finding) -> str:
    properties = {
        "type": "error"
        if finding.severity is Severity.ERROR
        else "warning",  # there is no third kind
        "sourcepath": run.absolute(finding.filename),
        "linenumber": str(file_row(finding)),
        "columnnumber": str(finding.start.column) if finding.cell is None else "",
        "code": finding.code,
    }
    listed = "".join(f"{key}={_property(value)};" for key, value in properties.items() if value)
    return f"##vso[task.logissue {listed}]{log_data(in_cell(finding) + finding.said, '%AZP25')}"


def _property(text: str) -> str:
    return log_data(text, "%AZP25").replace(";", "%3B").replace("]", "%5D")
