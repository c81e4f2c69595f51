"""The `grouped` format: the findings of each file under its name."""

from __future__ import annotations

from itertools import groupby

from torchlint.base.finding import Finding
from torchlint.report.kit.terminal import BOLD, paint
from torchlint.report.kit.words import visible_path
from torchlint.report.run_report import RunReport, by_measure, measure
from torchlint.report.text import in_file, one_line


def render(run: RunReport) -> str:
    """Return a block of lines for each file, with an empty line after each."""
    grouped = groupby(run.findings(), lambda finding: finding.filename)
    files = [(filename, by_measure(findings)) for filename, findings in grouped]
    files.sort(key=lambda file: -measure(file[1][0]))
    return "".join(_block(filename, findings, run.color) for filename, findings in files)


def _block(filename: str, findings: list[Finding], color: bool) -> str:
    width = max(len(in_file(finding)) for finding in findings)
    lines = [one_line([f"  {in_file(finding):<{width}}"], finding, color) for finding in findings]
    return "\n".join([paint(visible_path(filename), BOLD, color) + ":", *lines, "", ""])
