"""A rule's manual page as plain values: the little markdown of manuals, in blocks and pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PIECES = re.compile(r"`([^`\n]+)`")
_LIST = re.compile(r"^[-*] ")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of text.

    `kind` is ``"heading"``, ``"text"``, ``"list"`` or ``"code"``. `lines` holds a list's items,
    code's rows, or one line; each line is pieces, (whether it is code, words).
    """

    kind: str
    lines: tuple[tuple[tuple[bool, str], ...], ...]


def blocks(markdown: str) -> Iterator[Block]:
    """Yield the blocks of a manual; headings lose their marks.

    The first heading, the rule's name, is left out.
    """
    for is_code, lines in _fenced(markdown):
        if is_code:
            yield Block("code", tuple(((True, line),) for line in lines))
            continue
        for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
            if paragraph.strip():
                yield from _block(paragraph.strip("\n"))


def _fenced(markdown: str) -> Iterator[tuple[bool, list[str]]]:
    lines: list[str] = []
    inside = False
    for line in markdown.split("\n"):
        if line.startswith("```"):
            if lines:
                yield inside, lines
            lines, inside = [], not inside
        else:
            lines.append(line)
    if lines:
        yield inside, lines


def _block(paragraph: str) -> Iterator[Block]:
    if paragraph.startswith("# "):
        return
    if paragraph.startswith("## "):
        head, _, rest = paragraph.partition("\n")
        yield Block("heading", (((False, head[3:]),),))
        if rest.strip():
            yield from _block(rest)
    elif _LIST.match(paragraph):
        items = re.split(r"\n[-*] ", paragraph[2:])
        yield Block("list", tuple(_pieces(" ".join(item.split())) for item in items))
    else:
        words = " ".join(paragraph.removeprefix("> ").split())
        yield Block("text", (_pieces(words),))


def _pieces(text: str) -> tuple[tuple[bool, str], ...]:
    """Cut a line at its backquotes: what stands between two is code."""
    parts = _PIECES.split(text)
    return tuple((bool(at % 2), part) for at, part in enumerate(parts) if part)
