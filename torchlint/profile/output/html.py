"""A profile as one HTML file: no script, nothing from the network, light and dark."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torchlint.api import fix_changes
from torchlint.base.finding import Finding
from torchlint.profile.fleet import table
from torchlint.profile.output import growing, run, tables
from torchlint.profile.output.content import Content
from torchlint.profile.output.findings import (
    Told,
    count,
    details,
    memory,
    notes,
    others,
    parts,
    saves,
)
from torchlint.profile.output.sentences import compared, headline
from torchlint.profile.output.table import beside, part_of, rows, share, span
from torchlint.profile.report import Rank, Report
from torchlint.profile.timeline import Bar, Timeline
from torchlint.report.kit import html, svg
from torchlint.report.kit.words import clipped, pluralise

_OPEN = 3
"""So many findings are shown unfolded."""
_AROUND = 2
"""Rows of code before and after a finding."""
_NAME = 120
"""Characters of a kernel's name that are shown."""
_TICKS = 5
_SIGNS = {"+": "added", "-": "removed"}
_KINDS = {
    "findings": "findings",
    "operators": "operators",
    "launches": "launches",
    "waits": "waits for the GPU",
    "data": "waits for data",
    "compute": "computing",
    "memory": "copies",
    "communication": "communication",
    "other": "other",
}


def render(content: Content) -> str:
    """Return the report as one HTML document, in ASCII.

    Raises:
        UsageError: jinja2 is not installed.
    """
    report, shown, before, costs = content.report, content.shown, content.before, content.costs
    page = {
        "command": shlex.join(("torchlint", *report.command)),
        "headline": headline(shown, content.waits, content.steps, content.whole),
        "compared": list(compared(content)),
        "device": shown.device or "no GPU in the trace",
        "of": _rank_title(shown),
        "growth": list(growing.sentences(content.growth)),
        "findings": _findings(content),
        "others": _other_findings(content),
        "memory": "" if costs is None else memory(content, costs),
        "tables": list(tables.tables(content)),
        "code": tables.CODE,
        "run": [(name.strip(), value) for name, value in run.with_trace(content.steps, ())],
        "rows": _rows(shown, before),
        "against": before is not None,
        "ranks": list(_ranks(report)),
        "kernels": _kernels(shown, content.top),
        "notes": content.notes,
        "version": report.version,
        **_timeline(content.step),
    }
    text = html.rendered(
        __package__, "report.html.jinja", shared="measured.css", style="report.css", page=page
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _rank_title(rank: Rank) -> str:
    world = f" of {rank.world}" if rank.world else ""
    return f"rank {rank.number}{world}, {rank.path}"


def _rows(rank: Rank, other: Rank | None) -> list[tuple[str, ...]]:
    """Return the figures but the kernels, which have a table of their own."""
    before = rows(other, 0) if other is not None else ()
    return [(name.strip(), *values) for name, *values in beside(rows(rank, 0), before)]


def _findings(content: Content) -> list[dict[str, Any]]:
    """Return the findings that are worth a look, the most saving first."""
    costs, texts = content.costs, content.texts
    if costs is None:
        return []
    return [
        {
            **_words(told),
            "saves": saves(told.cost, costs),
            "open": at < _OPEN,
            "code_rows": list(_code(told.cost.finding, texts)),
            "diff": list(_diff(told.cost.finding, texts)),
            "fix": told.cost.finding.fix,
            "notes": list(details(content, costs, told.cost)),
        }
        for at, told in enumerate(parts(costs)[0][: content.top])
    ]


def _words(told: Told) -> dict[str, str]:
    finding = told.cost.finding
    times = f" ({told.count} times)" if told.count > 1 else ""
    return {
        "code": finding.code,
        "name": finding.name,
        "where": f"{finding.filename}:{finding.start.row}",
        "message": f"{finding.message}{times}",
    }


def _other_findings(content: Content) -> list[dict[str, Any]]:
    """Return the other findings, by what is known of them."""
    costs, top = content.costs, content.top
    if costs is None:
        return []
    return [
        {
            "title": f"{pluralise(count(found), 'finding')} {why}",
            "shown": [
                {
                    **_words(told),
                    "notes": "; ".join(filter(None, notes(content, costs, told.cost))),
                }
                for told in found[:top]
            ],
            "more": count(found[top:]),
        }
        for why, found in others(costs).items()
    ]


def _numbered(finding: Finding, texts: Mapping[str, str]) -> Mapping[int, str]:
    """Return the rows of a finding's file by number."""
    if finding.cell is not None:
        return {}
    return dict(enumerate(texts.get(finding.filename, "").splitlines(), 1))


def _code(finding: Finding, texts: Mapping[str, str]) -> Iterator[tuple[int, str, bool]]:
    """Yield the rows around a finding: number, text, and whether the finding is there."""
    found = _numbered(finding, texts)
    first, last = finding.start.row, finding.end.row
    for row in range(first - _AROUND, min(last, first + 10) + _AROUND + 1):
        if row in found:
            yield row, found[row], first <= row <= last


def _diff(finding: Finding, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of a fix: what becomes of each, and its text."""
    found = _numbered(finding, texts)
    if finding.fix is None or not found:
        return
    for _, changed in fix_changes(finding.fix, found):
        yield "hunk", f"@@ line {changed[0][1]} @@"
        for sign, _, text in changed:
            yield _SIGNS.get(sign, ""), f"{sign}{text}"


def _timeline(step: Timeline | None) -> dict[str, Any]:
    """Return the drawing of the median step."""
    if step is None or not step.time or not step.tracks:
        return {"lanes": [], "kinds": [], "axis": "", "step": ""}
    lanes = []
    for number, track in enumerate(step.tracks):
        said = ", ".join(
            f"{_KINDS[kind]} {share(_covered(track.bars, kind), step.time)}"
            for kind in _KINDS
            if any(bar.kind == kind for bar in track.bars)
        )
        drawing = svg.lane(
            [_mark(bar, step.time) for bar in track.bars],
            key=f"lane-{number}",
            title=track.name,
            said=said,
        )
        lanes.append({"name": track.name, "drawing": drawing})
    for number, level in enumerate(step.queues):
        drawing = svg.levels(
            level.most, key=f"queue-{number}", title=level.name, said=f"at most {max(level.most)}"
        )
        lanes.append({"name": f"{level.name}, up to {max(level.most):,}", "drawing": drawing})
    kinds = [kind for kind in _KINDS if any(b.kind == kind for t in step.tracks for b in t.bars)]
    ticks = [(at / _TICKS, span(step.time * at / _TICKS)) for at in range(_TICKS + 1)]
    return {
        "lanes": lanes,
        "kinds": [(kind, _KINDS[kind]) for kind in kinds],
        "axis": svg.ruler(ticks, key="axis", title="Time"),
        "step": "All that was recorded"
        if step.step is None
        else f"Step {step.step}, {span(step.time)}: the median one",
    }


def _covered(bars: Sequence[Bar], kind: str) -> int:
    return sum(bar.busy for bar in bars if bar.kind == kind)


def _mark(bar: Bar, whole: int) -> svg.Mark:
    name = clipped(bar.name, _NAME)
    words = name if bar.count == 1 else f"{bar.count:,}, the longest {name}"
    return svg.Mark(
        bar.start / whole,
        (bar.start + bar.time) / whole,
        bar.kind,
        f"{words}: {span(bar.busy)}",
        bar.busy / bar.time if bar.time else 1.0,
    )


def _ranks(report: Report) -> Iterator[dict[str, Any]]:
    """Yield a bar for each rank's device: computing, other work alone, idle."""
    waiting = {row.rank: row for row in table(report)}
    for rank in report.ranks:
        spent = rank.figures.temporal
        if spent is None or not spent.total:
            continue
        ends = [0.0, spent.compute / spent.total, (spent.compute + spent.rest) / spent.total, 1.0]
        parts = {"compute": spent.compute, "rest": spent.rest, "idle": spent.idle}
        said = ", ".join(f"{name} {share(time, spent.total)}" for name, time in parts.items())
        marks = [
            svg.Mark(low, high, name, f"{name}: {span(time)}")
            for low, high, (name, time) in zip(ends, ends[1:], parts.items(), strict=False)
        ]
        row = waiting[rank.number]
        yield {
            "name": f"rank {rank.number}",
            "drawing": svg.lane(marks, key=f"rank-{rank.number}", title="device", said=said),
            "idle": share(spent.idle, spent.total),
            "step": span(row.step),
            "waits": span(row.waits),
        }


def _kernels(rank: Rank, top: int) -> list[tuple[str, str, str, str]]:
    of = rank.figures
    whole = sum(kernel.total for kernel in of.kernels)
    return [
        (
            clipped(kernel.name, _NAME),
            kernel.kind,
            f"{kernel.count:,}",
            part_of(kernel.total, whole),
        )
        for kernel in of.kernels[:top]
    ]
