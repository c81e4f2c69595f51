"""Which fixes can be applied together; needs no parser, so that it can be asked where none is loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchlint.base.finding import Edit, Finding

_IMPORT = re.compile(r"\s*import [\w.]+(?: as \w+)?\s*")


def independent(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings whose fixes neither touch each other nor stand inside each other's code."""
    taken: list[Finding] = []
    edits: list[Edit] = []
    for found in findings:
        mine = edits_of([found])
        nested = any(found.start < other.end and other.start < found.end for other in taken)
        if not nested and not any(_touch(edit, other) for edit in mine for other in edits):
            taken.append(found)
            edits.extend(mine)
    return taken


def _touch(one: Edit, other: Edit) -> bool:
    """Say whether two edits meet; the same import from two fixes is written once and does not count."""
    if one.span == other.span and one.text == other.text and _IMPORT.fullmatch(one.text):
        return False
    return one.span.start <= other.span.end and other.span.start <= one.span.end


def edits_of(findings: Sequence[Finding]) -> list[Edit]:
    """Return the edits of these findings' fixes in text order, equal imports once."""
    found = {(edit.span, edit.text): edit for one in findings if one.fix for edit in one.fix.edits}
    return [found[key] for key in sorted(found, key=lambda key: key[0])]
