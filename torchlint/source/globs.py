"""Glob patterns as in ``.gitignore``, matched in time that no pattern can blow up.

Regular expressions made from globs backtrack: eight stars against a 60-character name hang Python's
`re`, and so does a handful of stars spread over several path segments. Here a segment is matched
with two pointers, which takes at most ``len(name) * len(pattern)`` steps, and the segments of a
path in the same way.

Patterns follow git: a pattern without a slash (but for one at its end) matches a name at any depth,
any other is anchored; ``*``, ``?`` and ``[...]`` stay inside a segment, a segment ``**`` stands for
any number of them; a trailing slash asks for a directory; ``!`` takes a match back; of several
matching patterns the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from torchlint.base.records import frozen
from torchlint.base.regex import regex

_STAR = None
Token = Callable[[str], bool] | str | None
"""One step of a segment: a character, a test for a character, or None for ``*``."""
Segment = tuple[Token, ...]

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_CLASS = regex(r"\[:([^\]]*):\]")


class _BadGlobError(ValueError):
    """A pattern that can match nothing: an open bracket, a lone backslash at the end, a reversed
    range."""


def _matches_any(_: str) -> bool:
    return True


def _bracket(body: str, at: int) -> tuple[Token, int]:
    """Read the bracket expression that opens before `at`; return its test and the index behind
    ``]``."""
    negated = body[at : at + 1] in ("!", "^")
    at += negated
    parts: list[str] = []
    first = True
    while first or body[at : at + 1] != "]":
        first = False
        named = _CLASS.match(body, at)
        if named:
            if named[1] not in _POSIX:
                raise _BadGlobError(f"[:{named[1]}:] is no class of characters")
            parts.append(_POSIX[named[1]])
            at = named.end()
            continue
        low, at = _member(body, at)
        high = low
        if body[at : at + 1] == "-" and body[at + 1 : at + 2] not in ("]", ""):
            high, at = _member(body, at + 1)
        if high < low:
            raise _BadGlobError("a range in brackets runs backwards")
        parts.append(f"{re.escape(low)}-{re.escape(high)}")
    found = re.compile(f"[{'^' if negated else ''}{''.join(parts)}]", re.DOTALL).match
    return (lambda char: found(char) is not None), at + 1


def _member(body: str, at: int) -> tuple[str, int]:
    """Return one character of a bracket expression, unescaped, and the index behind it."""
    if body[at : at + 1] == "\\":
        at += 1
    if at >= len(body):
        raise _BadGlobError("a bracket is never closed")
    return body[at], at + 1


def _segment(body: str) -> Segment:
    """Turn the text of one segment into tokens."""
    tokens: list[Token] = []
    at = 0
    while at < len(body):
        char = body[at]
        at += 1
        if char == "*":
            tokens.append(_STAR)
        elif char == "?":
            tokens.append(_matches_any)
        elif char == "[":
            token, at = _bracket(body, at)
            tokens.append(token)
        elif char == "\\":
            if at >= len(body):
                raise _BadGlobError("it ends in a backslash")
            tokens.append(body[at])
            at += 1
        else:
            tokens.append(char)
    return tuple(tokens)


def _two_pointers(
    pattern: Sequence[object], items: Sequence[str], star: object, same: Callable[..., bool]
) -> bool:
    """Match `items` against `pattern`, in which `star` stands for any number of items.

    Only the last star met is ever tried again: a longer stretch for an earlier one cannot help.
    """
    at = step = 0
    retry_step = retry_at = -1
    while at < len(items):
        if step < len(pattern) and pattern[step] is star:
            retry_step, retry_at = step + 1, at
            step += 1
        elif step < len(pattern) and same(pattern[step], items[at]):
            step += 1
            at += 1
        elif retry_step >= 0:
            retry_at += 1
            step, at = retry_step, retry_at
        else:
            return False
    return all(rest is star for rest in pattern[step:])


def _same_char(token: Token, char: str) -> bool:
    return token == char if isinstance(token, str) else token is not None and token(char)


@frozen
class _Name:
    """One segment of a pattern, ready to be compared with one name of a path."""

    tokens: Segment
    literal: str | None
    suffix: str | None

    @classmethod
    def parse(cls, body: str) -> _Name:
        tokens = _segment(body)
        plain = [token for token in tokens if isinstance(token, str)]
        literal = "".join(plain) if len(plain) == len(tokens) else None
        ending = tokens[:1] == (_STAR,) and len(plain) == len(tokens) - 1
        return cls(tokens, literal, "".join(plain) if ending else None)

    def matches(self, name: str) -> bool:
        """Say whether `name`, a path segment without slashes, matches."""
        if self.literal is not None:
            return self.literal == name
        if self.suffix is not None:
            return name.endswith(self.suffix)
        return _two_pointers(self.tokens, name, _STAR, _same_char)


def _same_name(segment: _Name, name: str) -> bool:
    return segment.matches(name)


@frozen
class Glob:
    """One pattern. `text` is what was written; `path` its segments, with None for ``**``."""

    text: str
    path: tuple[_Name | None, ...]
    floating: bool
    negated: bool
    directory: bool

    def matches(self, names: Sequence[str], is_directory: bool) -> bool:
        """Say whether the path made of `names` itself (not one of its parents) matches."""
        if self.directory and not is_directory:
            return False
        if self.floating:
            only = self.path[0]
            return only is not None and only.matches(names[-1])
        if sum(segment is not None for segment in self.path) > len(names):
            return False
        return _two_pointers(self.path, names, None, _same_name)


def _parse(line: str) -> Glob | None:
    """Read one line of a ``.gitignore``; None for blank lines and comments."""
    text = line.rstrip(" ")
    if len(text) < len(line) and (len(text) - len(text.rstrip("\\"))) % 2:
        text += " "  # the first of the spaces is escaped
    if not text or text.startswith("#"):
        return None
    body = text[1:] if text.startswith("!") else text
    directory = body.endswith("/")
    body = body[:-1] if directory else body
    if not body:
        raise _BadGlobError("it names nothing")
    floating = "/" not in body
    parts = body.removeprefix("/").split("/")
    if "" in parts:
        raise _BadGlobError("it has an empty segment")
    if not {".", ".."}.isdisjoint(parts):
        raise _BadGlobError("no path has the segment '.' or '..'")
    path: list[_Name | None] = []
    for part in parts:
        if part == "**" and not floating:
            path.append(None)
        else:
            path.append(_Name.parse(part))
    if path[-1] is None:
        # A trailing /** means everything inside, not the directory itself.
        path.append(_Name.parse("*"))
    return Glob(text, tuple(path), floating, text.startswith("!"), directory)


@frozen
class GlobList:
    """Patterns in order. `bad` holds (pattern, reason) for those that can match nothing."""

    globs: tuple[Glob, ...]
    bad: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, lines: Sequence[str]) -> GlobList:
        """Read patterns, one a line, in ``.gitignore`` syntax. Never raises."""
        globs: list[Glob] = []
        bad: list[tuple[str, str]] = []
        for line in lines:
            try:
                glob = _parse(line)
            except _BadGlobError as error:
                bad.append((line, str(error)))
            else:
                if glob is not None:
                    globs.append(glob)
        return cls(tuple(globs), tuple(bad))

    def deciding(self, path: str, is_directory: bool) -> Glob | None:
        """Return the last pattern that matches the posix `path` itself, or None."""
        names = path.split("/")
        for glob in reversed(self.globs):
            if glob.matches(names, is_directory):
                return glob
        return None

    def covering(self, path: str, is_directory: bool = False) -> Glob | None:
        """Return the pattern that matches the posix `path` or a directory it lies in, or None."""
        names = path.split("/")
        for depth in range(1, len(names) + 1):
            glob = self.deciding("/".join(names[:depth]), is_directory or depth < len(names))
            if glob is not None and not glob.negated:
                return glob
        return None


@lru_cache(maxsize=64)
def _compiled(patterns: tuple[str, ...]) -> GlobList:
    return GlobList.parse(patterns)


def matches(relative_posix_path: str, patterns: Sequence[str]) -> bool:
    """Say whether a file's path under the project root, or a directory it lies in, matches a
    pattern."""
    return _compiled(tuple(patterns)).covering(relative_posix_path) is not None


def bad_globs(patterns: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (pattern, reason) for every pattern that can match nothing."""
    return _compiled(tuple(patterns)).bad
