"""What the tests of rules share, on top of the harness that plugins use too."""

from __future__ import annotations

from torchlint.base.finding import FileReport, Finding
from torchlint.catalog.rule_file import OURS, RuleInfo
from torchlint.catalog.rules import load_catalog
from torchlint.run.worker import analyse_job
from torchlint.testing.source import every_code, job

__all__ = ["check", "every_code", "fixed", "for_rule", "job", "rules"]


def rules() -> list[RuleInfo]:
    """Return our own rules in order of their codes."""
    return [info for info in load_catalog().rules if info.package == OURS]


def check(source: str, *, codes: frozenset[str] | None = None, **settings: object) -> FileReport:
    """Check `source` in this process."""
    return analyse_job(job(source, codes=codes, **settings))


def fixed(
    source: str, safety: str, *, codes: frozenset[str] | None = None, **settings: object
) -> FileReport:
    """Check `source` and apply fixes up to `safety` (``"safe"`` or ``"unsafe"``)."""
    return analyse_job(job(source, codes=codes, fix=safety, **settings))


def for_rule(report: FileReport, info: RuleInfo) -> list[Finding]:
    """Return the findings of one rule."""
    return [finding for finding in report.findings if finding.code == info.code]
