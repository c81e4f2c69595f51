"""Explains places of one file: the analysis of a check, and then questions about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from torchlint.base.explanation import Asked, ExplainedReport, Explanation, Place, State, Verdict
from torchlint.base.finding import INVALID_SYNTAX, UNUSED_SUPPRESSION, FileReport, Finding
from torchlint.base.span import LineIndex
from torchlint.engine import syntax
from torchlint.engine.catalog import load_catalog, load_rules
from torchlint.engine.check import analyse, concerns_us
from torchlint.engine.explaining.spots import Spots
from torchlint.engine.explaining.verdicts import Verdicts
from torchlint.engine.hits import collect
from torchlint.engine.job import Job

_BLANK = "there is no code on this line"
_FOREIGN = "no rule looks at this file: it imports neither torch nor what builds on it"


def explain(job: Job, asked: Asked) -> ExplainedReport:
    """Check a file and explain places in it. Of a file that cannot be analysed, the report says why."""
    report = analyse(job)
    text = job.document.text
    rows = len(LineIndex(text)) - text.endswith("\n")
    places = [place for place in asked.places if place.row <= rows]
    # A rule that crashed is noted with a line; the others can still be explained.
    broken = any(finding.code == INVALID_SYNTAX for finding in report.findings) or any(not n.line for n in report.notes)
    explanations = () if broken else tuple(_explanations(job, asked, places, report))
    return ExplainedReport(**_fields(report), explanations=explanations, rows=rows)


def _fields(report: FileReport) -> dict[str, Any]:
    return {each.name: getattr(report, each.name) for each in fields(FileReport)}


def _explanations(job: Job, asked: Asked, places: list[Place], report: FileReport) -> Iterator[Explanation]:
    text = job.document.text
    index = LineIndex(text)
    tree = syntax.parse(text)
    if isinstance(tree, str):
        return  # the report has said so
    data = text.encode("utf-8", "surrogatepass") if job.document.notebook is not None else job.document.data
    if not concerns_us(data):
        yield from (Explanation(place, index.line(place.row).strip(), remark=_FOREIGN) for place in places)
        return
    catalog = load_catalog()
    able = [info.code for info in catalog.rules if any(trigger in data for trigger in info.triggers)]
    rules, _ = load_rules(able)  # what is wrong with one, the report has said
    collected = collect(tree, text, None, job, rules)
    spots = Spots(collected.module, collected.layout, collected.index)
    verdicts = Verdicts(job, asked, collected, rules, catalog, spots)
    for place in places:
        idle = [_idle(finding) for finding in report.findings if _is_idle(finding, place)]
        yield _explanation(place, verdicts, index.line(place.row).strip(), tuple(idle))


def _is_idle(finding: Finding, place: Place) -> bool:
    return finding.code == UNUSED_SUPPRESSION and finding.start.row == place.row


def _idle(finding: Finding) -> Verdict:
    """Return the verdict on a suppression that does nothing."""
    at = finding.start
    return Verdict(finding.code, finding.name, State.FLAGGED, at.row, at.column, "", "", finding.message)


def _explanation(place: Place, verdicts: Verdicts, source: str, idle: tuple[Verdict, ...]) -> Explanation:
    spot = verdicts.spots.at(place)
    if spot is None:
        return Explanation(place, source, verdicts=idle, remark=_BLANK)
    return Explanation(
        place,
        source,
        verdicts.paces.of(spot.statement),
        verdicts.beliefs.of(spot.nodes),
        (*idle, *verdicts.of(spot, place)),
    )
