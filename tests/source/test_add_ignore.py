"""Suppression comments are put where they count, and nowhere else."""

from __future__ import annotations

import ast

import pytest

from torchlint.base.errors import UsageError
from torchlint.base.finding import INVALID_SYNTAX, UNUSED_SUPPRESSION, Finding, Severity
from torchlint.base.span import Position
from torchlint.source.add_ignore import additions, checked_reason
from torchlint.source.suppress import Suppressions

NAMES = {"TL101": "one", "TL102": "two", "XY900": "plugged"}


def hit(row: int, code: str = "TL101", last: int = 0) -> Finding:
    at = Position(row, 1)
    return Finding(
        code, NAMES.get(code, "x"), "m", Severity.WARNING, "a.py", at, at, row, last or row
    )


def added(text: str, *findings: Finding, noqa: bool = False, reason: str = "") -> str:
    """Return the text with the comments; it means the same, and the findings are silent."""
    made = additions(text, findings, noqa=noqa, reason=reason)
    after = made.apply(text)
    assert made.placed == tuple(found for found in findings if found in made.placed)
    assert made.unplaced == ()
    assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(text))
    found = Suppressions.parse(after).filter(findings, frozenset(NAMES), NAMES, "a.py")
    assert (found.kept, found.unused) == ([], [])
    return after


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("x = 1\n", 1, "x = 1  # I\n"),
        ("x = 1", 1, "x = 1  # I"),
        ("x = 1 \t\ny = 2\n", 1, "x = 1  # I\ny = 2\n"),
        ("x = 1\r\ny = 2\r\n", 2, "x = 1\r\ny = 2  # I\r\n"),
        ("x = 1\ry = 2\r", 1, "x = 1  # I\ry = 2\r"),
        ("if x:\n\ty = 2\n", 2, "if x:\n\ty = 2  # I\n"),
        ("x = 1  # type: ignore\n", 1, "x = 1  # type: ignore  # I\n"),
        ("x = 1; y = 2\n", 1, "x = 1; y = 2  # I\n"),
        ("f(\n    1,\n)\n", 1, "f(\n    1,\n)  # I\n"),
        ("f(\n    1,\n)\n", 2, "f(\n    1,\n)  # I\n"),
        ("x = 1 + \\\n  2\ny = 3\n", 1, "x = 1 + \\\n  2  # I\ny = 3\n"),
        ('f("""a\n# b\n""")\n', 1, 'f("""a\n# b\n""")  # I\n'),
        ('f(x, """a\nb\n""" % 1); g()\n', 2, 'f(x, """a\nb\n""" % 1); g()  # I\n'),
        ("for x in y:\n    z(x)\n", 1, "for x in y:  # I\n    z(x)\n"),
        ("if x: y = 1\nelif z: y = 2\n", 2, "if x: y = 1\nelif z: y = 2  # I\n"),
        ("def f(\n    x=1,\n):\n    pass\n", 2, "def f(\n    x=1,\n):  # I\n    pass\n"),
        ("@d(\n    1,\n)\ndef f():\n    pass\n", 2, "@d(\n    1,\n)  # I\ndef f():\n    pass\n"),
        ("@d\ndef f():\n    pass\n", 2, "@d\ndef f():  # I\n    pass\n"),
        ("x = '\u2028'\ny = 2\n", 2, "x = '\u2028'\ny = 2  # I\n"),
    ],
)
@pytest.mark.parametrize(
    ("noqa", "words"), [(False, "torchlint: ignore[TL101]"), (True, "noqa: TL101")]
)
def test_a_comment_stands_behind_the_statement(
    text: str, row: int, expected: str, noqa: bool, words: str
) -> None:
    assert added(text, hit(row), noqa=noqa) == expected.replace("# I", f"# {words}")


@pytest.mark.parametrize(
    "text",
    ["x = 1  # noqa: E501", "x = 1  # torchlint: ignore", "x = 1  # torchlint: enable[TL102]"],
)
def test_other_remarks_stay(text: str) -> None:
    after = additions(text, [hit(1)]).apply(text)
    assert after == f"{text}  # torchlint: ignore[TL101]"
    assert Suppressions.parse(after).filter([hit(1)], frozenset(NAMES), NAMES, "a.py").kept == []


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("x  # torchlint: ignore[TL101]\n", 1, "x  # torchlint: ignore[TL101, TL102]\n"),
        (
            "x  # torchlint: ignore[ TL101 ] why\n",
            1,
            "x  # torchlint: ignore[ TL101, TL102 ] why\n",
        ),
        ("# torchlint: ignore[one]\nf(\n)\n", 2, "# torchlint: ignore[one, TL102]\nf(\n)\n"),
        (
            "f(  # torchlint: ignore[TL101]\n  1)\n",
            2,
            "f(  # torchlint: ignore[TL101, TL102]\n  1)\n",
        ),
    ],
)
def test_codes_join_a_comment_that_is_there(text: str, row: int, expected: str) -> None:
    made = additions(text, [hit(row, "TL102")], reason="new")
    assert made.apply(text) == expected
    assert (
        Suppressions.parse(expected)
        .filter([hit(row, "TL102")], frozenset(NAMES), NAMES, "a.py")
        .kept
        == []
    )


def test_a_comment_within_a_statement_speaks_of_its_row_only() -> None:
    text = "f(\n  a(),  # torchlint: ignore[TL101]\n  b(),\n)\n"
    expected = "f(\n  a(),  # torchlint: ignore[TL101]\n  b(),\n)  # torchlint: ignore[TL102]\n"
    assert additions(text, [hit(3, "TL102")]).apply(text) == expected


def test_codes_join_a_noqa() -> None:
    text = "x  # noqa: E501 long\n"
    assert (
        additions(text, [hit(1, "XY900"), hit(1)], noqa=True).apply(text)
        == "x  # noqa: E501, TL101, XY900 long\n"
    )


def test_one_comment_for_all_findings_of_a_statement() -> None:
    found = [hit(2, "XY900"), hit(1, "TL102"), hit(1), hit(2)]
    assert added("f(\n  1)\n", *found) == "f(\n  1)  # torchlint: ignore[TL101, TL102, XY900]\n"


def test_decorators_and_header_share_the_comment_above() -> None:
    text = "# torchlint: ignore[TL101]\n@d\ndef f(): pass\n"
    found = [hit(2, "TL102"), hit(3, "XY900"), hit(3, "TL102")]
    expected = text.replace("TL101", "TL101, TL102, XY900")
    assert additions(text, found).apply(text) == expected


def test_a_reason_follows_the_codes() -> None:
    assert added("x\n", hit(1), reason="see #12") == "x  # torchlint: ignore[TL101] see #12\n"
    assert added("x\n", hit(1), reason="see #12", noqa=True) == "x  # noqa: TL101 see #12\n"


@pytest.mark.parametrize(
    "reason", ["a\nb", "a\rb", "\x1b[0m", "# noqa", "a #b", "a # torchlint: disable[TL1]"]
)
def test_a_reason_cannot_be_more_than_one(reason: str) -> None:
    with pytest.raises(UsageError, match="the reason"):
        checked_reason(f"a{reason}a")


def test_a_reason_loses_the_space_around_it() -> None:
    assert checked_reason(" old code, issue #7 ") == "old code, issue #7"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = (\n", hit(1, INVALID_SYNTAX)),
        ("x = 1\n", hit(1, UNUSED_SUPPRESSION)),
        ("x = (\n", hit(1)),
        ("x = 1\n\n", hit(2)),
    ],
)
def test_what_no_comment_can_silence(text: str, found: Finding) -> None:
    made = additions(text, [found])
    assert (made.edits, made.placed, made.unplaced) == ((), (), (found,))


def test_positions_of_the_edit() -> None:
    [edit] = additions("a\nbc \nd\n", [hit(2)]).edits
    assert (edit.span.start, edit.span.end, edit.start, edit.end) == (
        4,
        5,
        Position(2, 3),
        Position(2, 4),
    )
