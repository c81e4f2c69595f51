"""Comments and the rows they speak of."""

from __future__ import annotations

import pytest

from torchlint.base.span import LineIndex
from torchlint.source.comments import Comment, comments


def rows(text: str) -> list[tuple[str, int, int, int]]:
    return [
        (comment.text, comment.row, comment.first, comment.last)
        for comment in comments(LineIndex(text))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1  # a\n", [("# a", 1, 1, 1)]),
        ("f(  # a\n  1,  # b\n)  # c\n", [("# a", 1, 1, 3), ("# b", 2, 2, 2), ("# c", 3, 1, 3)]),
        ("# a\n\n# b\nf(\n)\n", [("# a", 1, 4, 5), ("# b", 3, 4, 5)]),
        ("f(\n  # a\n\n  1,\n  # b\n)\n", [("# a", 2, 4, 4), ("# b", 5, 6, 6)]),
        (
            "# a\n@d(\n1)\n# b\n@e\ndef f(\n): # c\n  pass\n",
            [("# a", 1, 2, 7), ("# b", 4, 2, 7), ("# c", 7, 6, 7)],
        ),
        ("# a\nx = 1\n# b\n@d\nclass C: pass\n", [("# a", 1, 2, 2), ("# b", 3, 4, 5)]),
        ("@d  # a\ndef f(): pass\nx  # b\n", [("# a", 1, 1, 1), ("# b", 3, 3, 3)]),
        ("if x:  # a\n  y\n  # b\nz\n", [("# a", 1, 1, 1), ("# b", 3, 4, 4)]),
        ("# a\n@d\n", [("# a", 1, 1, 1)]),
        ("x\n# a", [("# a", 2, 2, 2)]),
        ("x = '''\n# no\n'''  # a\n", [("# a", 3, 1, 3)]),
        ("x = \\\n  1  # a\n", [("# a", 2, 1, 2)]),
        ("x\r# a\r\ry  # b\r", [("# a", 2, 4, 4), ("# b", 4, 4, 4)]),
        ("x = '\u2028'  # a\r\ny  # b\r\n", [("# a", 1, 1, 1), ("# b", 2, 2, 2)]),
        ("\x0cx  # a\n\x0c\ny  # é\n", [("# a", 1, 1, 1), ("# é", 3, 3, 3)]),
        ("", []),
    ],
)
def test_rows(text: str, expected: list[tuple[str, int, int, int]]) -> None:
    assert rows(text) == expected


def test_offsets_point_at_the_comment() -> None:
    text = "é = '🔥'  # a\r\n\t# b\rx  # c"
    assert [
        text[comment.start :].startswith(comment.text) for comment in comments(LineIndex(text))
    ] == [True] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(\nx = '# no'  # a\n", ["# a"]),
        ("(\nx = '''\n# no\n'''  # a\n", ["# a"]),
        ('(\nx = """\n\'\'\' # no \\""" # no\n""" # a\n', ["# a"]),
        ("(\nx = '\\'# no'  # a\n", ["# a"]),
        ("(\nx = 'open # no\ny  # a\n", ["# a"]),
        ("(\nx = 'on \\\n # no'\ny  # a\n", ["# a"]),
        ("(\nx = f'{y['# no']}'\ny  # a\n", ["# a"]),
        ("(\n  # a\n", ["# a"]),
        ("(\nx = 'on \\\n # no \\\n'\ny  # a\n", ["# a"]),
    ],
)
def test_the_plain_scan_stays_out_of_strings(text: str, expected: list[str]) -> None:
    found = comments(LineIndex(text))
    assert [comment.text for comment in found] == expected
    assert all(
        comment.guessed and comment.first == comment.last == comment.row for comment in found
    )


def test_the_plain_scan_knows_what_stands_alone() -> None:
    assert comments(LineIndex("(\n # a\nx # b")) == [
        Comment("# a", 3, 2, True, 2, 2, guessed=True),
        Comment("# b", 9, 3, False, 3, 3, guessed=True),
    ]


@pytest.mark.cpu(60)
@pytest.mark.parametrize(
    "text", ["(" * 5000, "x\0# a", "\tx\n  y # a", "if x:\n\ty\n    z", "'''", "f'{", "\\", "$ # a"]
)
def test_never_raises(text: str) -> None:
    assert isinstance(comments(LineIndex(text)), list)
