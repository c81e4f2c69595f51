"""Glob patterns: against pathspec on benign ones, and in bounded time on hostile ones."""

from __future__ import annotations

import pathspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlint.source.globs import GlobList, bad_globs, matches

NAME = st.text("ab.", min_size=1, max_size=4).filter(lambda name: name.strip("."))
SEGMENT = st.one_of(
    NAME,
    st.text("ab.*?", min_size=1, max_size=4),
    st.sampled_from(["**", "[ab]", "[!a]b", "[a-b]*"]),
)
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)


def benign(pattern: str) -> bool:
    """Leave out what torchlint calls bad, and what pathspec and git read differently."""
    only_stars = set(pattern.replace("/", "")) <= {"*"}
    return not bad_globs([pattern]) and not only_stars and not pattern.endswith("**/")


PATTERN = st.builds(
    lambda start, segments, end: start + "/".join(segments) + end,
    st.sampled_from(["", "/"]),
    st.lists(SEGMENT, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
).filter(benign)


@given(pattern=PATTERN, path=PATH)
def test_agrees_with_pathspec(pattern: str, path: str) -> None:
    spec = pathspec.GitIgnoreSpec.from_lines([pattern])
    assert matches(path, [pattern]) is spec.match_file(path)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a/b/c.py", True),
        ("build", "a/build/c.py", True),
        ("build", "a/builds/c.py", False),
        ("/build", "a/build/c.py", False),
        ("tests/*", "tests/a/b.py", True),
        ("tests/*", "x/tests/a.py", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**", "a", False),
        ("a/**", "a/b", True),
        ("**/x/y", "x/y", True),
        ("gen/", "gen/a.py", True),
        ("gen/", "gen", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[[:digit:]]x", "7x", True),
        ("[[:digit:]]x", "ax", False),
        ("[!a]", "a", False),
        ("[^a]", "b", True),
        ("[]]", "]", True),
        ("[a-]", "-", True),
        ("a/**/**/b", "a/x/b", True),
        ("a**c", "abc", True),
        ("[a\\]]", "]", True),
        ("\\#x", "#x", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("x ", "x", True),
        ("x\\ ", "x ", True),
        ("x\\  ", "x ", True),
        ("[[:punct:]]", "[", True),
        ("[&&~~||]", "~", True),
    ],
)
def test_pattern(pattern: str, path: str, expected: bool) -> None:
    assert matches(path, [pattern]) is expected


def test_last_match_counts() -> None:
    assert matches("keep.py", ["*.py"])
    assert not matches("keep.py", ["*.py", "!keep.py"])
    assert matches("keep.py", ["*.py", "!keep.py", "keep*"])


def test_taking_back_does_not_reach_into_an_excluded_directory() -> None:
    assert matches("gen/keep.py", ["gen/", "!keep.py"])


def test_comments_and_blank_lines_are_no_patterns() -> None:
    assert GlobList.parse(["", "# x", "   "]) == GlobList((), ())


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("[a-", "closed"),
        ("[", "closed"),
        ("[a-\\]]", "backwards"),
        ("x\\", "backslash"),
        ("a//b", "empty segment"),
        ("/", "names nothing"),
        ("./a", "segment '.'"),
        ("[[:nope:]]", "no class"),
    ],
)
def test_bad_patterns_are_named(pattern: str, word: str) -> None:
    [(named, reason)] = bad_globs([pattern])
    assert named == pattern
    assert word in reason
    assert not matches("a", [pattern])


@pytest.mark.cpu(20)
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 20, "a" * 254 + "b"),
        ("*a*a*a/" * 6 + "x", "/".join(["a" * 200] * 6) + "/y"),
        ("**/a/" * 12 + "b", "/".join(["a"] * 1500)),
        ("*" * 10_000 + "b", "a" * 255),
        ("[a-z]*" * 100 + "!", "a" * 255),
        (" " * 300_000 + "x", "x"),
    ],
)
def test_hostile_patterns_end(pattern: str, path: str) -> None:
    assert not matches(path, [pattern])
