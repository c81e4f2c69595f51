"""``--add-ignore`` for one file: comments that silence some of its findings, checked before anybody sees them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torchlint.base.finding import Finding, Note, NoteKind
from torchlint.base.span import Position
from torchlint.engine.job import Silence
from torchlint.source.add_ignore import additions
from torchlint.source.python import parsed

Check = Callable[[str], tuple[Finding, ...]]


@dataclass(frozen=True, slots=True)
class Silenced:
    """What came of one file: its new text, the findings that are left, how many are silent, and what went wrong."""

    text: str
    findings: tuple[Finding, ...]
    count: int
    notes: tuple[Note, ...] = ()


def silenced(text: str, check: Check, silence: Silence) -> Silenced:
    """Write comments for the findings that are wanted silent.

    The result is checked: it is the same program, the findings are silent, and no other finding came or went. Where
    that does not hold, nothing is done, and a note says so.

    Args:
        text: the decoded text; of a notebook, its cells as one.
        check: analyses a text and returns its findings.
        silence: what to silence, and how.
    """
    before = check(text)
    wanted = [finding for finding in before if finding.fingerprint in silence.fingerprints]
    made = additions(text, wanted, noqa=silence.noqa, reason=silence.reason)
    if not made.placed:
        return Silenced(text, before, 0)
    after = made.apply(text)
    left = check(after)
    same = Counter(map(_place, before)) - Counter(map(_place, made.placed)) == Counter(map(_place, left))
    if same and _is_same_program(text, after):
        return Silenced(after, left, len(made.placed))
    first = made.placed[0]
    words = "the suppressions that were made do not work, so none is written; please report this"
    return Silenced(text, before, 0, (Note(NoteKind.FAILED, first.filename, words, first.start.row),))


def _place(finding: Finding) -> tuple[str, Position, str]:
    return finding.code, finding.start, finding.message


def _is_same_program(before: str, after: str) -> bool:
    """Say whether two texts mean the same to Python; where it is too old to read them, nothing is known."""
    old, new = parsed(before), parsed(after)
    return old is not None and new is not None and ast.dump(old) == ast.dump(new)
