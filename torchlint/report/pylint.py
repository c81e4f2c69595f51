"""The `pylint` format: pylint's ``parseable`` lines, which Jenkins and many editors read."""

from __future__ import annotations

from torchlint.base.finding import Finding
from torchlint.report.kit.words import visible, visible_path
from torchlint.report.run_report import RunReport
from torchlint.report.text import file_row, in_cell


def render(run: RunReport) -> str:
    """Return ``path:row: [CODE] message`` for each finding and each file that was not analysed."""
    return "".join(f"{_line(finding)}\n" for finding in run.entries())


def _line(finding: Finding) -> str:
    words = visible(in_cell(finding) + finding.said)
    return f"{visible_path(finding.filename)}:{file_row(finding)}: [{finding.code}] {words}"
