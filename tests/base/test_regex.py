"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from torchlint.base.regex import LatePattern, regex


def compiled(pattern: object) -> bool:
    return "search" in vars(pattern)


@pytest.mark.parametrize("how", ["search", "match", "fullmatch", "findall", "split"])
def test_it_finds_what_the_pattern_finds(how: str) -> None:
    late, early = regex(r"(\d)+x", re.IGNORECASE), re.compile(r"(\d)+x", re.IGNORECASE)
    assert not compiled(late)
    for text in ("a12X", "12X", "12X a", "x"):
        one, other = getattr(late, how)(text), getattr(early, how)(text)
        assert str(one) == str(other)
    assert compiled(late)


def test_it_replaces_and_iterates_as_the_pattern_does() -> None:
    late = regex(rb"[ab]")
    assert late.sub(b"-", b"xaby") == b"x--y"
    assert [found[0] for found in late.finditer(b"xaby")] == [b"a", b"b"]
    assert late.subn(b"", b"xaby") == (b"xy", 2)


def test_it_has_the_text_flags_and_groups_of_the_pattern() -> None:
    late, early = regex("(?P<name>a)", re.MULTILINE), re.compile("(?P<name>a)", re.MULTILINE)
    assert late.pattern == early.pattern
    assert not compiled(late)
    assert (late.flags, late.groups, late.groupindex) == (
        early.flags,
        early.groups,
        early.groupindex,
    )


def test_what_a_pattern_has_not_it_has_not() -> None:
    late = regex("a")
    with pytest.raises(AttributeError):
        late.serach  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError):
        late.__length_hint__  # type: ignore[attr-defined]  # noqa: B018


def test_a_wrong_pattern_raises_at_its_first_use() -> None:
    late = regex("(")
    assert isinstance(late, LatePattern)
    with pytest.raises(re.error):
        late.search("")
