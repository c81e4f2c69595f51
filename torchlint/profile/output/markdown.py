"""The report as Markdown, for a comment of a pull request or a page of a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchlint.profile.join import Costs
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
    together,
)
from torchlint.profile.output.sentences import compared, headline
from torchlint.profile.output.table import beside, rows
from torchlint.report.kit.words import clipped, pluralise, visible

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$])")
_NAME = 72
"""Characters of a name that are shown."""


def render(content: Content) -> str:
    """Return the report."""
    shown, older, top = content.shown, content.before, content.top
    lines = ["## torchlint profile", ""]
    lines.append(plain(headline(shown, content.waits, content.steps, content.whole)))
    for words in compared(content):
        lines += ["", plain(words)]
    for words in growing.sentences(content.growth):
        lines += ["", plain(f"{words[0].upper()}{words[1:]}.")]
    if content.costs is not None and content.costs.each:
        lines += ["", "### Findings", "", *_findings(content, content.costs)]
    for each in tables.tables(content):
        cells = [
            [
                _code(cell) if name in tables.CODE and cell else plain(cell)
                for name, cell in zip(each.head, row, strict=True)
            ]
            for row in each.rows
        ]
        lines += ["", f"### {plain(each.caption)}"]
        lines += ["", *table(each.head, cells)] if cells else []
    figures: list[tuple[str, ...]] = [*run.with_trace(content.steps, rows(shown, top))]
    head = ["figure", "value"]
    if older is not None:
        figures, head = [*beside(rows(shown, top), rows(older, top))], ["figure", "now", "before"]
    cells = [[clipped(name.strip(), _NAME), *values] for name, *values in figures]
    lines += ["", "### Figures", "", *table(head, [[*map(plain, row)] for row in cells])]
    lines += ["" * bool(content.notes), *(f"- {plain(note)}" for note in content.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _findings(content: Content, costs: Costs) -> Iterator[str]:
    top, (measured, negligible, _) = content.top, parts(costs)
    if measured or negligible:
        words = together(costs)
        yield f"{words[0].upper()}{words[1:]}."
        yield ""
    if measured:
        found = [
            (
                saves(told.cost, costs),
                _finding(told),
                plain("; ".join(details(content, costs, told.cost))),
            )
            for told in measured
        ]
        yield from table(("fixing saves", "finding", "by"), found[:top])
    if len(measured) > top:
        yield ""
        yield f"And {count(measured[top:])} more."
    for why, some in others(costs).items():
        places = ", ".join(_places(content, costs, some))
        yield ""
        yield f"{pluralise(count(some), 'finding')} {plain(why)}: {places}"
    command = memory(content, costs)
    if command:
        yield ""
        yield f"Whether memory grows from step to step: {_code(command)}"


def _places(content: Content, costs: Costs, found: Sequence[Told]) -> Iterator[str]:
    for told in found[: content.top]:
        one = told.cost.finding
        words = ", ".join(filter(None, notes(content, costs, told.cost)[:2]))
        more = f" ({plain(words)})" if words else ""
        yield f"{_code(f'{one.filename}:{one.start.row}')} {one.code}{more}"
    if len(found) > content.top:
        yield f"and {count(found[content.top :])} more"


def _finding(told: Told) -> str:
    one = told.cost.finding
    times = f" ({told.count} times)" if told.count > 1 else ""
    return f"{_code(f'{one.filename}:{one.start.row}')} **{one.code}** {plain(one.message)}{times}"


def table(head: Sequence[str], found: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *found):
        yield f"| {' | '.join(row)} |"


def plain(text: str) -> str:
    """Return text in which nothing has a meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", visible(text))


def _code(text: str) -> str:
    """Return text as code in a table, whatever backquotes and bars it holds."""
    shown = visible(text).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    space = " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}"
