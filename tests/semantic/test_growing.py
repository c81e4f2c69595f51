"""Answers of several parts that are asked for again while one of them is worked out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from torchlint.semantic.project.callers import Growing


def parts(growing: Growing[int]) -> list[int]:
    """Return all parts, each of which asks for itself and those before it."""

    def begin() -> Iterator[int]:
        for at in range(3):
            known = at < len(growing.known)
            assert [growing.has(at, begin), growing.has(at, begin)] == [known, known]
            assert all(growing.has(before, begin) for before in range(at))
            yield 10 * at

    at = 0
    while growing.has(at, begin):
        at += 1
    return growing.known


def test_who_comes_back_on_the_way_to_a_part_finds_those_before_it() -> None:
    growing: Growing[int] = Growing()
    assert parts(growing) == [0, 10, 20]
    assert parts(growing) == [0, 10, 20]


def test_what_was_let_go_is_begun_anew() -> None:
    growing: Growing[int] = Growing()
    assert growing.has(0, lambda: iter([0, 10, 20]))
    growing.rest()
    assert parts(growing) == [0, 10, 20]


@pytest.mark.parametrize("length", range(3))
def test_parts_end_where_none_comes_back(length: int) -> None:
    growing: Growing[int] = Growing()
    found = [growing.has(at, lambda: iter(range(length))) for at in range(length + 1)]
    assert found == [True] * length + [False]
    assert growing.known == [*range(length)]
