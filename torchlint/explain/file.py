"""Explains places of one file: the analysis of a check, and then questions about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import libcst as cst

from torchlint.base.explanation import Asked, ExplainedReport, Explanation, Place, State, Verdict
from torchlint.base.finding import INVALID_SYNTAX, UNUSED_SUPPRESSION, FileReport, Finding
from torchlint.base.span import LineIndex
from torchlint.catalog.rules import load_catalog, load_rules
from torchlint.engine import syntax
from torchlint.engine.analyse import analyse, concerns_us
from torchlint.engine.hits import module_of
from torchlint.engine.job import Job
from torchlint.engine.placing import Placing
from torchlint.explain.cells import Rows, Telling
from torchlint.explain.line import Spots
from torchlint.explain.verdicts import Verdicts
from torchlint.explain.waits import waits_on
from torchlint.run.projects import outside_of
from torchlint.source.python import MisreadError

_BLANK = "there is no code on this line"
_FOREIGN = "no rule looks at this file: it imports neither torch nor what builds on it"


def explain(job: Job, asked: Asked) -> ExplainedReport:
    """Check a file and explain places in it. Of a file that cannot be analysed, the report says
    why."""
    while True:
        try:
            report = analyse(job, outside_of)
            # A rule that crashed is noted with a line; the others can still be explained.
            broken = any(finding.code == INVALID_SYNTAX for finding in report.findings) or any(
                not n.line for n in report.notes
            )
            explanations = () if broken else tuple(_explanations(job, asked, report))
            return ExplainedReport(
                **{each.name: getattr(report, each.name) for each in fields(FileReport)},
                explanations=explanations,
            )
        except MisreadError as error:
            syntax.leave_to_libcst(error.text)


def _explanations(job: Job, asked: Asked, report: FileReport) -> Iterator[Explanation]:
    python = syntax.python_tree(job.document.text)
    tree = (
        syntax.parse(job.document.text, python)
        if not isinstance(python, syntax.SyntaxFault)
        else python.message
    )
    if isinstance(tree, str):
        return  # the report has said so
    rows = Rows(job.document)
    about = _explainer(job, asked, tree, rows)
    telling = Telling(rows.layout, job.document.filename) if rows.layout is not None else None
    for place in asked.places:
        if telling is None:
            found = about(place)
        else:
            found = telling.magic(place) or telling.told(about(telling.in_text(place)), place)
        idle = (
            _idle(finding)
            for finding in report.findings
            if finding.code == UNUSED_SUPPRESSION
            and (finding.cell, finding.start.row)
            == (
                place.cell,
                place.row,
            )
        )
        yield replace(found, verdicts=(*idle, *found.verdicts))


def _explainer(
    job: Job, asked: Asked, tree: cst.Module, rows: Rows
) -> Callable[[Place], Explanation]:
    """Return what explains a place of the text."""
    text = job.document.text
    index = LineIndex(text)
    data = (
        text.encode("utf-8", "surrogatepass")
        if job.document.notebook is not None
        else job.document.data
    )
    if not concerns_us(data):
        return lambda place: Explanation(place, index.line(place.row).strip(), remark=_FOREIGN)
    catalog = load_catalog()
    able = [
        info.code for info in catalog.rules if any(trigger in data for trigger in info.triggers)
    ]
    rules, _ = load_rules(able)  # what is wrong with one, the report has said
    placing = Placing(module_of(job, tree, text, outside=outside_of(job)), job.document.filename)
    spots = Spots(placing.module, placing.layout, placing.index, rows)
    verdicts = Verdicts(job, asked, placing, rules, catalog, spots)
    return lambda place: _explanation(place, verdicts, index.line(place.row).strip())


def _idle(finding: Finding) -> Verdict:
    """Return the verdict on a suppression that does nothing."""
    at = finding.start
    return Verdict(
        finding.code, finding.name, State.FLAGGED, at.row, at.column, "", "", finding.message
    )


def _explanation(place: Place, verdicts: Verdicts, source: str) -> Explanation:
    spot = verdicts.spots.at(place)
    if spot is None:
        return Explanation(place, source, remark=_BLANK)
    pace, beliefs = verdicts.paces.of(spot.statement), verdicts.beliefs.of(spot.nodes)
    waits = waits_on(verdicts.module, spot.nodes)
    return Explanation(place, source, pace, beliefs, verdicts.of(spot, place), waits=waits)
