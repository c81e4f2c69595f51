"""``--add-ignore`` for one file: comments that silence some of its findings, checked before anybody
sees them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

from torchlint.base.finding import Finding, Note, NoteKind
from torchlint.base.span import Position
from torchlint.engine.checked import Changed, Check
from torchlint.engine.job import Silence
from torchlint.source.add_ignore import additions
from torchlint.source.python import parsed


def silenced(text: str, check: Check, silence: Silence) -> Changed:
    """Write comments for the findings that are wanted silent.

    The result is checked: it is the same program, the findings are silent, and no other finding
    came or went. Where that does not hold, nothing is done, and a note says so.

    Args:
        text: the decoded text; of a notebook, its cells as one.
        check: analyses a text.
        silence: what to silence, and how.
    """
    before = check(text)
    wanted = [finding for finding in before.findings if finding.fingerprint in silence.fingerprints]
    made = additions(text, wanted, noqa=silence.noqa, reason=silence.reason)
    if not made.placed:
        return Changed(before)
    after = check(made.apply(text))
    same = _places(before.findings) - _places(made.placed) == _places(after.findings)
    if same and _is_same_program(text, after.text):
        return Changed(after, len(made.placed))
    first = made.placed[0]
    words = "the suppressions that were made do not work, so none is written; please report this"
    return Changed(before, notes=(Note(NoteKind.FAILED, first.filename, words, first.start.row),))


def _places(findings: Iterable[Finding]) -> Counter[tuple[str, Position, str]]:
    return Counter((finding.code, finding.start, finding.message) for finding in findings)


def _is_same_program(before: str, after: str) -> bool:
    """Say whether two texts mean the same to Python; where it is too old to read them, nothing is
    known."""
    old, new = parsed(before), parsed(after)
    return old is not None and new is not None and ast.dump(old) == ast.dump(new)
