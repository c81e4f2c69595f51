"""Runs the engine in this process over source text; what the tests of rules share."""

from __future__ import annotations

from functools import lru_cache

from torchlint.base.finding import FileReport, Finding
from torchlint.engine.catalog import load_catalog
from torchlint.engine.check import analyse
from torchlint.engine.job import Job
from torchlint.engine.rule_file import RuleInfo
from torchlint.source.document import decode


def rules() -> list[RuleInfo]:
    """Return the rules of the catalogue in order of their codes."""
    return list(load_catalog().rules)


def ids(infos: list[RuleInfo]) -> list[str]:
    """Return test ids: code and name."""
    return [f"{info.code}-{info.name}" for info in infos]


@lru_cache
def every_code() -> frozenset[str]:
    """Return all rule codes."""
    return frozenset(info.code for info in rules())


def job(
    source: str, *, codes: frozenset[str] | None = None, fix: str = "", name: str = "train.py", **settings: object
) -> Job:
    """Return the job of checking `source` with every rule, or only `codes`."""
    document = decode(source.encode(), f"/project/{name}", name)
    on = every_code() if codes is None else codes
    return Job(document, name, on, fix=fix, **settings)  # type: ignore[arg-type]


def check(source: str, *, codes: frozenset[str] | None = None, **settings: object) -> FileReport:
    """Check `source` in this process."""
    return analyse(job(source, codes=codes, **settings))


def fixed(source: str, safety: str, *, codes: frozenset[str] | None = None, **settings: object) -> FileReport:
    """Check `source` and apply fixes up to `safety` (``"safe"`` or ``"unsafe"``)."""
    return analyse(job(source, codes=codes, fix=safety, **settings))


def for_rule(report: FileReport, info: RuleInfo) -> list[Finding]:
    """Return the findings of one rule."""
    return [finding for finding in report.findings if finding.code == info.code]
