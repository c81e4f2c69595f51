"""Runs the engine in this process over source text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torchlint.base.errors import CatalogError, UsageError
from torchlint.base.finding import UNANALYSED, FileReport, Finding
from torchlint.catalog.rules import load_catalog
from torchlint.engine.analyse import analyse
from torchlint.engine.job import Job
from torchlint.source.document import decode


def findings(source: str, select: Iterable[str] = ("ALL",), **settings: Any) -> tuple[Finding, ...]:
    """Check Python source and return what is found, in order.

    Args:
        source: the text of a file.
        select: codes, prefixes or names of rules; by default every rule is on, whatever its own
            default.
        settings: other fields of `torchlint.engine.job.Job`, such as ``target_torch=(2, 4)``, and
            ``name``, the path of the file.

    Raises:
        UsageError: `select` names no rule.
        AssertionError: the source was not checked in full, because a rule crashed or could not be
            imported, say.
    """
    return _complete(analyse(job(source, codes=_codes(select), **settings))).findings


def fixed(
    source: str, select: Iterable[str] = ("ALL",), *, unsafe: bool = False, **settings: Any
) -> str:
    """Check Python source, apply the fixes and return the text that comes of it.

    Args:
        source: the text of a file.
        select: codes, prefixes or names of rules.
        unsafe: whether unsafe fixes are applied too.
        settings: as for `findings`.

    Raises:
        UsageError: `select` names no rule.
        AssertionError: the source was not checked in full, or a fix did not work out.
    """
    report = _complete(
        analyse(job(source, codes=_codes(select), fix="unsafe" if unsafe else "safe", **settings))
    )
    return report.after if report.before != report.after else source


def every_code() -> frozenset[str]:
    """Return the codes of all rules.

    Raises:
        CatalogError: rules of a plugin are left out; a test that does not run them would pass for
            nothing.
    """
    catalog = load_catalog()
    for problem in catalog.problems:
        raise CatalogError(f"{problem.path}: {problem.message}")
    return frozenset(info.code for info in catalog.rules)


def job(
    source: str,
    *,
    codes: frozenset[str] | None = None,
    fix: str = "",
    name: str = "train.py",
    **settings: Any,
) -> Job:
    """Return the job of checking `source` with every rule, or only `codes`."""
    document = decode(source.encode(), f"/project/{name}", name)
    return Job(document, name, every_code() if codes is None else codes, fix=fix, **settings)


def _codes(select: Iterable[str]) -> frozenset[str]:
    every_code()
    return load_catalog().resolve(select, "select", UsageError)


def _complete(report: FileReport) -> FileReport:
    told = [note.message for note in report.notes if note.kind in UNANALYSED]
    if told:
        raise AssertionError("; ".join(told))
    return report
