"""The kit of all reports: places, numbers and lines; pages and drawings are tested where they are
used."""

from __future__ import annotations

import pytest

from torchlint.report.kit import words
from torchlint.report.kit.terminal import aligned, readable, wrapped


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (("a.py", None), "a.py"),
        (("a.py", None, 3), "a.py:3"),
        (("a.py", None, 3, 7), "a.py:3:7"),
        (("a.ipynb", 2, 3), "a.ipynb:cell 2:3"),
        (("a.ipynb", 2), "a.ipynb:cell 2"),
        (("", 2, 3, 7), "cell 2:3:7"),
        (("", None, 3, 7), "3:7"),
    ],
)
def test_a_location_names_what_is_known(
    parts: tuple[str, int | None, int, int], shown: str
) -> None:
    assert words.location(*parts) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 B"),
        (260.0, "260 B"),
        (9_999.0, "9,999 B"),
        (65_536.0, "65.5 kB"),
        (2e15, "2,000 TB"),
    ],
)
def test_a_size_has_a_decimal_unit(value: float, shown: str) -> None:
    assert words.size(value) == shown


def test_a_unit_that_stays_is_said_once() -> None:
    assert words.sizes((260.0, 4.0), "->") == "260 -> 4 B"
    assert words.sizes((65_536.0, 0.0), "->") == "65.5 kB -> 0 B"
    assert words.sizes(None, "->") == words.counts(None, "->") == words.DASH


def test_a_ratio_is_never_shown_as_zero() -> None:
    assert [words.times(value) for value in (0.004, 2.514, 19.94, 388.2)] == [
        "0.004x",
        "2.51x",
        "19.9x",
        "388x",
    ]


def test_columns_stand_under_each_other() -> None:
    assert aligned([("a", "long", ""), ("bcd", "x", "end")]) == ["a    long", "bcd  x     end"]
    assert aligned([]) == []


def test_wrapped_lines_hang_and_leave_a_long_word_whole() -> None:
    assert wrapped("one two three", 10, "  ", "> ") == ["  one two", "  > three"]
    assert wrapped("a " + "x" * 20, 8) == ["a", "x" * 20]
    assert wrapped("", 8) == [""]


def test_a_terminal_is_used_as_far_as_lines_can_be_read() -> None:
    assert [readable(width) for width in (5, 80, 300)] == [20, 80, 120]
