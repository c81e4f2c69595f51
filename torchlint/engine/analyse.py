"""One document to its report: parse, hits, strongest, placed, suppressed, identified; and fixes if
asked.

`analyse` is what a worker process runs for each file; libcst and the rules are imported only for
files that pass the prefilter.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from torchlint.base.records import frozen, import_libcst
from torchlint.base.regex import BLANKS, regex
from torchlint.base.span import LineIndex, Position
from torchlint.catalog.rules import load_catalog, load_rules
from torchlint.engine import syntax
from torchlint.engine.checked import Changed, Check, Checked
from torchlint.engine.job import Job
from torchlint.source.document import Document, fixable
from torchlint.source.python import MisreadError

if TYPE_CHECKING:
    from torchlint.engine.cells import Cells
    from torchlint.semantic.project.outside import Outside

IMPORT_BYTES = (
    b"torch",
    b"lightning",
    b"transformers",
    b"accelerate",
    b"datasets",
    b"trl",
    b"ignite",
    b"fastai",
)
"""Without one of these a file cannot hold anything for any rule."""
_SPARED = "it would change a statement on line {} that a comment silences"
_HALF = "another cell is not Python yet"
"""Why nothing is fixed in a notebook with a syntax error: what that cell does with a name is not
known."""
_TABS = "tabs and spaces are mixed in the indentation"
_PRAGMA_BYTES = (b"torchlint:", b"noqa")
# A file that imports another framework, and neither torch nor what builds on it, speaks of that
# one's networks.
_OTHER = regex(
    rb"^[^\S\n]*(?:import|from)\s+(?:mxnet|jax|tensorflow|paddle|mindspore)\b", re.MULTILINE
)
_OURS = regex(
    rb"^[^\S\n]*(?:import|from)\b.*(?:torch|lightning|transformers|accelerate|ignite|fastai)",
    re.MULTILINE,
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
    cells = _cells(document)
    if job.fix and not fixable(document):  # What fixes of one round leave must not widen the next.
        job = _styled(job)

    def check(text: str) -> Checked:
        return checked(job, text, cells, outside)

    if job.silence is not None:
        return _report(job, _silenced(job, check, cells), cells)
    if job.fix and not fixable(document):
        return _report(job, _fixed(job, check, cells), cells)
    return _report(job, Changed(check(document.text)), cells)


def concerns_us(data: bytes) -> bool:
    """Say whether a file's bytes hold an import without which no rule finds anything."""
    return any(word in data for word in IMPORT_BYTES) and not (
        _OTHER.search(data) and not _OURS.search(data)
    )


def _cells(document: Document) -> Cells | None:
    if document.notebook is None:
        return None
    from torchlint.engine.cells import Cells

    return Cells(document)


def _styled(job: Job) -> Job:
    """Return a job whose fixes wrap lines as the file does that is fixed."""
    from torchlint.edits.wrapping import limit_of, style_of

    text = job.document.text
    return replace(job, line_length=limit_of(text, job.line_length), aligned=style_of(text).aligned)


def _fixed(job: Job, check: Check, cells: Cells | None) -> Changed:
    from torchlint.engine.fix import fixed

    document = job.document
    allowed = frozenset((Safety.SAFE, Safety.UNSAFE) if job.fix == "unsafe" else (Safety.SAFE,))
    changed = fixed(
        document.text,
        check,
        lambda fix: fix.safety in allowed and not fix.withheld,
        encoding=document.encoding,
        line_length=job.line_length,
    )
    unsound = cells.unsound(changed.checked.text) if cells is not None else ""
    if unsound:
        return Changed(
            check(document.text), notes=(Note(NoteKind.FAILED, document.filename, unsound),)
        )
    return replace(
        changed, notes=tuple(replace(note, filename=document.filename) for note in changed.notes)
    )


def _silenced(job: Job, check: Check, cells: Cells | None) -> Changed:
    from torchlint.engine.suppress import silenced

    assert job.silence is not None
    document = job.document
    refusal = fixable(document)
    if refusal or cells is not None:
        found = check(document.text)
        refusal = refusal or (
            _HALF if any(each.code == INVALID_SYNTAX for each in found.findings) else ""
        )
    if refusal:
        words = f"no suppressions are written: {refusal}"
        return Changed(found, notes=(Note(NoteKind.WITHHELD, document.filename, words),))
    return silenced(document.text, check, job.silence)


def _report(job: Job, changed: Changed, cells: Cells | None) -> FileReport:
    """Return the report on what a job came to, with the rows that reports show."""
    document, found, text = job.document, changed.checked, changed.checked.text
    before, after = (document.text, text) if text != document.text else ("", "")
    report = FileReport(
        document.filename,
        found.findings,
        (*found.notes, *changed.notes),
        changed.count,
        before,
        after,
        _source(found) if job.show_source else (),
        suppressed=found.suppressed,
        joint=changed.joint,
        edits=changed.edits,
        unsafe=changed.unsafe,
        had=changed.had,
        fixes=changed.fixes,
        could=changed.could,
    )
    return report if cells is None else cells.told(report, text)


def _source(found: Checked) -> tuple[tuple[int | None, int, str], ...]:
    """Return the rows that reports show around findings and their edits."""
    rows: set[int] = set()
    for finding in found.findings:
        rows.update(range(finding.start.row - 2, finding.start.row + 3))
        for edit in finding.fix.edits if finding.fix is not None else ():
            rows.update(range(edit.start.row - 1, edit.end.row + 2))
    return tuple((None, row, line) for row, line in LineIndex(found.text).excerpt(rows))


# -- one text --------------------------------------------------------------------------------------


def checked(
    job: Job, text: str, cells: Cells | None = None, outside: OutsideOf | None = None
) -> Checked:
    """Return what a text of a job's file comes to: the text as it was read, or one that was made of
    it.

    Args:
        job: the file.
        text: the text.
        cells: of a document that is a notebook.
        outside: as of `analyse`.
    """
    filename = job.document.filename
    try:
        read = _read(text, filename, cells)
    except syntax.TooDeepError:
        return Checked(
            text,
            notes=(Note(NoteKind.FAILED, filename, "nested too deeply for Python's own parser"),),
        )
    if read.text is None:
        return Checked(text, read.faults)
    # What a comment or an import says can be asked of the text as it was read: fixes take neither
    # away.
    data = (
        job.document.data if cells is None else job.document.text.encode("utf-8", "surrogatepass")
    )
    found, notes = _analysed(job, read.text, read.python, data, outside)
    findings = [*read.faults, *found]
    silenced: list[Suppressed] = []
    if job.silence is not None or any(word in data.lower() for word in _PRAGMA_BYTES):
        findings, silenced = _suppressed(
            job, read.text, findings, whole=not read.faults and not notes
        )
    if job.contract.allow:
        from torchlint.engine.no_waits import by_list

        found_there = by_list(job, read.text, findings)
        findings = [*found_there.kept, *(() if read.faults or notes else found_there.idle)]
        silenced += found_there.listed
    findings = [_spared(finding, silenced) for finding in findings]
    asked = [finding for finding in findings if counts_in_library(job, finding)]
    if outside is not None and len(asked) < len(findings) and outside(job).of_library():
        findings = asked
    refusal = fixable(job.document) or (_HALF if read.faults else "")
    if read.text in syntax.reindented:
        refusal = refusal or _TABS
    if refusal:
        findings = [_refused(finding, refusal) for finding in findings]
    elif cells is not None:
        findings = list(cells.contained(text, findings, read.python))
    findings.sort(key=lambda finding: finding.sort_key)
    # Silenced ones are counted last, so that a comment changes the identity of no finding that is
    # left.
    every = list(_identified(job, text, [*findings, *(each.finding for each in silenced)], cells))
    left = len(findings)
    suppressed = (
        replace(held, finding=one) for held, one in zip(silenced, every[left:], strict=True)
    )
    return Checked(text, tuple(every[:left]), tuple(suppressed), notes)


@frozen
class _Read:
    """What can be analysed of a text: None for nothing, CPython's tree of it (see
    `syntax.python_tree`), and faults."""

    text: str | None
    python: ast.Module | None
    faults: tuple[Finding, ...] = ()


def _read(text: str, filename: str, cells: Cells | None) -> _Read:
    """Return what can be analysed of a text, and its faults: of a notebook, one per cell, and the
    other cells."""
    if cells is None:
        return _read_whole(text, filename)
    found = [
        (place, above, syntax.python_tree(python)) for place, above, python in cells.texts(text)
    ]
    bad = [
        (place, _fault(tree, above, filename))
        for place, above, tree in found
        if isinstance(tree, syntax.SyntaxFault)
    ]
    if not bad:
        return _read_whole(text, filename)
    left = _read_whole(cells.without(text, (place for place, _ in bad)), filename)
    return _Read(left.text, left.python, tuple(fault for _, fault in bad))


def _read_whole(text: str, filename: str) -> _Read:
    python = syntax.python_tree(text)
    if isinstance(python, syntax.SyntaxFault):
        return _Read(None, None, (_fault(python, 0, filename),))
    return _Read(text, python)


def _fault(fault: syntax.SyntaxFault, above: int, filename: str) -> Finding:
    at = Position(fault.row + above, fault.column)
    return Finding(
        INVALID_SYNTAX,
        INVALID_SYNTAX,
        fault.message,
        Severity.ERROR,
        filename,
        at,
        at,
        at.row,
        at.row,
    )


def _analysed(
    job: Job, text: str, python: ast.Module | None, data: bytes, outside: OutsideOf | None
) -> tuple[tuple[Finding, ...], tuple[Note, ...]]:
    """Return what the rules find; a file whose lean tree is misread, this or another, is left to
    libcst's parser."""
    while True:
        try:
            return _rule_findings(job, text, python, data, outside)
        except MisreadError as error:
            syntax.leave_to_libcst(error.text)


def _rule_findings(
    job: Job, text: str, python: ast.Module | None, data: bytes, outside: OutsideOf | None
) -> tuple[tuple[Finding, ...], tuple[Note, ...]]:
    """Return what the rules find, and what to say of those that could not be asked."""
    if not concerns_us(data):
        return (), ()
    catalog = load_catalog()
    words = b" ".join(set(data.translate(BLANKS).split()))  # each once, a tenth of the text
    able = {
        info.code
        for info in catalog.rules
        if any(
            each in (data if b" " in each.translate(BLANKS) else words) for each in info.triggers
        )
    }
    wanted = able & job.codes
    if not wanted:
        return (), ()
    # A rule also yields to a more specific one that is switched off, so that one has to run too.
    yielding = (info.yields_to for info in catalog.rules if info.code in wanted)
    silent = {code for codes in yielding for code in codes} & able - wanted
    import_libcst()
    tree = syntax.parse(text, python)
    if isinstance(tree, str):
        return (), (Note(NoteKind.UNSUPPORTED, job.document.filename, tree),)
    from torchlint.engine import hits

    rules, problems = load_rules(wanted | silent)
    module = hits.module_of(job, tree, text, python, outside(job) if outside is not None else None)
    found, notes = hits.findings(module, job.document.filename, rules, wanted, job)
    module.close()
    return found, (
        *notes,
        *(Note(NoteKind.FAILED, problem.path, problem.message) for problem in problems),
    )


def _suppressed(
    job: Job, text: str, findings: list[Finding], *, whole: bool
) -> tuple[list[Finding], list[Suppressed]]:
    """Return the findings to report, and in order those that comments silence."""
    from torchlint.source.suppress import (
        Suppressions,
    )  # Few files need it, and every small run would wait for it.

    catalog = load_catalog()
    names = {info.code: info.name for info in catalog.rules}
    comments = Suppressions.parse(text, waits_only=job.ignore_noqa)
    found = comments.filter(findings, job.codes, names, job.document.filename)
    silenced = [
        Suppressed(replace(one, fix=None, why_hot=()), True, pragma.reason, pragma.owner)
        for one, pragma in found.silenced
    ]
    silenced.sort(key=lambda held: held.finding.sort_key)
    # Where not all rules ran on all of the text, nothing can be said about a comment's use.
    unknown = UNUSED_SUPPRESSION not in job.codes or catalog.problems or not whole
    unused = [] if unknown else found.unused
    if UNUSED_SUPPRESSION in job.unfixable:
        unused = [replace(each, fix=None) for each in unused]
    return [*found.kept, *unused], silenced


def _spared(finding: Finding, silenced: list[Suppressed]) -> Finding:
    """Return a finding whose fix leaves the statements alone that comments silence for its rule; it
    is withheld where it would change one, as repairs of several findings together may."""
    fix = finding.fix
    if fix is None or fix.withheld:
        return finding
    rows = [
        range(held.finding.statement, held.finding.statement_end + 1)
        for held in silenced
        if held.finding.code == finding.code
    ]
    changed = [
        row
        for edit in fix.edits
        for row in range(edit.start.row, edit.end.row + 1)
        if any(row in each for each in rows)
    ]
    return _refused(finding, _SPARED.format(changed[0])) if changed else finding


def counts_in_library(job: Job, finding: Finding) -> bool:
    """Say whether a finding is listed in a library, whose callers are not in view, too."""
    return job.library_infos or finding.severity is not Severity.INFO


def _refused(finding: Finding, reason: str) -> Finding:
    return (
        finding
        if finding.fix is None
        else replace(finding, fix=replace(finding.fix, withheld=reason))
    )


def _identified(
    job: Job, text: str, findings: list[Finding], cells: Cells | None
) -> Iterator[Finding]:
    index = LineIndex(text)
    seen: Counter[str] = Counter()
    for finding in findings:
        first = index.starts[min(finding.statement, len(index)) - 1]
        statement = text[first : index.line_end(min(finding.statement_end, len(index)))]
        cell = cells.key(text, finding.statement) if cells is not None else None
        place = job.identity or job.relative
        key = fingerprint(finding.code, place, cell, statement, 0)
        identity = fingerprint(finding.code, place, cell, statement, seen[key])
        seen[key] += 1
        content = content_digest(finding.code, statement)
        yield replace(finding, fingerprint=identity, content=content)
