"""The `json-lines` format: the entries of `json`, one on each line, so that a reader need not hold
them all."""

from __future__ import annotations

from torchlint.report.json_list import entries
from torchlint.report.kit.ascii_json import dump_line
from torchlint.report.run_report import RunReport


def render(run: RunReport) -> str:
    """Return a line per finding, then one per file that was left out."""
    return "".join(map(dump_line, entries(run)))
