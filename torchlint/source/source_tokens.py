"""The `source` of one cell as JSON tokens, and the tokens of a changed source: what stays the same
stays as written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.span import Span

_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_CHARACTER = regex(rf"{_PAIR}|\\u[0-9a-fA-F]{{4}}|\\.|[^\\]", re.DOTALL)
"""One character of a JSON string as it is written."""
_LINE = regex(r"[^\n]*\n|[^\n]+\Z")


@frozen
class Source:
    """Where a source stands in JSON text.

    Args:
        span: the whole value.
        tokens: its strings, each with its place, quotes included, and its value.
        listed: whether the value is a list of strings, and not one string.
    """

    span: Span
    tokens: tuple[tuple[Span, str], ...]
    listed: bool

    @property
    def text(self) -> str:
        """The source itself."""
        return "".join(value for _, value in self.tokens)


def spliced(source: Source, text: str, new: str) -> str:
    """Return the JSON value that takes the place of `source` in the JSON text `text` where the
    source becomes `new`."""
    plain = text.isascii()
    written = [text[span.start : span.end] for span, _ in source.tokens]
    values = [value for _, value in source.tokens]
    if not source.listed:
        return _retold(written[0], values[0], new, plain)
    if not values:
        return f"[{', '.join(_written(item, plain) for item in _LINE.findall(new))}]"
    items = _items(values, new)
    seams = [
        text[a.end : b.start]
        for (a, _), (b, _) in zip(source.tokens, source.tokens[1:], strict=False)
    ]
    opening = text[source.span.start : source.tokens[0][0].start]
    closing = text[source.tokens[-1][0].end : source.span.end]
    if not items:
        return "[]"
    usual = seams[0] if seams else _seam(opening, text[: source.span.start])
    parts = [opening]
    for number, (word, old) in enumerate(_matched(written, values, items, plain)):
        if number:
            parts.append(seams[old - 1] if old else usual)
        parts.append(word)
    return "".join((*parts, closing))


def _seam(opening: str, before: str) -> str:
    """Return what stands between two strings of a list of which only one string is known, in a
    writer's usual style."""
    space = opening[1:] or (" " if before.rstrip("[").endswith(": ") else "")
    return f",{space}"


def _items(values: Sequence[str], new: str) -> list[str]:
    """Cut a new source as the old one is cut: into lines, or else anew only where it changed."""
    if list(values) == _LINE.findall("".join(values)):
        return _LINE.findall(new)
    first, at = 0, 0
    while first < len(values) and new.startswith(values[first], at):
        at += len(values[first])
        first += 1
    last, end = len(values), len(new)
    while (
        last > first
        and end - len(values[last - 1]) >= at
        and new.endswith(values[last - 1], 0, end)
    ):
        end -= len(values[last - 1])
        last -= 1
    return [*values[:first], *([new[at:end]] if at < end else []), *values[last:]]


def _matched(
    written: Sequence[str], values: Sequence[str], items: Sequence[str], plain: bool
) -> list[tuple[str, int]]:
    """Return each new item as a JSON string, with the number of the old one that it stems from, or
    0."""
    found: list[tuple[str, int]] = []
    for _, old, old_end, new, new_end in SequenceMatcher(
        None, values, items, autojunk=False
    ).get_opcodes():
        for at in range(new, new_end):
            from_old = old + at - new
            if from_old < old_end:
                found.append(
                    (_retold(written[from_old], values[from_old], items[at], plain), from_old)
                )
            else:
                found.append((_written(items[at], plain), 0))
    return found


def _written(value: str, plain: bool) -> str:
    return json.dumps(value, ensure_ascii=plain)


def _retold(written: str, old: str, new: str, plain: bool) -> str:
    """Return `new` as a JSON string in which what it shares with `old` at both ends is written as
    it was."""
    if new == old:
        return written
    characters = _CHARACTER.findall(written, 1, len(written) - 1)
    if len(characters) != len(old):
        return _written(new, plain)
    head = _shared(old, new)
    tail = _shared(old[head:][::-1], new[head:][::-1])
    middle = _written(new[head : len(new) - tail], plain)[1:-1]
    return "".join(('"', *characters[:head], middle, *characters[len(old) - tail :], '"'))


def _shared(one: str, other: str) -> int:
    """Return how many characters both texts start with."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
