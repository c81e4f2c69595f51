"""The `gitlab` format: a Code Quality report (a subset of Code Climate's) for merge requests."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from typing import Any

from torchlint.base.finding import Finding, Severity
from torchlint.report.kit.ascii_json import dump
from torchlint.report.run_report import RunReport
from torchlint.report.text import file_row, in_cell, shown_code

_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(run: RunReport) -> str:
    """Return the list of issues: every finding, and every file that was not analysed."""
    seen: Counter[tuple[str, ...]] = Counter()
    return dump([_issue(run, finding, seen) for finding in run.entries()])


def _issue(run: RunReport, finding: Finding, seen: Counter[tuple[str, ...]]) -> dict[str, Any]:
    path = _path(run, finding.filename)
    row = file_row(finding)
    last = finding.end.row if finding.cell is None else row
    return {
        "check_name": finding.code,
        "description": f"{in_cell(finding)}{shown_code(finding)} {finding.said}",
        "severity": _SEVERITY[finding.severity],
        "fingerprint": _fingerprint(finding, path, seen),
        "location": {"path": path, "lines": {"begin": row, "end": last}},
    }


def _path(run: RunReport, filename: str) -> str:
    """Return the path under the repository, the only form that GitLab links to; outside of it the
    absolute one."""
    base = os.environ.get("CI_PROJECT_DIR") or run.root
    return run.relative(filename, base) or run.absolute(filename)


def _fingerprint(finding: Finding, path: str, seen: Counter[tuple[str, ...]]) -> str:
    """Return an identity that survives line shifts and is the only one of its kind: GitLab drops a
    second."""
    parts = (
        finding.fingerprint,
        finding.code,
        path,
        "" if finding.fingerprint else finding.message,
    )
    text = "\0".join((*parts, str(seen[parts])))
    seen[parts] += 1
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
