"""The `concise` format: one line per finding, ``path:row:column: CODE [*] message``."""

from __future__ import annotations

from torchlint.base.finding import Finding
from torchlint.report.run_report import RunReport
from torchlint.report.style import BOLD, CYAN, SEVERITY, paint
from torchlint.report.text import marker, place, shown_code, visible


def render(run: RunReport) -> str:
    """Return all findings, one line each."""
    return "".join(f"{_line(finding, run.color)}\n" for finding in run.findings())


def _line(finding: Finding, color: bool) -> str:
    words = [
        paint(place(finding), BOLD, color) + ":",
        paint(shown_code(finding), SEVERITY[finding.severity], color),
        paint(marker(finding), CYAN, color),
        visible(finding.message),
    ]
    return " ".join(word for word in words if word)
