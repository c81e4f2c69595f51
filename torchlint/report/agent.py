"""The `agent` format, for coding agents and scripts: a block of lines for each finding, most worth
first, within a number of tokens.

A block says place, code and severity; `code:` the line, `why:` what makes it hot, `fix[safe]:` (or
unsafe, or suggestion) the repair, its patch, and `prove:` the command that compares the program
with it and without. Patches begin at the margin: ``git apply`` reads one out of its block.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from torchlint.base.finding import ENGINE_CODES, Finding, Safety, TextFix
from torchlint.report.diff import name_in_patch
from torchlint.report.excerpt import Rows, by_cell, source_rows
from torchlint.report.kit.terminal import clip
from torchlint.report.kit.tokens import fitting
from torchlint.report.kit.words import pluralise, visible
from torchlint.report.patch import Row, changes
from torchlint.report.ranked import Group
from torchlint.report.run_report import RunReport, applicable, report_order
from torchlint.report.text import place, reasons, shown_code

_PROGRAM = "SCRIPT.py"
"""Stands for a program that the project does not show."""


def render(run: RunReport) -> str:
    """Return the findings that are within the number of tokens, and how the next are seen."""
    rows = {file.filename: source_rows(file) for file in run.files}
    found = sorted(sorted(run.findings(), key=report_order), key=lambda one: _worth(run, one))
    todo = found[run.portion.skip :]
    fixes: dict[object, Finding] = {}
    for one in todo:
        fixes.setdefault(_changed(one), one)
    blocks = [
        "\n".join([*_block(run, one, fixes[_changed(one)], rows[one.filename]), "", ""])
        for one in todo
    ]
    kept = fitting(blocks, run.portion.tokens)
    return "".join(blocks[:kept]) + _left_out(run, len(todo) - kept, len(found))


def _worth(run: RunReport, finding: Finding) -> tuple[object, ...]:
    """Return the sort key of a finding: less is worth more; what only may matter comes last."""
    return (-finding.severity.rank, *Group((finding,), run.rules.get(finding.code)).cost)


def _changed(finding: Finding) -> object:
    """Return what the fix of a finding changes: findings with the same are fixed together."""
    fix = finding.fix
    return id(finding) if fix is None else (finding.filename, fix.edits, fix.elsewhere)


def _left_out(run: RunReport, left: int, every: int) -> str:
    if not left:
        return ""
    skip = every - left
    again = shlex.join([*run.portion.again[:2], "--skip", str(skip), *run.portion.again[2:]])
    return f"left out: {left} of {pluralise(every, 'finding')}; next: {visible(again)}\n"


def _block(
    run: RunReport, finding: Finding, first: Finding, rows: Mapping[int | None, Rows]
) -> Iterator[str]:
    said = f"{finding.severity.value}: {visible(finding.said)}"
    yield f"{place(finding)} {shown_code(finding).rstrip(':')} {said}"
    text = rows.get(finding.cell, {}).get(finding.start.row, "").strip()
    if text:
        yield f"  code: {visible(clip(text, finding.start.column)[0])}"
    if finding.why_hot:
        yield f"  why: {reasons(finding)}"
    fix = finding.fix
    if finding.help or (fix is None and finding.code not in ENGINE_CODES):
        page = f"read `torchlint rule {finding.code}`"
        yield f"  repair: {visible(finding.help) or f'by hand; {page}'}"
    if fix is not None and first is not finding:
        yield f"  fix[{fix.safety.value}]: the one at {place(first)}"
        return
    if fix is not None:
        yield from _fix(run, finding.filename, fix, rows)
    if finding.code not in ENGINE_CODES and finding.cell is None:  # no notebook is run
        meta = run.rules.get(finding.code)
        gpu = "  # needs a GPU: it saves launches" if meta is not None and meta.launches else ""
        yield f"  prove: {visible(shlex.join(_proof(run, finding)))}{gpu}"


def _fix(
    run: RunReport, filename: str, fix: TextFix, rows: Mapping[int | None, Rows]
) -> Iterator[str]:
    yield f"  fix[{fix.safety.value}]: {visible(fix.title)}"
    if fix.withheld or fix.note:
        yield f"  note: {visible(f'not applied: {fix.withheld}' if fix.withheld else fix.note)}"
    for cell, part in by_cell(fix):
        at = "" if cell is None else f":cell {cell}"
        yield from _patch(name_in_patch(run, filename, at), part, rows.get(cell, {}))
    for other in fix.elsewhere:
        there = replace(fix, edits=other.edits)
        yield from _patch(name_in_patch(run, other.filename), there, dict(other.source))


def _patch(name: str, fix: TextFix, rows: Rows) -> Iterator[str]:
    yield f"--- {visible('a/' + name)}"
    yield f"+++ {visible('b/' + name)}"
    shift = 0
    for _, hunk in changes(fix, rows):
        old, new = (_count(hunk, sign) for sign in "-+")
        first = next((number for _, number, _ in hunk if number), 1 + shift)
        yield f"@@ -{first - shift},{old} +{first},{new} @@"
        yield from (f"{sign}{visible(text)}" for sign, _, text in hunk)
        shift += new - old


def _count(hunk: Iterable[Row], sign: str) -> int:
    return sum(row[0] in (" ", sign) for row in hunk)


def _proof(run: RunReport, finding: Finding) -> list[str]:
    """Return the command that compares the program with the fix of a rule in a file and without;
    of what torchlint does not fix, with the change that was made by hand."""
    safety, fix = applicable(finding), finding.fix
    if safety is None or fix is None:
        words = [".", "--against", "HEAD"]
    else:
        files = [finding.filename, *(part.filename for part in fix.elsewhere)]
        unsafe = ["--unsafe-fixes"] * (safety is Safety.UNSAFE)
        words = [*files, "--select", finding.code, *unsafe]
    program = run.portion.programs.get(finding.filename, _PROGRAM)
    return ["torchlint", "verify", "--output-format", "agent", *words, "--", program]
