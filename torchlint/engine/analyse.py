"""One document to findings: syntax check, prefilter, parse, rules, suppression, and fixes if asked.

`analyse` is what a worker process runs for each file; libcst and the rules are imported only for files that pass
the prefilter.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchlint.base.content import content_digest
from torchlint.base.finding import (
    INVALID_SYNTAX,
    UNUSED_SUPPRESSION,
    FileReport,
    Finding,
    Note,
    NoteKind,
    Safety,
    Severity,
    Suppressed,
    fingerprint,
)
from torchlint.base.span import LineIndex, Position
from torchlint.catalog.rules import load_catalog, load_rules
from torchlint.engine import syntax
from torchlint.engine.job import Job, Silence
from torchlint.source.document import fixable

if TYPE_CHECKING:
    from torchlint.engine.cells import Cells
    from torchlint.semantic.project.outside import Outside

IMPORT_BYTES = (b"torch", b"lightning", b"transformers", b"accelerate", b"datasets", b"ignite", b"fastai")
"""Without one of these a file cannot hold anything for any rule (design §4)."""
_HALF = "another cell is not Python yet"
"""Why nothing is fixed in a notebook with a syntax error: what that cell does with a name is not known."""
_PRAGMA_BYTES = (b"torchlint:", b"noqa")
# A file that imports another framework, and neither torch nor what builds on it, speaks of that one's networks.
_OTHER = re.compile(rb"^[^\S\n]*(?:import|from)\s+(?:mxnet|jax|tensorflow|paddle|mindspore)\b", re.MULTILINE)
_OURS = re.compile(
    rb"^[^\S\n]*(?:import|from)\b.*(?:torch|lightning|transformers|accelerate|ignite|fastai)", re.MULTILINE
)

OutsideOf = Callable[[Job], "Outside"]
"""Gives what the file of a job may ask about its project."""


def analyse(job: Job, outside: OutsideOf | None = None) -> FileReport:
    """Check one file and, if the job asks for it, apply fixes up to a fixed point.

    Never raises for the file's own faults: what is wrong with it, or with us, is in the report.

    Args:
        job: the file.
        outside: gives what the file may ask about its project; without it, the file stands alone.
    """
    document = job.document
    checker = _Checker(job, outside)
    if job.silence is not None:
        return _silenced(job, checker)
    if not job.fix or fixable(document):
        findings = checker.check(document.text)
        return checker.report(findings, document.text)
    from torchlint.engine.fix import apply_fixes

    allowed = frozenset((Safety.SAFE, Safety.UNSAFE) if job.fix == "unsafe" else (Safety.SAFE,))
    outcome = apply_fixes(
        document.text,
        checker.check,
        lambda fix: fix.safety in allowed and not fix.withheld,
        encoding=document.encoding,
    )
    unsound = checker.cells.unsound(outcome.text) if checker.cells is not None else ""
    if unsound:
        report = checker.report(checker.check(document.text), document.text)
        return replace(report, notes=(*report.notes, Note(NoteKind.FAILED, document.filename, unsound)))
    notes = tuple(_named(note, document.filename) for note in outcome.notes)
    return checker.report(outcome.findings, outcome.text, notes, outcome.count, outcome.unsafe)


def concerns_us(data: bytes) -> bool:
    """Say whether a file's bytes hold an import without which no rule finds anything."""
    return any(word in data for word in IMPORT_BYTES) and not (_OTHER.search(data) and not _OURS.search(data))


def _silenced(job: Job, checker: _Checker) -> FileReport:
    from torchlint.engine.suppress import silenced

    refusal = fixable(job.document)
    if refusal or checker.cells is not None:
        found = checker.check(job.document.text)
        refusal = refusal or (_HALF if any(each.code == INVALID_SYNTAX for each in found) else "")
    if refusal:
        note = Note(NoteKind.WITHHELD, job.document.filename, f"no suppressions are written: {refusal}")
        return checker.report(found, job.document.text, (note,))
    outcome = silenced(job.document.text, checker.check, job.silence or Silence(frozenset()))
    return checker.report(outcome.findings, outcome.text, outcome.notes, outcome.count)


def _named(note: Note, filename: str) -> Note:
    return note if note.filename else Note(note.kind, filename, note.message, note.line)


@dataclass(frozen=True, slots=True)
class _Read:
    """What can be analysed of a text: None for nothing, CPython's tree of it (see `syntax.python_tree`), and faults."""

    text: str | None
    python: ast.Module | None
    faults: tuple[Finding, ...] = ()


class _Checker:
    """Checks successive texts of one file; `notes` and `suppressed` are those of the last text checked."""

    def __init__(self, job: Job, outside: OutsideOf | None = None) -> None:
        self.job = job
        self.outside = outside
        self.notes: tuple[Note, ...] = ()
        self.suppressed: tuple[Suppressed, ...] = ()
        self._checked = ""
        self.cells: Cells | None = None
        self.data = job.document.data
        if job.document.notebook is not None:
            from torchlint.engine.cells import Cells

            self.cells = Cells(job.document)
            self.data = job.document.text.encode("utf-8", "surrogatepass")

    def check(self, text: str) -> tuple[Finding, ...]:
        """Return the findings of a text in order, suppressed ones left out."""
        self.notes, self.suppressed, self._checked = (), (), text
        try:
            read = self._read(text)
        except syntax.TooDeepError:
            words = "nested too deeply for Python's own parser"
            self.notes = (Note(NoteKind.FAILED, self.job.document.filename, words),)
            return ()
        if read.text is None:
            return read.faults
        findings = [*read.faults, *self._rule_findings(read.text, read.python)]
        silenced: list[tuple[Finding, str]] = []
        if self.job.silence is not None or any(word in self.data.lower() for word in _PRAGMA_BYTES):
            findings, silenced = self._filtered(read.text, findings, whole=not read.faults)
        refusal = fixable(self.job.document) or (_HALF if read.faults else "")
        if refusal:
            findings = [_refused(finding, refusal) for finding in findings]
        elif self.cells is not None:
            findings = list(self.cells.contained(text, findings, read.python))
        findings.sort(key=lambda f: f.sort_key)
        # Silenced ones are counted last, so that a comment changes the identity of no finding that is left.
        every = list(self._identified([*findings, *(finding for finding, _ in silenced)], text))
        left = len(findings)
        reasons = (reason for _, reason in silenced)
        self.suppressed = tuple(
            Suppressed(one, True, reason) for one, reason in zip(every[left:], reasons, strict=True)
        )
        return tuple(every[:left])

    def _read(self, text: str) -> _Read:
        """Return what can be analysed of a text, and its faults: of a notebook, one per cell, and the other cells."""
        if self.cells is None:
            return self._read_whole(text)
        found = [(place, above, syntax.python_tree(python)) for place, above, python in self.cells.texts(text)]
        bad = [
            (place, self._fault(tree, above)) for place, above, tree in found if isinstance(tree, syntax.SyntaxFault)
        ]
        if not bad:
            return self._read_whole(text)
        faults = tuple(fault for _, fault in bad)
        left = self._read_whole(self.cells.without(text, (place for place, _ in bad)))
        return _Read(left.text, left.python, faults)

    def _read_whole(self, text: str) -> _Read:
        python = syntax.python_tree(text)
        return (
            _Read(None, None, (self._fault(python, 0),))
            if isinstance(python, syntax.SyntaxFault)
            else _Read(text, python)
        )

    def _fault(self, fault: syntax.SyntaxFault, above: int) -> Finding:
        at = Position(fault.row + above, fault.column)
        name = self.job.document.filename
        return Finding(INVALID_SYNTAX, INVALID_SYNTAX, fault.message, Severity.ERROR, name, at, at, at.row, at.row)

    def _filtered(
        self, text: str, findings: list[Finding], *, whole: bool
    ) -> tuple[list[Finding], list[tuple[Finding, str]]]:
        """Return the findings to report, and in order those that comments silence, each with the comment's reason."""
        from torchlint.source.suppress import Suppressions  # Few files need it, and every small run would wait for it.

        catalog = load_catalog()
        names = {info.code: info.name for info in catalog.rules}
        found = Suppressions.parse(text).filter(findings, self.job.codes, names, self.job.document.filename)
        silenced = [(replace(one, fix=None, why_hot=()), pragma.reason) for one, pragma in found.silenced]
        silenced.sort(key=lambda pair: pair[0].sort_key)
        # Where not all rules ran on all of the text, nothing can be said about a comment's use.
        unknown = UNUSED_SUPPRESSION not in self.job.codes or self.notes or catalog.problems or not whole
        return found.kept if unknown else [*found.kept, *found.unused], silenced

    def _rule_findings(self, text: str, python: ast.Module | None) -> Iterator[Finding]:
        data = self.data
        if not concerns_us(data):
            return
        catalog = load_catalog()
        on = [info for info in catalog.rules if info.code in self.job.codes]
        able = {info.code for info in catalog.rules if any(trigger in data for trigger in info.triggers)}
        wanted = {info.code for info in on if info.code in able}
        if not wanted:
            return
        # A rule also yields to a more specific one that is switched off, so that one has to run too.
        silent = {code for info in on if info.code in wanted for code in info.yields_to} & able - wanted
        tree = syntax.parse(text)
        if isinstance(tree, str):
            self.notes = (Note(NoteKind.SKIPPED, self.job.document.filename, tree),)
            return
        from torchlint.engine.hits import collect

        rules, problems = load_rules(wanted | silent)
        outside = self.outside(self.job) if self.outside is not None else None
        collected = collect(tree, text, python, self.job, rules, outside)
        yield from collected.findings(frozenset(wanted))
        collected.module.close()
        left_out = (Note(NoteKind.FAILED, problem.path, problem.message) for problem in problems)
        self.notes = (*collected.notes, *left_out)

    def _identified(self, findings: list[Finding], text: str) -> Iterator[Finding]:
        index = LineIndex(text)
        seen: Counter[str] = Counter()
        for finding in findings:
            first = index.starts[min(finding.statement, len(index)) - 1]
            statement = text[first : index.line_end(min(finding.statement_end, len(index)))]
            cell = self.cells.key(text, finding.statement) if self.cells is not None else None
            place = self.job.identity or self.job.relative
            key = fingerprint(finding.code, place, cell, statement, 0)
            identity = fingerprint(finding.code, place, cell, statement, seen[key])
            seen[key] += 1
            content = content_digest(finding.code, statement)
            yield replace(finding, fingerprint=identity, content=content)

    def report(
        self, findings: tuple[Finding, ...], text: str, notes: tuple[Note, ...] = (), applied: int = 0, unsafe: int = 0
    ) -> FileReport:
        """Return the report on a text that was checked, with `notes` on its fixes and the rows that reports show."""
        if text != self._checked:  # a later one was given up
            self.check(text)
        rows: set[int] = set()
        if self.job.show_source:
            for finding in findings:
                rows.update(range(finding.start.row - 2, finding.start.row + 3))
                for edit in finding.fix.edits if finding.fix is not None else ():
                    rows.update(range(edit.start.row - 1, edit.end.row + 2))
        index = LineIndex(text)
        source = tuple((None, row, index.line(row)) for row in sorted(rows) if 1 <= row <= len(index))
        document = self.job.document
        before, after = (document.text, text) if text != document.text else ("", "")
        report = FileReport(
            document.filename,
            findings,
            (*self.notes, *notes),
            applied,
            before,
            after,
            source,
            suppressed=self.suppressed,
            unsafe=unsafe,
        )
        return report if self.cells is None else self.cells.told(report, text)


def _refused(finding: Finding, reason: str) -> Finding:
    return finding if finding.fix is None else replace(finding, fix=replace(finding.fix, withheld=reason))
