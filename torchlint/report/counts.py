"""``--statistics``: how often each rule was broken, as text or JSON, in ruff's shape."""

from __future__ import annotations

from dataclasses import dataclass

from torchlint.base.finding import Finding, Safety
from torchlint.report.ascii_json import dump
from torchlint.report.run_report import RunReport, applicable
from torchlint.report.style import CYAN, SEVERITY, paint


@dataclass(frozen=True, slots=True)
class Count:
    """The findings of one code: `safe` and `unsafe` of the `total` have a fix of that kind."""

    first: Finding
    total: int
    safe: int
    unsafe: int

    def fixable(self, unsafe_fixes: bool) -> int:
        """Return how many the user's choice of safety would fix."""
        return self.safe + self.unsafe if unsafe_fixes else self.safe


def counted(run: RunReport) -> list[Count]:
    """Return the counts, the most frequent code first."""
    groups: dict[str, list[Finding]] = {}
    for finding in run.findings():
        groups.setdefault(finding.code, []).append(finding)
    counts = []
    for group in groups.values():
        kinds = [applicable(finding) for finding in group]
        counts.append(Count(group[0], len(group), kinds.count(Safety.SAFE), kinds.count(Safety.UNSAFE)))
    return sorted(counts, key=lambda count: (-count.total, count.first.code))


def render(run: RunReport) -> str:
    """Return a table: count, code, ``[*]`` all fixable or ``[-]`` some or ``[ ]`` none, name."""
    counts = counted(run)
    if not counts:
        return ""
    digits = len(str(counts[0].total))
    letters = max(len(count.first.code) for count in counts)
    lines = []
    for count in counts:
        fixable = count.fixable(run.unsafe_fixes)
        mark = "[*]" if fixable == count.total else "[-]" if fixable else "[ ]"
        code = paint(f"{count.first.code:<{letters}}", SEVERITY[count.first.severity], run.color)
        lines.append(f"{count.total:>{digits}}\t{code}\t{paint(mark, CYAN, run.color)} {count.first.name}\n")
    return "".join(lines)


def render_json(run: RunReport) -> str:
    """Return the same as a JSON list with ruff's keys; `unsafe_count` and `severity` are ours."""
    return dump(
        [
            {
                "code": count.first.code,
                "name": count.first.name,
                "count": count.total,
                "fixable": count.fixable(run.unsafe_fixes) == count.total,
                "fixable_count": count.fixable(run.unsafe_fixes),
                "unsafe_count": count.unsafe,
                "severity": count.first.severity.value,
            }
            for count in counted(run)
        ]
    )
