"""The report as Markdown, for a comment of a pull request or a page of a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchlint.profile.join import Costs, FindingCost
from torchlint.profile.output.findings import basis, parts, saves, together
from torchlint.profile.output.sentences import headline
from torchlint.profile.output.table import rows, share, span
from torchlint.profile.output.waiting import place
from torchlint.profile.report import Report
from torchlint.profile.waits import Waits
from torchlint.report.kit.words import DASH, clipped, pluralise, visible

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$])")
_NAME = 72
"""Characters of a name that are shown."""


def render(
    report: Report,
    *,
    rank: int | None,
    top: int,
    against: Report | None = None,
    waits: Waits | None = None,
    costs: Costs | None = None,
) -> str:
    """Return the report; arguments as of the text."""
    shown = report.rank(rank)
    lines = ["## torchlint profile", "", _plain(headline(shown, waits))]
    if costs is not None and costs.each:
        lines += ["", "### Findings", "", *_findings(costs, top)]
    if waits is not None and waits.each:
        lines += ["", "### Waits for the device", "", *_waits(waits, top)]
    before = dict(rows(against.rank(rank), top)) if against is not None else None
    lines += ["", "### Figures", "", *_figures(list(rows(shown, top)), before)]
    notes = (*report.notes, *(against.notes if against is not None else ()))
    lines += ["" * bool(notes), *(f"- {_plain(note)}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _findings(costs: Costs, top: int) -> Iterator[str]:
    measured, negligible, others = parts(costs)
    if measured or negligible:
        words = together(costs)
        yield f"{words[0].upper()}{words[1:]}."
        yield ""
    if measured:
        found = [(saves(cost, costs), _finding(cost), basis(cost, costs)) for cost in measured]
        yield from _table(("mending saves", "finding", "by"), found[:top])
    if len(measured) > top:
        yield ""
        yield f"And {len(measured) - top} more."
    kinds = {f"without a bound, {why}": found for why, found in others.items()}
    if negligible:
        kinds = {"measured, negligible": negligible, **kinds}
    for why, found_ in kinds.items():
        yield ""
        count = pluralise(len(found_), "finding")
        yield f"{count} {_plain(why)}: {', '.join(_places(found_, top))}"


def _places(found: Sequence[FindingCost], top: int) -> Iterator[str]:
    for cost in found[:top]:
        yield f"{_code(f'{cost.finding.filename}:{cost.finding.start.row}')} {cost.finding.code}"
    if len(found) > top:
        yield f"and {len(found) - top} more"


def _finding(cost: FindingCost) -> str:
    one = cost.finding
    return f"{_code(f'{one.filename}:{one.start.row}')} **{one.code}** {_plain(one.message)}"


def _waits(waits: Waits, top: int) -> Iterator[str]:
    whole = waits.span
    found = [
        (
            DASH if wait.alone is None else f"{span(wait.alone)} ({share(wait.alone, whole)})",
            f"{span(wait.waited)} ({share(wait.waited, whole)})",
            f"{wait.calls:,}",
            _code(place(wait.site)),
        )
        for wait in waits.each[:top]
    ]
    yield from _table(("saves at most", "waits", "calls", "place"), found)


def _figures(now: Sequence[tuple[str, str]], before: dict[str, str] | None) -> Iterator[str]:
    if before is None:
        found = [(_label(name), _plain(value)) for name, value in now]
        yield from _table(("figure", "value"), found)
        return
    both = {**dict(now), **before}
    new = dict(now)
    found3 = [
        (_label(name), _plain(new.get(name, DASH)), _plain(before.get(name, DASH))) for name in both
    ]
    yield from _table(("figure", "now", "before"), found3)


def _table(head: Sequence[str], found: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *found):
        yield f"| {' | '.join(row)} |"


def _label(name: str) -> str:
    return _plain(clipped(name.strip(), _NAME))


def _plain(text: str) -> str:
    """Return text in which nothing has a meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", visible(text))


def _code(text: str) -> str:
    """Return text as code in a table, whatever backquotes and bars it holds."""
    shown = visible(text).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    space = " " if "`" in shown else ""
    return f"{fence}{space}{shown}{space}{fence}"
