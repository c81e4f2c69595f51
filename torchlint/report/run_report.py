"""What a whole run found: the one value that every format prints."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from torchlint.base.finding import (
    NOT_ANALYSED,
    UNANALYSED,
    FileReport,
    Finding,
    Note,
    NoteKind,
    Safety,
    Severity,
    Suppressed,
)
from torchlint.base.records import frozen
from torchlint.base.span import Position
from torchlint.report.kit.tokens import DEFAULT

ENGINE = "engine"
"""The family of the codes that belong to no rule."""


@frozen
class RuleMeta:
    """What a report says about a rule.

    `title` is its one line, `help_markdown` and `help_text` are its manual page, `url` is the page
    on the web or an empty string, `default` says whether it is on when nothing is selected, and
    `cost` in a few words what was measured. `waits` is the share of waits for the device that the
    fix of the rule's example saves, from 0 to 1, and `faster` how many times faster that was
    measured to be; 0 and 1 where nothing was found or measured. `effect` is what a fix takes out of
    a run, a word of `torchlint.base.declaration.EFFECTS`.
    """

    code: str
    name: str
    title: str
    severity: Severity
    family: str
    help_markdown: str = ""
    url: str = ""
    default: bool = True
    help_text: str = ""
    cost: str = ""
    waits: float = 0.0
    faster: float = 1.0
    effect: str = "none"

    @property
    def launches(self) -> bool:
        """Whether a fix saves nothing but launches of kernels, which a CPU does not show."""
        return self.effect == "launch" and not self.waits and self.faster == 1.0


@frozen
class ShardOf:
    """Which part of a run a report is: `number` (from 1) of `total`; `settings` is a digest of what
    was asked for."""

    number: int
    total: int
    settings: str

    def as_json(self, version: str) -> dict[str, object]:
        """Return what reports that can be merged say of it."""
        return {
            "number": self.number,
            "total": self.total,
            "version": version,
            "settings": self.settings,
        }


@frozen
class Portion:
    """What the `agent` format shows: so many tokens, behind so many findings. `again` is the
    command without `--skip`, word by word, and `programs` holds by file a program that runs it."""

    tokens: int = DEFAULT
    skip: int = 0
    again: tuple[str, ...] = ("torchlint", "check")
    programs: Mapping[str, str] = field(default_factory=dict)


@frozen
class RunReport:
    """The result of one run over many files.

    Args:
        files: one report per file that has anything to say. For the `full` format its `source`
            holds two rows around each finding and every row that an edit touches, with one more on
            either side; so it does for the other formats of `formats.WITH_SOURCE`. Its `suppressed`
            is empty unless the user asked for these.
        version: torchlint's own version.
        rules: the rules that were on, by code.
        root: absolute posix path of the project root; SARIF's paths are relative to it.
        files_checked: how many files were analysed or taken from the cache.
        fix_applied: how many findings were fixed.
        color: whether the text may hold ANSI colours.
        unsafe_fixes: whether the user allows unsafe fixes.
        cwd: absolute path of the folder that relative file names start from; the root where empty.
        width: columns of the terminal that the `ranked` format is for.
        show_source: whether `ranked` shows the source of each finding; None to let their number
            decide.
        show_infos: whether `ranked` lists what is an info.
        shard: the part of a run that this is; None for a whole one.
        named: the rules and paths that the user named, as a shell takes them; empty where they are
            none, or too many for a line.
        portion: what the `agent` format shows.
    """

    files: tuple[FileReport, ...]
    version: str
    rules: Mapping[str, RuleMeta]
    root: str
    files_checked: int = 0
    fix_applied: int = 0
    color: bool = False
    unsafe_fixes: bool = False
    cwd: str = ""
    width: int = 100
    show_source: bool | None = None
    show_infos: bool = False
    shard: ShardOf | None = None
    named: str = ""
    portion: Portion = Portion()

    def findings(self) -> list[Finding]:
        """Return all findings in report order: file, notebook cell, row, column, code."""
        return sorted(
            (finding for file in self.files for finding in file.findings), key=report_order
        )

    def by_code(self) -> dict[str, list[Finding]]:
        """Return the findings of each code, in report order."""
        groups: dict[str, list[Finding]] = {}
        for finding in self.findings():
            groups.setdefault(finding.code, []).append(finding)
        return groups

    def family(self, finding: Finding) -> str:
        """Return the family of a finding's rule; the engine's own codes have one, too."""
        rule = self.rules.get(finding.code)
        return rule.family if rule is not None else ENGINE

    def suppressed(self) -> list[Suppressed]:
        """Return all suppressed findings in report order."""
        return sorted(
            (held for file in self.files for held in file.suppressed),
            key=lambda one: report_order(one.finding),
        )

    def notes(self, *kinds: NoteKind) -> Iterator[Note]:
        """Yield the notes of these kinds, or all notes, in the order of their files and lines, each
        once.

        That a rule is left out is noted for every file that it would have looked at.
        """
        notes = (
            note for file in self.files for note in file.notes if not kinds or note.kind in kinds
        )
        return iter(sorted(dict.fromkeys(notes), key=lambda note: (note.filename, note.line)))

    def entries(self) -> list[Finding]:
        """Return all findings, and after them one of the code `NOT_ANALYSED` for each file that was
        left out."""
        return [*self.findings(), *map(_as_finding, self.notes(*UNANALYSED))]

    def absolute(self, filename: str) -> str:
        """Return the absolute posix path of a file named as the user sees it."""
        from pathlib import PurePath

        return PurePath(os.path.normpath(PurePath(self.cwd or self.root, filename))).as_posix()

    def relative(self, filename: str, base: str = "") -> str | None:
        """Return the posix path under `base` (the project root by default), or None for a file
        outside it."""
        from pathlib import PurePath

        try:
            return PurePath(self.absolute(filename)).relative_to(base or self.root).as_posix()
        except ValueError:
            return None


def _as_finding(note: Note) -> Finding:
    # Where a cell's rows lie in the file is not known of a note.
    file_row = None if note.cell is None else 1
    severity = Severity.WARNING if note.kind is NoteKind.SKIPPED else Severity.ERROR
    row = max(note.line, 1)
    start = Position(row, 1)
    return Finding(
        NOT_ANALYSED,
        NOT_ANALYSED,
        note.message,
        severity,
        note.filename,
        start,
        start,
        row,
        row,
        cell=note.cell,
        file_row=file_row,
    )


def by_measure(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, those first that a profile says cost most; the others stay as they are."""
    return sorted(findings, key=measure, reverse=True)


def measure(finding: Finding) -> float:
    """Return which part of the time fixing a finding saves at most; 0 where that is not known."""
    return finding.measured.share if finding.measured is not None else 0.0


def report_order(finding: Finding) -> tuple[str, int, int, int, str]:
    """Return the sort key of a finding: `Finding.sort_key` with the notebook cell in its place."""
    filename, row, column, code = finding.sort_key
    return (filename, finding.cell or 0, row, column, code)


def applicable(finding: Finding) -> Safety | None:
    """Return the safety of a fix that the engine would write, or None: no fix, a suggestion, or
    withheld."""
    fix = finding.fix
    if fix is None or fix.withheld or fix.safety is Safety.SUGGESTION:
        return None
    return fix.safety


def fixable(findings: Iterable[Finding]) -> tuple[int, int]:
    """Return how many findings have a safe fix and how many an unsafe one, of those that the engine
    would write."""
    kinds = [applicable(finding) for finding in findings]
    return kinds.count(Safety.SAFE), kinds.count(Safety.UNSAFE)
