"""The `concise` format: one line per finding, ``path:row:column: CODE [*] message``."""

from __future__ import annotations

from torchlint.report.kit.terminal import BOLD, paint
from torchlint.report.run_report import RunReport, by_measure
from torchlint.report.text import one_line, place


def render(run: RunReport) -> str:
    """Return all findings, one line each."""
    lines = (
        one_line([paint(place(each), BOLD, run.color) + ":"], each, run.color)
        for each in by_measure(run.findings())
    )
    return "".join(f"{line}\n" for line in lines)
