"""Suppressions that would not work are not written."""

from __future__ import annotations

from torchlint.base.finding import Finding, NoteKind, Severity
from torchlint.base.span import Position
from torchlint.engine.job import Silence
from torchlint.engine.suppress import silenced

AT = Position(1, 1)
FOUND = Finding("TL101", "x", "m", Severity.WARNING, "a.py", AT, AT, 1, 1, fingerprint="f")
OTHER = Finding("TL102", "y", "m", Severity.WARNING, "a.py", AT, AT, 1, 1, fingerprint="g")
WANTED = Silence(frozenset({"f"}))


def test_what_is_wanted_is_silenced() -> None:
    made = silenced("x\n", lambda text: (OTHER,) if "ignore" in text else (FOUND, OTHER), WANTED)
    assert (made.text, made.findings, made.count, made.notes) == ("x  # torchlint: ignore[TL101]\n", (OTHER,), 1, ())


def test_a_comment_that_does_not_help_is_taken_back() -> None:
    for left in ((FOUND, OTHER), (), (OTHER, OTHER)):
        made = silenced("x\n", lambda text, left=left: left if "ignore" in text else (FOUND, OTHER), WANTED)
        assert (made.text, made.findings, made.count) == ("x\n", (FOUND, OTHER), 0)
        assert [note.kind for note in made.notes] == [NoteKind.FAILED]


def test_where_python_cannot_read_the_text_nothing_is_known() -> None:
    made = silenced("x = 1 2\n", lambda text: () if "ignore" in text else (FOUND,), WANTED)
    assert made.text == "x = 1 2\n"
    assert [note.kind for note in made.notes] == [NoteKind.FAILED]
