from __future__ import annotations

import pytest

from torchlint.report.kit.terminal import LONGEST, clip, shown_line
from torchlint.report.kit.words import pluralise, visible, visible_path


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x00", r"\x00"),
        ("\x07", r"\x07"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\n", r"\n"),
        ("\r", r"\r"),
        ("\x7f", r"\x7f"),
        ("\x85", r"\x85"),
        ("\x9b", r"\x9b"),
        ("\u061c", r"\u061c"),
        ("\u200e\u200f", r"\u200e\u200f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\u202a\u202e", r"\u202a\u202e"),
        ("\u2066\u2069", r"\u2066\u2069"),
        ("\udcff", r"\udcff"),
        ("\ud800", r"\ud800"),
    ],
)
def test_controls_are_spelled_out(raw: str, shown: str) -> None:
    assert visible(f"a{raw}b") == f"a{shown}b"


@pytest.mark.parametrize("text", ["tab\there", "straße 漢字 😀", "back\\slash", "\xa0"])
def test_ordinary_text_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("::error::x.py", "./::error::x.py"),
        ("  ::error::x.py", "./  ::error::x.py"),
        ("a::b.py", "a::b.py"),
        ("new\nline.py", r"new\nline.py"),
    ],
)
def test_file_name_never_starts_a_command(name: str, shown: str) -> None:
    assert visible_path(name) == shown


@pytest.mark.parametrize(
    ("count", "word", "words"),
    [(0, "file", "0 files"), (1, "fix", "1 fix"), (2, "fix", "2 fixes"), (2, "info", "2 infos")],
)
def test_pluralise(count: int, word: str, words: str) -> None:
    assert pluralise(count, word) == words


@pytest.mark.parametrize(
    ("source", "text", "columns"),
    [
        ("ab", "ab", (0, 1, 2)),
        ("\tx", "    x", (0, 4, 5)),
        ("a\tx", "a   x", (0, 1, 4, 5)),
        ("漢x", "漢x", (0, 2, 3)),
        ("e\u0301x", "e\u0301x", (0, 1, 1, 2)),
        ("\x1bx", r"\x1bx", (0, 4, 5)),
        ("", "", (0,)),
    ],
)
def test_columns_of_a_shown_line(source: str, text: str, columns: tuple[int, ...]) -> None:
    line = shown_line(source)
    assert (line.text, tuple(line.columns)) == (text, columns)


def test_short_line_is_not_cut() -> None:
    assert clip("x" * LONGEST, 5) == ("x" * LONGEST, 0)


@pytest.mark.parametrize("column", [1, 100, 5_000, 10_000])
def test_long_line_is_cut_around_the_column(column: int) -> None:
    source = "a" * (column - 1) + "B" + "c" * (10_000 - column)
    text, cut = clip(source, column)
    assert LONGEST <= len(text) <= LONGEST + 6
    assert text[column - 1 - cut] == "B"
    assert text.startswith("...") == (column >= 100)
    assert text.endswith("...") == (column < 10_000)
