"""The report as Markdown, for a comment of a pull request or a page of a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from torchlint.profile.bounds import Whole
from torchlint.profile.join import Costs
from torchlint.profile.lines import LineCost
from torchlint.profile.output import breakdown, forecast, growing, inclusive, loading, run
from torchlint.profile.output.content import Content
from torchlint.profile.output.findings import (
    Told,
    aside,
    basis,
    batches,
    count,
    memory,
    parts,
    saves,
    together,
    with_calls,
)
from torchlint.profile.output.hot import hot_table
from torchlint.profile.output.sentences import compared, headline
from torchlint.profile.output.table import Row, beside, kind_words, recorded, rows
from torchlint.profile.output.waiting import HEAD, wait_row
from torchlint.profile.predicted import Predicted
from torchlint.profile.waits import Waits
from torchlint.report.kit.words import clipped, pluralise, visible

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$])")
_NAME = 72
"""Characters of a name that are shown."""


def render(content: Content) -> str:
    """Return the report."""
    waits, costs, top = content.waits, content.costs, content.top
    shown, older = content.shown, content.before
    lines = [
        "## torchlint profile",
        "",
        plain(headline(shown, waits, content.steps, content.whole)),
    ]
    for words in compared(content):
        lines += ["", plain(words)]
    for words in growing.sentences(content.growth):
        lines += ["", plain(f"{words[0].upper()}{words[1:]}.")]
    if costs is not None and costs.each:
        lines += ["", "### Findings", "", *_findings(content, costs)]
    if waits is not None and waits.each:
        lines += ["", "### Waits for the device", "", *_waits(content, waits, top)]
    if content.predicted is not None:
        lines += ["", "### Predicted for a GPU", "", *_predicted(content.predicted, top)]
    if content.statements:
        cells = [
            (time, _code(at), _code(text) if text else "")
            for time, at, text in inclusive.rows(content)
        ]
        words = inclusive.title(content)
        head = f"### {words[0].upper()}{words[1:]}"
        lines += ["", head, "", *table(inclusive.HEAD, cells)]
    for found in breakdown.breakdowns(content):
        words = plain(found.title)
        below = [(*map(plain, row[:-1]), _code(row[-1])) for row in found.rows]
        lines += ["", f"### {words[0].upper()}{words[1:]}", "", *table(found.head, below)]
    if content.lines and waits is not None:
        lines += ["", "### Places", "", *_costly(content)]
    lines += _workers(content)
    now = run.with_trace(content.steps if older is None else None, rows(shown, top))
    lines += [
        "",
        "### Figures",
        "",
        *_figures(now, rows(older, top) if older is not None else None),
    ]
    lines += ["" * bool(content.notes), *(f"- {plain(note)}" for note in content.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _workers(content: Content) -> list[str]:
    """Return the lines of workers of DataLoaders, where some are known."""
    workers, found = content.workers, loading.lines(content)
    if workers is None or not found:
        return []
    cells = [(cost, times, _code(place)) for cost, times, place in found]
    return [
        "",
        f"### {plain(loading.title(workers).capitalize())}",
        "",
        *table(loading.HEAD, cells),
    ]


def _predicted(found: Predicted, top: int) -> Iterator[str]:
    words = forecast.headline(found)
    yield plain(f"{words[0].upper()}{words[1:]}.")
    if found.each:
        yield ""
        cells = [(*numbers, _code(line)) for *numbers, line in forecast.rows(found, top)]
        yield from table(forecast.HEAD, cells)


def _findings(content: Content, costs: Costs) -> Iterator[str]:
    predicted, top = content.predicted, content.top
    measured, negligible, others = parts(costs)
    if measured or negligible:
        words = together(costs)
        yield f"{words[0].upper()}{words[1:]}."
        yield ""
    if measured:
        found = [
            (
                saves(told.cost, costs),
                _finding(told),
                "; ".join(
                    filter(
                        None,
                        (
                            basis(told.cost, costs),
                            plain(batches(content, told.cost)),
                            forecast.of_finding(told.cost, predicted),
                        ),
                    )
                ),
            )
            for told in measured
        ]
        yield from table(("mending saves", "finding", "by"), found[:top])
    if len(measured) > top:
        yield ""
        yield f"And {count(measured[top:])} more."
    kinds = {f"without a bound, {why}": found for why, found in others.items()}
    if negligible:
        kinds = {"measured, negligible": negligible, **kinds}
    for why, found_ in kinds.items():
        yield ""
        counted = pluralise(count(found_), "finding")
        yield f"{counted} {plain(why)}: {', '.join(_places(found_, costs, predicted, top))}"
    command = memory(content, costs)
    if command:
        yield ""
        yield f"Whether memory grows from step to step: {_code(command)}"


def _places(
    found: Sequence[Told], costs: Costs, predicted: Predicted | None, top: int
) -> Iterator[str]:
    for told in found[:top]:
        one, words = told.cost.finding, forecast.of_finding(told.cost, predicted)
        of = told.cost.aside
        seen = with_calls(told.cost, costs) if of is None else aside(of)
        words = ", ".join(filter(None, (seen, words)))
        more = f" ({plain(words)})" if words else ""
        yield f"{_code(f'{one.filename}:{one.start.row}')} {one.code}{more}"
    if len(found) > top:
        yield f"and {count(found[top:])} more"


def _finding(told: Told) -> str:
    one = told.cost.finding
    times = f" ({told.count} times)" if told.count > 1 else ""
    return f"{_code(f'{one.filename}:{one.start.row}')} **{one.code}** {plain(one.message)}{times}"


def _waits(content: Content, waits: Waits, top: int) -> Iterator[str]:
    whole = content.whole or content.recorded
    found = [wait_row(wait, waits, whole) for wait in waits.each[:top]]
    yield from table(HEAD, [(*cells, _code(at)) for *cells, at in found])


def _costly(content: Content) -> Iterator[str]:
    if content.recorded.steps is not None:
        yield f"Parts of {recorded(content.recorded)}."
        yield ""
    yield from _hot(content, content.lines or (), content.recorded)
    for one in content.aside:
        if one.lines:
            yield ""
            yield f"Only in steps {kind_words(one.kind)}, parts of {recorded(one.whole)}."
            yield ""
            yield from _hot(content, one.lines, one.whole)


def _hot(content: Content, lines: Sequence[LineCost], whole: Whole) -> Iterator[str]:
    head, *found = hot_table(lines, whole, content.findings, content)
    cells = [
        [
            _code(cell) if name == "statement" and cell else plain(cell)
            for name, cell in zip(head, row, strict=True)
        ]
        for row in found
    ]
    yield from table(head, cells)


def _figures(now: Iterable[Row], before: Iterable[Row] | None) -> Iterator[str]:
    head = ("figure", "value") if before is None else ("figure", "now", "before")
    found: Iterable[tuple[str, ...]] = now if before is None else beside(now, before)
    yield from table(
        head,
        [(plain(clipped(name.strip(), _NAME)), *map(plain, values)) for name, *values in found],
    )


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
