"""One document to findings: syntax check, prefilter, parse, rules, suppression, and fixes if asked.

`analyse` is what a worker process runs for each file; libcst and the rules are imported only for files that pass
the prefilter.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

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
    fingerprint,
)
from torchlint.base.span import LineIndex, Position
from torchlint.engine import syntax
from torchlint.engine.catalog import load_catalog, load_rules
from torchlint.engine.job import Job, Silence
from torchlint.source.document import fixable

IMPORT_BYTES = (b"torch", b"lightning", b"transformers", b"accelerate", b"datasets", b"ignite", b"fastai")
"""Without one of these a file cannot hold anything for any rule (design §4)."""
_PRAGMA_BYTES = (b"torchlint:", b"noqa")
# A file that imports another framework, and neither torch nor what builds on it, speaks of that one's networks.
_OTHER = re.compile(rb"^\s*(?:import|from)\s+(?:mxnet|jax|tensorflow|paddle|mindspore)\b", re.MULTILINE)
_OURS = re.compile(rb"^\s*(?:import|from)\b.*(?:torch|lightning|transformers|accelerate|ignite|fastai)", re.MULTILINE)


def analyse(job: Job) -> FileReport:
    """Check one file and, if the job asks for it, apply fixes up to a fixed point.

    Never raises for the file's own faults: what is wrong with it, or with us, is in the report.
    """
    document = job.document
    checker = _Checker(job)
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
    report = checker.report(outcome.findings, outcome.text)
    notes = (*report.notes, *(_named(note, document.filename) for note in outcome.notes))
    changed = outcome.text != document.text
    return FileReport(
        document.filename,
        report.findings,
        notes,
        applied=outcome.count,
        before=document.text if changed else "",
        after=outcome.text if changed else "",
        source=report.source,
    )


def _silenced(job: Job, checker: _Checker) -> FileReport:
    from torchlint.engine.silence import silenced

    name, refusal = job.document.filename, fixable(job.document)
    if refusal:
        note = Note(NoteKind.WITHHELD, name, f"no suppressions are written: {refusal}")
        return FileReport(name, checker.check(job.document.text), (note,))
    outcome = silenced(job.document.text, checker.check, job.silence or Silence(frozenset()))
    report = checker.report(outcome.findings, outcome.text)
    changed = outcome.text != job.document.text
    return replace(
        report,
        notes=(*report.notes, *outcome.notes),
        applied=outcome.count,
        before=job.document.text if changed else "",
        after=outcome.text if changed else "",
    )


def _named(note: Note, filename: str) -> Note:
    return note if note.filename else Note(note.kind, filename, note.message, note.line)


class _Checker:
    """Checks successive texts of one file; the notes are those of the last text checked."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.notes: tuple[Note, ...] = ()

    def check(self, text: str) -> tuple[Finding, ...]:
        """Return the findings of a text in order, suppressed ones left out."""
        self.notes = ()
        job = self.job
        try:
            python = syntax.python_tree(text)
        except syntax.TooDeepError:
            words = "nested too deeply for Python's own parser"
            self.notes = (Note(NoteKind.FAILED, job.document.filename, words),)
            return ()
        if isinstance(python, syntax.SyntaxFault):
            at = Position(python.row, python.column)
            return (
                Finding(
                    INVALID_SYNTAX,
                    INVALID_SYNTAX,
                    python.message,
                    Severity.ERROR,
                    job.document.filename,
                    at,
                    at,
                    at.row,
                    at.row,
                ),
            )
        findings = list(self._rule_findings(text, python))
        if job.silence is not None or any(word in job.document.data for word in _PRAGMA_BYTES):
            findings = self._suppressed(text, findings)
        refusal = fixable(job.document)
        if refusal:
            findings = [_refused(finding, refusal) for finding in findings]
        findings.sort(key=lambda f: f.sort_key)
        return tuple(self._identified(findings, text))

    def _suppressed(self, text: str, findings: list[Finding]) -> list[Finding]:
        from torchlint.source.suppress import Suppressions  # Few files need it, and every small run would wait for it.

        names = {info.code: info.name for info in load_catalog().rules}
        kept, unused = Suppressions.parse(text).filter(findings, self.job.codes, names, self.job.document.filename)
        if UNUSED_SUPPRESSION not in self.job.codes or self.notes:
            # Where rules did not run, or not all of them, nothing can be said about a comment's use.
            return kept
        return [*kept, *unused]

    def _rule_findings(self, text: str, python: ast.Module | None) -> Iterator[Finding]:
        data = self.job.document.data
        if not any(word in data for word in IMPORT_BYTES) or (_OTHER.search(data) and not _OURS.search(data)):
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

        collected = collect(tree, text, python, self.job, load_rules(sorted(wanted | silent)))
        self.notes = collected.notes
        yield from collected.findings(frozenset(wanted))
        collected.module.close()

    def _identified(self, findings: list[Finding], text: str) -> Iterator[Finding]:
        index = LineIndex(text)
        seen: Counter[str] = Counter()
        for finding in findings:
            first = index.starts[min(finding.statement, len(index)) - 1]
            statement = text[first : index.line_end(min(finding.statement_end, len(index)))]
            key = fingerprint(finding.code, self.job.relative, finding.cell, statement, 0)
            identity = fingerprint(finding.code, self.job.relative, finding.cell, statement, seen[key])
            seen[key] += 1
            content = content_digest(finding.code, statement)
            yield replace(finding, fingerprint=identity, content=content)

    def report(self, findings: tuple[Finding, ...], text: str) -> FileReport:
        """Return the report on a checked text, with the source rows that the full format shows."""
        rows: set[int] = set()
        if self.job.show_source:
            for finding in findings:
                rows.update(range(finding.start.row - 2, finding.start.row + 3))
                for edit in finding.fix.edits if finding.fix is not None else ():
                    rows.update(range(edit.start.row - 1, edit.end.row + 2))
        index = LineIndex(text)
        source = tuple((None, row, index.line(row)) for row in sorted(rows) if 1 <= row <= len(index))
        return FileReport(self.job.document.filename, findings, self.notes, source=source)


def _refused(finding: Finding, reason: str) -> Finding:
    return finding if finding.fix is None else replace(finding, fix=replace(finding.fix, withheld=reason))
