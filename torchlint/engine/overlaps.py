"""Which fixes can be applied together; needs no parser, so that it can be asked where none is
loaded."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

from torchlint.base.finding import AppliedFix, Edit, Finding
from torchlint.base.regex import regex
from torchlint.base.span import Position, Span

_BREAKS = ("\n", "\r")
_NEWLINE = regex(r"\r\n|\r|\n")
_IMPORT = regex(r"\s*import [\w.]+(?: as \w+)?\s*")


def independent(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings whose fixes neither touch each other nor stand inside each other's
    code."""
    taken: list[Finding] = []
    places: list[
        tuple[Position, Position]
    ] = []  # sorted, as `edits` are: what is taken does not overlap
    edits: list[Edit] = []
    known: set[tuple[Span, str]] = set()
    for found in findings:
        mine = edits_of([found])
        at = bisect_right(places, found.start, key=lambda place: place[1])
        nested = at < len(places) and places[at][0] < found.end
        if not nested and not any(_touches_one_of(edit, edits) for edit in mine):
            taken.append(found)
            insort(places, (found.start, found.end))
            for edit in mine:
                if (edit.span, edit.text) not in known:
                    known.add((edit.span, edit.text))
                    insort(edits, edit, key=lambda other: other.span)
    return taken


def _touches_one_of(edit: Edit, edits: Sequence[Edit]) -> bool:
    at = bisect_left(edits, edit.span.start, key=lambda other: other.span.end)
    while at < len(edits) and edits[at].span.start <= edit.span.end:
        if touch(edit, edits[at]):
            return True
        at += 1
    return False


def touch(one: Edit, other: Edit) -> bool:
    """Say whether two edits meet; the same import from two fixes is written once and does not
    count, nor do lines that two fixes put before or behind one statement: they stand in the order
    of the findings. A line that is put behind one of which the other changes the end does not count
    either."""
    if one.span == other.span and one.text == other.text and _IMPORT.fullmatch(one.text):
        return False
    if one.span == other.span and one.span.start == one.span.end and one.text != other.text:
        behind = one.text.startswith(_BREAKS) and other.text.startswith(_BREAKS)
        return not behind and not _bind_apart(one.text, other.text)
    if _is_line_behind(one, other) or _is_line_behind(other, one):
        return False
    return one.span.start <= other.span.end and other.span.start <= one.span.end


def _bind_apart(one: str, other: str) -> bool:
    """Say whether two texts are lines that bind names of their own: ``x_host = x.cpu()``."""
    lines = [each.partition(" = ")[0].strip() for each in (one, other) if each.endswith("\n")]
    return len({name for name in lines if name.isidentifier()}) == len((one, other))


def _is_line_behind(new: Edit, changed: Edit) -> bool:
    line = new.span.start == new.span.end and new.text.startswith(_BREAKS)
    return line and changed.span.start < changed.span.end == new.span.start


def spliced(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits that do not meet, given in text order."""
    parts: list[str] = []
    at = 0
    for edit in edits:
        parts += (text[at : edit.span.start], edit.text)
        at = edit.span.end
    return "".join((*parts, text[at:]))


def rows_before(before: str, now: str) -> Callable[[int], int]:
    """Return what gives, for a row of a text, the row of the text that it was made from."""
    if before == now:
        return lambda row: row
    import difflib  # most fixes are applied to the text as it was read

    old, new = _NEWLINE.split(before), _NEWLINE.split(now)
    parts = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()

    def of(row: int) -> int:
        _, low, high, start, _ = next(part for part in parts if row <= part[4])
        return min(low + row - start, max(high, low + 1))

    return of


def as_applied(
    found: Finding, edits: Iterable[Edit], row_before: Callable[[int], int]
) -> AppliedFix:
    """Return what to tell of a finding's fix whose `edits` were applied to a text."""
    assert found.fix is not None
    rows = tuple(row_before(edit.start.row) for edit in edits)
    row = row_before(found.start.row)
    fix = found.fix
    return AppliedFix(found.code, fix.safety, fix.note, row, rows, found.cell, fix.assumes)


def edits_of(findings: Sequence[Finding]) -> list[Edit]:
    """Return the edits of these findings' fixes in text order, equal imports once."""
    found = {(edit.span, edit.text): edit for one in findings if one.fix for edit in one.fix.edits}
    return [found[key] for key in sorted(found, key=lambda key: key[0])]
