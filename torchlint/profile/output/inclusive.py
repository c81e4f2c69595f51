"""Where the time goes by statement, each with all that it calls, in words."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.profile.output.content import Content
from torchlint.profile.output.source import source
from torchlint.profile.output.table import part, recorded
from torchlint.profile.output.waiting import place
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import visible

HEAD = ("with all it calls", "place", "statement")
"""What is shown of a statement."""


def title(content: Content) -> str:
    """Return what stands above the statements."""
    goes = "a step's time goes" if content.recorded.steps is not None else "the host's time goes"
    return f"where {goes}, each statement with all it calls"


def rows(content: Content) -> list[tuple[str, str, str]]:
    """Return the statements as cells below `HEAD`."""
    return [
        (
            part(one.cost.inclusive_ns, content.recorded),
            visible(", from ".join(place(cost.site) for cost in (one.cost, *one.callers[::-1]))),
            source(one.cost.site, content.texts),
        )
        for one in content.statements
    ]


def section(content: Content, color: bool) -> Iterator[str]:
    """Yield the section of the text, where anything is known."""
    found = rows(content)
    if found:
        yield ""
        yield paint(f"{title(content)}: of {recorded(content.recorded)}", BOLD, color)
        yield from aligned(found)
