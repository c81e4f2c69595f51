"""The `grouped` format: the findings of each file under its name."""

from __future__ import annotations

from itertools import groupby

from torchlint.base.finding import Finding
from torchlint.report.run_report import RunReport
from torchlint.report.style import BOLD, CYAN, SEVERITY, paint
from torchlint.report.text import in_file, marker, shown_code, visible, visible_path


def render(run: RunReport) -> str:
    """Return a block of lines for each file, with an empty line after each."""
    return "".join(
        _block(filename, list(findings), run.color)
        for filename, findings in groupby(run.findings(), lambda finding: finding.filename)
    )


def _block(filename: str, findings: list[Finding], color: bool) -> str:
    places = [in_file(finding) for finding in findings]
    width = max(map(len, places))
    lines = [paint(visible_path(filename), BOLD, color) + ":"]
    for place, finding in zip(places, findings, strict=True):
        words = [
            paint(shown_code(finding), SEVERITY[finding.severity], color),
            paint(marker(finding), CYAN, color),
            visible(finding.message),
        ]
        lines.append(f"  {place:<{width}} {' '.join(word for word in words if word)}")
    return "\n".join([*lines, "", ""])
