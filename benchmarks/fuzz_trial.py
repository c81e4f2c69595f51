"""What must hold of any file whatever: the invariants that ``fuzz.py`` and the tests check.

`trial` runs inside a worker in the place of the engine's `analyse`; each invariant that does not
hold is a note of kind FAILED that starts with `BROKEN`.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import io
import re
import time
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from benchmarks import fuzz_edits
from torchlint.base.errors import SourceError
from torchlint.base.finding import INVALID_SYNTAX, FileReport, Finding, Note, NoteKind
from torchlint.base.span import LineIndex, Position
from torchlint.engine.job import Job
from torchlint.run.worker import analyse_job, failed
from torchlint.source.document import Document, decode, encode
from torchlint.source.python import parsed

BROKEN = "broken invariant: "
SLOW = 15.0
"""CPU seconds that a trial may take; wall time says nothing on a busy machine."""
TOO_SLOW = "takes too long"
_PARSES = 8
"""How often a trial parses a file, about."""
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_PRAGMA = re.compile(r"torchlint|noqa", re.IGNORECASE)
_SHIFT = "# moved down by one line\n"


def _told(finding: Finding) -> Finding:
    """Return a finding without what only a run that fixes works out: which imports its fix makes
    unused."""
    return replace(finding, fix=replace(finding.fix, uses=())) if finding.fix else finding


def trial(job: Job) -> FileReport:
    """Check and fix one file; ``job.fix`` says up to which safety (default: unsafe)."""
    text, name, start = job.document.text, job.document.filename, time.process_time()
    checked = analyse_job(replace(job, fix=""))
    fixed = analyse_job(replace(job, fix=job.fix or "unsafe"))
    broken = [*_places(checked.findings, text), *_document(job.document)]
    if not failures(checked):
        broken += _moved(job, checked)
        broken += fuzz_edits.wrong_edits(job)
    changed = fixed.before != fixed.after  # to nothing at all where one useless comment was all
    if changed:
        broken += _after(job, fixed)
    elif not failures(fixed) and [*map(_told, fixed.findings)] != [*map(_told, checked.findings)]:
        broken.append("a fix run that changes nothing finds something else")
    if changed is not (fixed.applied > 0):
        broken.append(
            f"{fixed.applied} fixes applied, but the text is {'changed' if changed else 'the same'}"
        )
    if time.process_time() - start > SLOW:
        broken.append(TOO_SLOW)
    notes = dict.fromkeys((*checked.notes, *fixed.notes))
    notes.update(dict.fromkeys(Note(NoteKind.FAILED, name, BROKEN + words) for words in broken))
    return replace(fixed, findings=checked.findings, notes=tuple(notes))


def parse_alone(job: Job) -> FileReport:
    """Only parse and print the file with libcst: what fails here is the parser's fault."""
    import libcst as cst

    name, start = job.document.filename, time.process_time()
    with contextlib.suppress(cst.ParserSyntaxError, cst.CSTValidationError):
        _ = cst.parse_module(job.document.text).code
    late = time.process_time() - start > SLOW / _PARSES
    return failed(name, TOO_SLOW) if late else FileReport(name)


def failures(report: FileReport) -> list[Note]:
    """Return the notes that say that torchlint itself failed."""
    return [note for note in report.notes if note.kind is NoteKind.FAILED]


def _places(findings: tuple[Finding, ...], text: str) -> Iterator[str]:
    """Yield what is wrong with places in `text`: of findings and of edits."""
    index = LineIndex(text)
    for found in findings:
        if found.code == INVALID_SYNTAX:
            if not 1 <= found.start.row <= len(index) + 1:
                yield f"{found.code} points outside the text"
            continue
        inside = all(_is_place(place, index) for place in (found.start, found.end))
        if (
            not inside
            or found.start > found.end
            or not 1 <= found.statement <= found.statement_end <= len(index)
        ):
            yield f"{found.code} points outside the text"
        at = 0
        for edit in found.fix.edits if found.fix is not None else ():
            span = edit.span
            if not at <= span.start <= span.end <= len(text):
                yield f"{found.code}: its edits overlap or lie outside the text"
                break
            at = span.end
            if (index.position(span.start), index.position(span.end)) != (edit.start, edit.end):
                yield f"{found.code}: an edit's span and its positions disagree"


def _is_place(place: Position, index: LineIndex) -> bool:
    if not 1 <= place.row <= len(index):
        return False
    return 1 <= place.column <= index.line_end(place.row) - index.starts[place.row - 1] + 1


def _document(document: Document) -> Iterator[str]:
    """Yield what is wrong with the document, which no analysis may change."""
    again = decode(document.data, document.path, document.filename)
    if again != document:
        yield "the document is not what its bytes say"


def _moved(job: Job, checked: FileReport) -> Iterator[str]:
    """Yield where the same file one line further down gives other findings."""
    document = job.document
    if document.encoding != "utf-8" or any(
        found.code == INVALID_SYNTAX for found in checked.findings
    ):
        return
    text = _SHIFT + document.text
    lower = replace(document, text=text, data=text.encode("utf-8", "surrogatepass"))
    there = analyse_job(replace(job, document=lower, fix=""))
    ours = Counter(
        (f.code, f.start.row + 1, f.start.column, f.fingerprint, f.severity)
        for f in checked.findings
    )
    theirs = Counter(
        (f.code, f.start.row, f.start.column, f.fingerprint, f.severity) for f in there.findings
    )
    for code in sorted({key[0] for key in (ours - theirs) + (theirs - ours)}):
        yield f"{code}: not the same findings one line further down"


def _after(job: Job, fixed: FileReport) -> Iterator[str]:
    """Yield what is wrong with a fixed text."""
    before, after, document = fixed.before, fixed.after, job.document
    if before != document.text:
        yield "a fix run reports another text than it was given"
    old, new = parsed(before), parsed(after)
    if old is not None and new is None:
        yield "the fixed text does not parse"
    try:
        data = encode(document, after)
        written = decode(data, document.path, document.filename)
        if (written.text, written.encoding, written.bom) != (
            after,
            document.encoding,
            document.bom,
        ):
            yield "the fixed text is not what its bytes say"
    except SourceError:
        yield "the fixed text cannot be written in the file's encoding"
        return
    again = analyse_job(replace(job, document=written, fix=job.fix or "unsafe"))
    if again.before != again.after:
        codes = sorted(_applied_codes(fixed, again))
        yield f"a second fix run changes the text again ({', '.join(codes)})"
    yield from _places(fixed.findings, after)
    if _newlines(before) != _newlines(after) and len(_newlines(before)) == 1:
        yield "the fixed text has other newlines"
    lost = _comments(before) - _comments(after)
    if any(not _PRAGMA.search(comment) for comment in lost):
        yield "a comment is lost"
    if old is not None and new is not None:
        yield from _untouched(old, before, new, after)


def _applied_codes(fixed: FileReport, again: FileReport) -> set[str]:
    """Return the codes of the findings that the first fix run left and the second has not any
    more."""
    left = Counter(found.code for found in fixed.findings) - Counter(
        found.code for found in again.findings
    )
    return set(left)


def _newlines(text: str) -> set[str]:
    return set(re.findall(r"\r\n|\r|\n", text))


def _comments(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                found[token.string.rstrip()] += 1
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def _untouched(old: ast.Module, before: str, new: ast.Module, after: str) -> Iterator[str]:
    """Yield where a statement on lines that are the same in both texts means something else.

    This does not look at the edits, as the engine does, but only at the two texts.
    """
    ours, theirs = LineIndex(before), LineIndex(after)
    lines = [ours.line(row) for row in range(1, len(ours) + 1)]
    others = [theirs.line(row) for row in range(1, len(theirs) + 1)]
    same: dict[int, int] = {}
    for tag, start, end, at, _ in difflib.SequenceMatcher(
        None, lines, others, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            same.update((start + k + 1, at + k + 1) for k in range(end - start))
    there = dict(_statements(new))
    for (first, last, nth), dump in _statements(old):
        rows = [same.get(row) for row in range(first, last + 1)]
        moved = rows[0]
        if moved is None or rows != list(range(moved, moved + len(rows))):
            continue
        if there.get((moved, moved + len(rows) - 1, nth)) != dump:
            yield f"an untouched statement changed: {lines[first - 1].strip()[:60]}"


def _statements(tree: ast.AST) -> list[tuple[tuple[int, int, int], str]]:
    """Return first and last row of each statement, of a block's the header's, its number there, and
    its dump."""
    out = []
    seen: Counter[tuple[int, int]] = Counter()
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        header = copy.copy(node)
        for field in (*_BLOCKS, "decorator_list"):  # a decorator has a line of its own
            if isinstance(getattr(header, field, None), list):
                setattr(header, field, [])
        whole = header.__dict__ == node.__dict__
        nodes = [
            each
            for each in ast.walk(header)
            if hasattr(each, "lineno") and (whole or each is not header)
        ]
        rows = [
            row for each in nodes for row in (each.lineno, getattr(each, "end_lineno", each.lineno))
        ]
        first = min([*rows, getattr(node, "lineno", min(rows, default=1))])
        span = (first, max([*rows, first]))
        out.append(((*span, seen[span]), ast.dump(header)))
        seen[span] += 1
    return out
