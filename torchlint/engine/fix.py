"""Fixes into text, round by round to a fixed point.

Each round applies fixes that do not touch each other, and checks that the result still parses and
that no statement changed which no edit touched. A fix that breaks the file, or a set of fixes that
never comes to rest, is taken back and reported as our bug.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torchlint.base.finding import (
    AppliedFix,
    Edit,
    Finding,
    Note,
    NoteKind,
    Safety,
    TextFix,
    codes_of,
    fewer,
)
from torchlint.base.span import LineIndex
from torchlint.edits.validation import Validator
from torchlint.edits.wrapping import width
from torchlint.engine.checked import Changed, Check, Checked
from torchlint.engine.overlaps import (
    as_applied,
    edits_of,
    independent,
    rows_before,
    spliced,
    touch,
)

MAX_ROUNDS = 10
_PATIENT_ROUNDS = 4


@dataclass(slots=True)
class _Run:
    """The state of one call of `fixed`."""

    allowed: Callable[[TextFix], bool]
    verdict: Validator
    encoding: str
    limit: int
    text: str
    edits: int = 0
    unsafe: int = 0
    applied: list[Finding] = field(default_factory=list)
    fixes: list[AppliedFix] = field(default_factory=list)
    refused: set[tuple[str, ...]] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)

    def fixable(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings whose fix may be applied, outer before inner, else in text order."""
        usable = [found for found in findings if self._reason(found) == ""]
        return sorted(
            usable, key=lambda found: (found.start, (-found.end.row, -found.end.column), found.code)
        )

    def _reason(self, found: Finding) -> str | None:
        """Return why a fix is not applied: "" if it is, None where there is nothing to say about
        it."""
        if (
            found.fix is None
            or not found.fix.edits
            or found.fix.elsewhere
            or not self.allowed(found.fix)
            or _key(found) in self.refused
        ):
            return None
        if found.fix.withheld:
            return found.fix.withheld
        try:
            "".join(edit.text for edit in found.fix.edits).encode(self.encoding)
        except UnicodeEncodeError:
            return f"its text cannot be written in {self.encoding}"
        return ""

    def withheld(self, findings: Sequence[Finding]) -> list[Note]:
        """Return a note for each fix that is allowed but not applied."""
        return [
            Note(
                NoteKind.WITHHELD,
                found.filename,
                f"{found.code}: fix not applied, {reason}",
                found.start.row,
            )
            for found in findings
            if (reason := self._reason(found))
        ]

    def joint(self, first: Checked) -> tuple[Finding, ...]:
        """Return the findings of a text whose fix may be applied, and changes other files too."""
        return tuple(
            found
            for found in first.findings
            if found.fix is not None
            and found.fix.elsewhere
            and self.allowed(found.fix)
            and self.verdict.holds(
                first.text, found.fix.edits, spliced(first.text, found.fix.edits)
            )
        )

    def checked_less(self) -> list[Note]:
        """Return a note where fixes were applied that this Python could not check."""
        if not self.applied or self.verdict.by_python:
            return []
        version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        words = f"{version} cannot parse it, so that libcst alone checked the fixes"
        return [Note(NoteKind.CHECKED_LESS, "", words)]

    def round(self, text: str, findings: Sequence[Finding], patient: bool) -> str:
        """Return `text` with this round's fixes; those that break it alone are refused from now on.

        Args:
            text: what is fixed.
            findings: in it.
            patient: whether of fixes that only together make a line too long, one waits for the
                next round, in which it is wrapped.
        """
        chosen = independent(self.fixable(findings))
        if patient and self.limit:
            chosen = _one_a_row(text, chosen, self.limit)
        kept = self._sound(text, [], chosen)
        taken = set(map(id, kept))
        for found in chosen:
            if id(found) not in taken and not self._verdict_holds(text, [found]):
                self.refused.add(_key(found))
                self.notes.append(_bug(found, "its fix would break the file; please report this"))
        self.applied += kept
        row_before = rows_before(self.text, text)
        self.fixes += (as_applied(found, edits_of([found]), row_before) for found in kept)
        edits = _imports(kept)
        after = spliced(text, edits)
        if len(edits) > len(edits_of(kept)) and not self.verdict.holds(text, edits, after):
            edits = edits_of(kept)
            after = spliced(text, edits)
        self.edits += len(edits)
        unsafe = [each for each in kept if each.fix and each.fix.safety is not Safety.SAFE]
        self.unsafe += len(edits_of(unsafe))
        return after

    def _sound(self, text: str, kept: list[Finding], more: list[Finding]) -> list[Finding]:
        """Return `kept` with those of `more` that can be added, by halving."""
        if not more or self._verdict_holds(text, kept + more):
            return kept + more
        if len(more) == 1:
            return kept
        middle = len(more) // 2
        return self._sound(text, self._sound(text, kept, more[:middle]), more[middle:])

    def _verdict_holds(self, text: str, chosen: list[Finding]) -> bool:
        return self.verdict.holds(text, edits_of(chosen), spliced(text, edits_of(chosen)))


def fixed(
    text: str,
    check: Check,
    allowed: Callable[[TextFix], bool],
    encoding: str = "utf-8",
    line_length: int = 0,
) -> Changed:
    """Apply fixes until none is left.

    Args:
        text: the decoded text.
        check: analyses a text.
        allowed: whether a fix may be applied (its safety).
        encoding: the file's codec; a fix whose text it cannot hold is withheld.
        line_length: how wide fixes may make a line; 0 for no limit.
    """
    run = _Run(allowed, Validator(text), encoding, line_length, text)
    now = first = check(text)
    could = len(run.fixable(first.findings)) + len(run.joint(first))
    for number in range(MAX_ROUNDS):
        if not run.fixable(now.findings):
            break
        after = run.round(now.text, now.findings, patient=number < _PATIENT_ROUNDS)
        if after != now.text:
            now = check(after)
    left = run.fixable(now.findings)
    if left:
        bugs = [
            _bug(found, "its fixes do not come to rest; please report this")
            for found in _one_per_code(left)
        ]
        return Changed(first, notes=(*run.notes, *bugs), joint=run.joint(first))
    had = codes_of(first.findings) if now.text != first.text else ()
    return Changed(
        now,
        fewer(had, now.findings),
        (*run.notes, *run.withheld(now.findings), *run.checked_less()),
        run.joint(first),
        run.edits,
        run.unsafe,
        had,
        tuple(run.fixes),
        could,
    )


def _one_a_row(text: str, chosen: Sequence[Finding], limit: int) -> list[Finding]:
    """Return the findings without those whose fixes make a line too long together with an earlier
    one's."""
    lines = LineIndex(text)
    widths: dict[int, int] = {}
    kept = []
    for found in chosen:
        longer: dict[int, int] = {}
        for edit in found.fix.edits if found.fix is not None else ():
            if "\n" not in edit.text:
                row = edit.start.row
                longer[row] = longer.get(row, 0) + len(edit.text)
        had = {row: width(lines.line(row)) for row in longer}
        crowded = any(
            had[row] <= limit < widths[row] + more for row, more in longer.items() if row in widths
        )
        if not crowded:
            kept.append(found)
            for row, more in longer.items():
                widths[row] = widths.get(row, had[row]) + more
    return kept


def _imports(kept: Sequence[Finding]) -> list[Edit]:
    """Return the edits that take away the imports of which fixes take all uses away together, as
    far as they touch no others."""
    edits = edits_of(kept)
    every = [each for found in kept for each in (found.fix.uses if found.fix is not None else ())]
    for name in dict.fromkeys(each.name for each in every):
        taking = [each for each in every if each.name == name]
        gone = {place for each in taking for place in each.gone}
        more = taking[0].edits
        if len(gone) == taking[0].every and not any(touch(a, b) for a in more for b in edits):
            edits = sorted((*edits, *more), key=lambda edit: edit.span)
    return edits


def _bug(found: Finding, words: str) -> Note:
    return Note(
        NoteKind.FAILED,
        found.filename,
        f"{found.code} in line {found.start.row}: {words}",
        found.start.row,
    )


def _one_per_code(findings: Sequence[Finding]) -> list[Finding]:
    return list({found.code: found for found in reversed(findings)}.values())[::-1]


def _key(found: Finding) -> tuple[str, ...]:
    """Return what makes a fix the same one in a later round, whatever its place."""
    texts = tuple(edit.text for edit in found.fix.edits) if found.fix else ()
    return (found.code, found.fingerprint, found.message, *texts)
