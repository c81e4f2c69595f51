"""A rule's manual: its docstring, cut into a title, sections under ``##`` headings, and fenced code
blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from torchlint.base.records import frozen
from torchlint.base.regex import regex

HEADINGS = ("Why", "Setup", "Bad", "Good", "Leave alone", "Fix safety", "Measure")
"""The headings of a manual, in the order of its page."""
DEMANDED = ("Why", "Bad", "Good", "Leave alone", "Measure")
WITH_CODE = ("Bad", "Good", "Leave alone")
_FENCE = regex(
    r"^(?P<fence>`{3,})(?P<language>.*)\n(?P<code>(?:.*\n)*?)(?P=fence)[ \t]*$", re.MULTILINE
)
_OPENING = regex(r"^`{3,}", re.MULTILINE)
_HEADING = regex(r"^##[ \t]+(.*?)[ \t]*$", re.MULTILINE)


@frozen
class Example:
    """A ```` ```python ```` block with the prose before it, from the block before that; `code` ends
    with a newline."""

    prose: str
    code: str


class Sections(Mapping[str, str]):
    """The sections of a manual by heading, cut out of it when the first one is asked for.

    Any question raises the ValueError of `split_manual` where the manual cannot be cut.
    """

    __slots__ = ("_found", "_manual")

    def __init__(self, manual: str) -> None:
        self._manual = manual
        self._found: dict[str, str] | None = None

    def _sections(self) -> dict[str, str]:
        if self._found is None:
            self._found = split_manual(self._manual)[1]
        return self._found

    def __getitem__(self, heading: str) -> str:
        return self._sections()[heading]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections())

    def __len__(self) -> int:
        return len(self._sections())


def title_of(manual: str) -> str:
    """Return the title of a manual, its first line.

    Raises:
        ValueError: there is none.
    """
    title = manual.strip().partition("\n")[0].strip()
    if not title or title.startswith("#"):
        raise ValueError("the docstring's first line must be the title")
    return title


def split_manual(manual: str) -> tuple[str, dict[str, str]]:
    """Return the title (the first line) and the sections by heading, without surrounding blank
    lines.

    Raises:
        ValueError: there is no title; a heading is unknown or stands twice; text stands before the
            first heading; a code block is not closed.
    """
    title = title_of(manual)
    rest = manual.strip().partition("\n")[2]
    # Headings inside a code block are comments of that block: look for them with the blocks blanked
    # out.
    masked = _FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), rest)
    if _OPENING.search(masked):
        raise ValueError("a code block is not closed")
    headings = list(_HEADING.finditer(masked))
    if masked[: headings[0].start() if headings else None].strip():
        raise ValueError("text between the title and the first heading")
    sections: dict[str, str] = {}
    for found, after in zip_longest(headings, headings[1:]):
        if found[1] not in HEADINGS:
            raise ValueError(f"unknown heading '## {found[1]}' (known: {', '.join(HEADINGS)})")
        if found[1] in sections:
            raise ValueError(f"heading '## {found[1]}' stands twice")
        sections[found[1]] = rest[found.end() : after.start() if after else None].strip()
    return title, sections


def examples(section: str) -> tuple[Example, ...]:
    """Return a section's ```` ```python ```` blocks; blocks in another language count as prose."""
    found = []
    start = 0
    for block in _FENCE.finditer(section):
        if block["language"].strip() == "python":
            found.append(Example(section[start : block.start()].strip(), block["code"]))
            start = block.end()
    return tuple(found)


def code_blocks(section: str) -> list[str]:
    """Return the text of a section's ```` ```python ```` blocks, each ending with a newline."""
    return [example.code for example in examples(section)]


def check_manual(sections: Mapping[str, str], *, unsafe: bool) -> None:
    """Hold a manual to the contract of a rule.

    Args:
        sections: the sections by heading.
        unsafe: whether the rule has an unsafe fix.

    Raises:
        ValueError: a demanded section is missing or holds no code, or a case of Leave alone is not
            introduced.
    """
    for heading in DEMANDED + (("Fix safety",) if unsafe else ()):
        if heading not in sections:
            reason = ", which an unsafe fix demands" if heading == "Fix safety" else ""
            raise ValueError(f"the docstring has no '## {heading}'{reason}")
    for heading in WITH_CODE:
        if not code_blocks(sections[heading]):
            raise ValueError(f"'## {heading}' holds no ```python block")
    if not all(example.prose for example in examples(sections["Leave alone"])):
        raise ValueError("a code block of '## Leave alone' has no line of prose before it")
