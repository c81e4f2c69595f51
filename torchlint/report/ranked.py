"""The `ranked` format, the default: findings under their rules, the costliest first, one line each.

Errors come before warnings, and where a profile says what fixing saves, what saves most before the
rest; of these what runs every step before what runs rarely; then what makes
the host wait for the device, as the rule's example was measured; then what was found most often. A
few findings are shown in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from torchlint.base.finding import INVALID_SYNTAX, UNREADABLE, Finding, Frequency, Severity
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.report import full
from torchlint.report.excerpt import source_rows
from torchlint.report.kit.terminal import BOLD, CYAN, DIM, fitted, paint, readable, wrapped
from torchlint.report.kit.words import pluralise, visible, visible_path
from torchlint.report.run_report import RuleMeta, RunReport, measure, report_order
from torchlint.report.text import SEVERITY, in_file, marker, place

FEW = 5
"""So many findings are shown with their source unless the user says otherwise: a screen or two."""
_LEAST = 30
"""Columns that code needs to stand on the line of its place."""
_BROKEN = frozenset({INVALID_SYNTAX, UNREADABLE})
_NAMED = regex(r"`[^`]*`|[^\s`]*\w[.=(\[]\w[^\s;]*")
"""Code that a message names."""
_OFTEN = {
    Frequency.TRAINING: "every training step",
    Frequency.FORWARD: "every forward pass",
    Frequency.EVALUATION: "every evaluation batch",
    Frequency.SAMPLE: "for every sample",
    Frequency.EPOCH: "every epoch",
}


def in_full(run: RunReport) -> bool:
    """Say whether the findings are shown with their source."""
    return len(run.findings()) <= FEW if run.show_source is None else run.show_source


def folded(run: RunReport) -> list[Finding]:
    """Return the infos that the report only counts."""
    if run.show_infos or in_full(run):
        return []
    return [finding for finding in run.findings() if _minor(finding)]


def _minor(finding: Finding) -> bool:
    """Say whether a finding is an info of which nothing is known that makes it worth a look."""
    measured = finding.measured is not None and not finding.measured.negligible
    return finding.severity is Severity.INFO and not measured


def first_rule(run: RunReport) -> str:
    """Return the code of the rule that a list begins with; empty where it lists none."""
    return next(
        (group.first.code for group in _Listing(run).groups() if group.meta is not None), ""
    )


def render(run: RunReport) -> str:
    """Return a block of lines for each rule, with an empty line after each."""
    return full.render(run) if in_full(run) else _Listing(run).text()


@frozen
class Group:
    """The findings of one rule that have one severity; `meta` is None for the engine's own
    codes."""

    findings: tuple[Finding, ...]
    meta: RuleMeta | None

    @property
    def first(self) -> Finding:
        return self.findings[0]

    @property
    def frequency(self) -> Frequency:
        return max(finding.frequency for finding in self.findings)

    @property
    def often(self) -> int:
        """How many of them run as often as the most frequent."""
        return sum(finding.frequency is self.frequency for finding in self.findings)

    @property
    def cost(self) -> tuple[bool, float, int, int, bool, int, float, str]:
        """The sort key: less is costlier."""
        wrong = self.first.severity is Severity.ERROR
        measured = max(map(measure, self.findings))
        waits, faster = (self.meta.waits, self.meta.faster) if self.meta is not None else (0.0, 1.0)
        grade = self.first.severity.rank
        return (
            not wrong,
            -measured,
            -grade,
            -self.frequency,
            not waits,
            -self.often,
            -faster,
            self.first.code,
        )


class _Listing:
    def __init__(self, run: RunReport) -> None:
        self.run = run
        self.width = readable(run.width)
        self.rows = {file.filename: source_rows(file) for file in run.files if file.source}
        self.folded = folded(run)

    def text(self) -> str:
        lines: list[str] = []
        for group in self.groups():
            lines += self.head(group)
            for alike in _same_messages(group.findings):
                message = visible(_common([finding.message for finding in alike]))
                lines += [f"  {line}" for line in self.wrapped(message, 2)]
                lines += self.places(alike)
            lines.append("")
        lines += [*self.broken(), *self.hints()]
        return "".join(f"{line}\n" for line in lines)

    def groups(self) -> list[Group]:
        """Return what is listed, the costliest first."""
        kinds: dict[tuple[Severity, str], list[Finding]] = {}
        left = {id(finding) for finding in self.folded}
        for finding in self.run.findings():
            if finding.code not in _BROKEN and id(finding) not in left:
                kinds.setdefault((finding.severity, finding.code), []).append(finding)
        groups = [
            Group(tuple(found), self.run.rules.get(code)) for (_, code), found in kinds.items()
        ]
        return sorted(groups, key=lambda group: group.cost)

    def head(self, group: Group) -> Iterator[str]:
        """Yield the rule and its title, and how many findings there are."""
        first, color = group.first, self.run.color
        title = visible(group.meta.title if group.meta is not None else first.name)
        code = paint(first.code, SEVERITY[first.severity], color)
        lines = self.wrapped(title, len(first.code) + 1)
        yield f"{code} {paint(lines[0], BOLD, color)}"
        yield from (" " * (len(first.code) + 1) + paint(line, BOLD, color) for line in lines[1:])
        yield from (f"  {paint(line, DIM, color)}" for line in self.wrapped(self.counted(group), 2))

    def counted(self, group: Group) -> str:
        """Return ``52 warnings in 30 files, 49 of them every training step; 12 [*], 20 [~]``."""
        files = len({finding.filename for finding in group.findings})
        total = len(group.findings)
        words = f"{pluralise(total, group.first.severity.value)} in {pluralise(files, 'file')}"
        if group.frequency in _OFTEN:
            words += (
                f", {f'{group.often} of them ' * (group.often != total)}{_OFTEN[group.frequency]}"
            )
        kinds = Counter(map(marker, group.findings))
        fixes = [f"{kinds[mark]} {mark}" for mark in ("[*]", "[~]") if kinds[mark]]
        return f"{words}; {', '.join(fixes)}" if fixes else words

    def places(self, findings: list[Finding]) -> Iterator[str]:
        """Yield each file's name, those whose lines run most often first, and its places with the
        code there."""
        files: dict[str, list[Finding]] = {}
        for finding in sorted(findings, key=report_order):
            files.setdefault(finding.filename, []).append(finding)
        marked = any(map(marker, findings))

        def often(item: tuple[str, list[Finding]]) -> tuple[float, int]:
            return -max(map(measure, item[1])), -max(one.frequency for one in item[1])

        for name, found in sorted(files.items(), key=often):
            yield f"  {visible_path(name)}"
            rows = _by_row(found)
            column = max(len(in_file(same[0])) for same in rows)
            for same in rows:
                yield from self.place(same, column, marked)

    def place(self, same: list[Finding], column: int, marked: bool) -> Iterator[str]:
        """Yield the line of findings in one row: place, mark, code; on a narrow terminal the code
        is a line below."""
        first = same[0]
        mark = marker(first)
        start = f"    {in_file(first):>{column}}  {paint(mark, CYAN, self.run.color)}"
        blanks = " " * (len("[*] ") - len(mark)) if marked else ""
        room = self.width - len(f"    {'':{column}}  {mark}{blanks}")
        if room >= _LEAST:
            yield f"{start}{blanks}{self.code(same, room)}".rstrip()
        else:
            yield start.rstrip()
            yield f"      {self.code(same, self.width - 6)}".rstrip()

    def code(self, same: list[Finding], room: int) -> str:
        """Return the line of code of findings in one row, cut to `room` columns around the first of
        them."""
        finding = same[0]
        text = self.rows.get(finding.filename, {}).get(finding.cell, {}).get(finding.start.row)
        more = f"  ({len(same)}x)" if len(same) > 1 else ""
        more += "  (in unused code)" * (finding.frequency is Frequency.UNUSED)
        known = [one.measured for one in same if one.measured is not None]
        if known:
            more += f"  ({max(known, key=lambda one: one.share).words})"
        room = max(room - len(more), 8)
        if text is None or not text.strip():
            return fitted(finding.message, 0, room) + more
        bare = text.strip()
        start = finding.start.column - 1 - (len(text) - len(text.lstrip()))
        return fitted(bare, min(max(start, 0), len(bare)), room) + more

    def broken(self) -> Iterator[str]:
        """Yield the files that could not be read or are no Python."""
        found = [finding for finding in self.run.findings() if finding.code in _BROKEN]
        if not found:
            return
        for line in self.wrapped(f"{pluralise(len(found), 'file')} not read as Python", 0):
            yield paint(line, SEVERITY[Severity.ERROR], self.run.color)
        for finding in found:
            words = f"  {place(finding)}: "
            message = visible(finding.message)
            if len(words) + len(message) <= self.width:
                yield words + message
            else:
                yield words.rstrip()
                yield from (f"    {line}" for line in self.wrapped(message, 4))
        yield ""

    def hints(self) -> Iterator[str]:
        """Yield how many infos are not listed, by rule."""
        if not self.folded:
            return
        counts = Counter(finding.code for finding in self.folded)
        rules = ", ".join(
            f"{number} {code}"
            for code, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        )
        dead = sum(finding.frequency is Frequency.UNUSED for finding in self.folded)
        more = f", {dead} of them in code that nothing uses" if dead else ""
        words = (
            f"{pluralise(len(self.folded), 'info')} not listed ({rules}){more}; "
            "--show-infos lists them."
        )
        lines = self.wrapped(words, 0)
        yield from (
            paint(line, SEVERITY[Severity.INFO], self.run.color) if not at else line
            for at, line in enumerate(lines)
        )
        yield ""

    def wrapped(self, text: str, indent: int) -> list[str]:
        """Return words in lines that fit behind an indentation."""
        return wrapped(text, self.width - indent)


def _same_messages(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return findings in lists of those that say the same of different code, the longest first."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(_NAMED.sub("", finding.message), []).append(finding)
    return sorted(kinds.values(), key=len, reverse=True)


def _common(messages: Sequence[str]) -> str:
    """Return what messages that differ in the code they name say alike, with the first of that
    code."""
    every = zip(*map(_NAMED.findall, messages), strict=True)
    named = map(_one_of, map(list, map(dict.fromkeys, every)))
    return _NAMED.sub(lambda _: next(named), messages[0])


def _one_of(names: Sequence[str]) -> str:
    """Return the first of some names, and that there are others."""
    return " or ".join(names) if len(names) < 3 else f"{names[0]} (or the like)"


def _by_row(findings: list[Finding]) -> list[list[Finding]]:
    """Return findings of one file, sorted, in lists of those that share a row and the mark of their
    fix."""
    rows: dict[tuple[int | None, int, str], list[Finding]] = {}
    for finding in findings:
        rows.setdefault((finding.cell, finding.start.row, marker(finding)), []).append(finding)
    return list(rows.values())
