"""What a fix says of its safety: the notes of several causes in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torchlint.base.finding import Safety
from torchlint.fixes.fix import Fix, NodeEdit


def one_sentence(notes: Iterable[str]) -> str:
    """Return one sentence that says what all notes say: the note of a fix that several things make
    unsafe."""
    parts = [note.removesuffix(".") for note in dict.fromkeys(notes) if note]
    return "; ".join([*parts[:1], *map(_inside, parts[1:])]) + "." if parts else ""


def _inside(sentence: str) -> str:
    """Return a sentence as it goes on behind a semicolon: names keep their capitals."""
    first = sentence.partition(" ")[0]
    plain = first[1:].islower() or len(first) == 1
    return sentence[0].lower() + sentence[1:] if plain and first.isalpha() else sentence


_NONE: Mapping[str, str] = {}


def safe_unless(
    notes: Iterable[str],
    edits: Iterable[NodeEdit],
    title: str,
    assumes: Mapping[str, str] = _NONE,
    *,
    logs_every_n: bool = False,
) -> Fix:
    """Return a fix that is safe unless a note says what may change; see `Fix`."""
    note = one_sentence(notes)
    safety = Safety.UNSAFE if note else Safety.SAFE
    return Fix(tuple(edits), safety, title, note, assumes=assumes, logs_every_n=logs_every_n)
