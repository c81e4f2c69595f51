"""Writes the comments that switch rules off for single findings: ``# torchlint: ignore[TL101]`` or
``# noqa: TL101``.

A comment goes behind the last row of the finding's statement (of a compound one: of its header).
There it can be neither inside a string nor behind a backslash, and it speaks of the whole
statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchlint.base.errors import UsageError
from torchlint.base.finding import ENGINE_CODES, Edit, Finding
from torchlint.base.records import frozen
from torchlint.base.span import LineIndex, Span
from torchlint.source.comments import logical_lines
from torchlint.source.pragma import IGNORE, NOQA, Pragma
from torchlint.source.suppress import Suppressions

_Rows = tuple[int, int]


@frozen
class Additions:
    """What would silence findings.

    Args:
        edits: insertions, in order, at most one for a statement.
        placed: the findings that they silence.
        unplaced: those that no comment can silence: syntax errors, unused suppressions, and what
            stands where this Python cannot tell statements apart.
    """

    edits: tuple[Edit, ...]
    placed: tuple[Finding, ...]
    unplaced: tuple[Finding, ...]

    def apply(self, text: str) -> str:
        """Return the text that the additions were made for, with them."""
        parts: list[str] = []
        at = 0
        for edit in self.edits:
            parts += (text[at : edit.span.start], edit.text)
            at = edit.span.end
        return "".join((*parts, text[at:]))


def additions(
    text: str, findings: Iterable[Finding], *, noqa: bool = False, reason: str = ""
) -> Additions:
    """Return the comments that silence findings.

    Codes are added to a comment of the kind that speaks of the statement already.

    Args:
        text: the decoded text of the file.
        findings: of this text, none of them silenced yet.
        noqa: whether to write ``# noqa: TL101`` in place of ``# torchlint: ignore[TL101]``.
        reason: what a new comment says behind its codes; see `checked_reason`.
    """
    known = Suppressions.parse(text)
    by_row = {
        row: rows for rows in logical_lines(known.index) for row in range(rows[0], rows[1] + 1)
    }
    verb = NOQA if noqa else IGNORE
    groups: dict[_Rows | Pragma, list[Finding]] = {}
    unplaced = []
    for finding in findings:
        rows = by_row.get(finding.start.row)
        if rows is None or finding.code in ENGINE_CODES:
            unplaced.append(finding)
        else:
            groups.setdefault(_existing_comment(known, rows, verb) or rows, []).append(finding)
    edits = []
    for place, group in groups.items():
        codes = sorted({finding.code for finding in group})
        if isinstance(place, Pragma):
            edits.append(_merged(known.index, place, codes))
        else:
            edits.append(_new_comment(known.index, place[1], verb, codes, reason))
    placed = tuple(finding for group in groups.values() for finding in group)
    return Additions(tuple(sorted(edits, key=lambda edit: edit.span)), placed, tuple(unplaced))


def checked_reason(reason: str) -> str:
    """Return a reason without white space at its ends.

    Raises:
        UsageError: it would end the comment, or could be read as another one.
    """
    reason = reason.strip()
    if not reason.isprintable():
        raise UsageError(f"the reason {reason[:60]!r} must be one line of printable characters")
    if any(not after[:1].isdigit() for after in reason.split("#")[1:]):
        raise UsageError(
            f"the reason {reason[:60]!r} must not hold a '#' but before a number, as it starts a "
            "comment"
        )
    return reason


def _existing_comment(known: Suppressions, rows: _Rows, verb: str) -> Pragma | None:
    """Return a comment of the kind, with codes, that speaks of all these rows."""
    for key in known.rows.get(rows[0], ()):
        if key[0] <= rows[0] and rows[1] <= key[1]:
            for pragma in known.by_rows[key]:
                if pragma.verb == verb and pragma.entries:
                    return pragma
    return None


def _merged(index: LineIndex, pragma: Pragma, codes: Sequence[str]) -> Edit:
    end = pragma.entries[-1].span.end
    return _insertion(index, end, end, "".join(f", {code}" for code in codes))


def _new_comment(index: LineIndex, row: int, verb: str, codes: Sequence[str], reason: str) -> Edit:
    listed = ", ".join(codes)
    words = f"# noqa: {listed}" if verb == NOQA else f"# torchlint: {IGNORE}[{listed}]"
    end = index.line_end(row)
    code_end = index.starts[row - 1] + len(index.line(row).rstrip(" \t\f"))
    return _insertion(index, code_end, end, f"  {words}{' ' * bool(reason)}{reason}")


def _insertion(index: LineIndex, start: int, end: int, text: str) -> Edit:
    return Edit(Span(start, end), text, index.position(start), index.position(end))
