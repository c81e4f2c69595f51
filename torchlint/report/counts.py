"""``--statistics``: how often each rule was broken, as text or JSON, in ruff's shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from torchlint.base.finding import Finding, Severity
from torchlint.base.records import frozen
from torchlint.report.kit.ascii_json import dump, dump_line
from torchlint.report.kit.terminal import CYAN, aligned, paint
from torchlint.report.run_report import RunReport, fixable
from torchlint.report.text import SEVERITY

_MARKS = "[*] all fixable, [-] some, [ ] none"
Costs = Mapping[str, str]
"""What was measured of each rule's example, in a few words by code."""


@frozen
class Count:
    """The findings of one code: `safe` and `unsafe` of the `total` have a fix of that kind."""

    first: Finding
    worst: Severity
    total: int
    safe: int
    unsafe: int

    def fixable(self, unsafe_fixes: bool) -> int:
        """Return how many the user's choice of safety would fix."""
        return self.safe + self.unsafe if unsafe_fixes else self.safe


def counted(run: RunReport) -> list[Count]:
    """Return the counts, the most frequent code first."""
    counts = [
        Count(
            group[0],
            max((each.severity for each in group), key=lambda each: each.rank),
            len(group),
            *fixable(group),
        )
        for group in run.by_code().values()
    ]
    return sorted(counts, key=lambda count: (-count.total, count.first.code))


def render(run: RunReport, costs: Costs) -> str:
    """Return a table: count, code, ``[*]`` all fixable or ``[-]`` some or ``[ ]`` none, name,
    family, fixes, cost.

    Below, a line counts the findings of each family, and one says what the marks mean.
    """
    counts = counted(run)
    if not counts:
        return ""
    digits = len(str(counts[0].total))
    letters = max(len(count.first.code) for count in counts)
    rows = [
        (count.first.name, run.family(count.first), _fixes(count), _cost(count, costs))
        for count in counts
    ]
    lines = []
    families: Counter[str] = Counter()
    for count, row, told in zip(counts, rows, aligned(rows), strict=True):
        fixable = count.fixable(run.unsafe_fixes)
        mark = "[*]" if fixable == count.total else "[-]" if fixable else "[ ]"
        code = paint(f"{count.first.code:<{letters}}", SEVERITY[count.worst], run.color)
        lines.append(f"{count.total:>{digits}}\t{code}\t{paint(mark, CYAN, run.color)} {told}\n")
        families[row[1]] += count.total
    kind = "all fixes" if run.unsafe_fixes else "safe fixes; more with `--unsafe-fixes`"
    return "".join(lines) + (
        f"By family: {', '.join(f'{number} {word}' for word, number in families.most_common())}.\n"
        f"{_MARKS} ({kind}).\n"
    )


def _cost(count: Count, costs: Costs) -> str:
    cost = costs.get(count.first.code)
    return f"the example in its manual: {cost}" if cost else ""


def _fixes(count: Count) -> str:
    kinds = [
        f"{number} {word}"
        for number, word in ((count.safe, "safe"), (count.unsafe, "unsafe"))
        if number
    ]
    return (
        f"{' + '.join(kinds)} {'fix' if count.safe + count.unsafe == 1 else 'fixes'}"
        if kinds
        else ""
    )


def _entries(run: RunReport, costs: Costs) -> list[dict[str, Any]]:
    """Return entries with ruff's keys; `unsafe_count`, `severity`, `family` and `cost` are ours."""
    return [
        {
            "code": count.first.code,
            "name": count.first.name,
            "count": count.total,
            "fixable": count.fixable(run.unsafe_fixes) == count.total,
            "fixable_count": count.fixable(run.unsafe_fixes),
            "unsafe_count": count.unsafe,
            "severity": count.worst.value,
            "family": run.family(count.first),
            "cost": costs.get(count.first.code) or None,
        }
        for count in counted(run)
    ]


def render_json(run: RunReport, costs: Costs) -> str:
    """Return the same as a JSON list."""
    return dump(_entries(run, costs))


def render_json_lines(run: RunReport, costs: Costs) -> str:
    """Return the same with one JSON object on each line."""
    return "".join(map(dump_line, _entries(run, costs)))


FORMATS: Mapping[str, Callable[[RunReport, Costs], str]] = MappingProxyType(
    {"json": render_json, "json-lines": render_json_lines}
)
"""Output format → what prints its statistics; `render` for all others."""
