"""The report for coding agents: the answer, what fixing findings saves with the commands that
prove it, the costly places, and then the figures, within a number of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torchlint.base.regex import regex
from torchlint.profile.output import growing, run, text
from torchlint.profile.output.content import Content
from torchlint.profile.output.sentences import compared, headline
from torchlint.profile.output.table import rows
from torchlint.report.kit.tokens import within
from torchlint.report.kit.words import clipped, visible

_DEAREST = 5
"""Waits, findings and places of a kind that are shown."""
_COLUMNS = regex(r"(?<=\S) {3,}")
_LONGEST = 72


def render(content: Content, tokens: int) -> str:
    """Return the report.

    Args:
        content: what is shown.
        tokens: how much is printed at most.
    """
    shown = replace(content, top=min(content.top, _DEAREST))
    return within(
        [_COLUMNS.sub("  ", line) for line in _lines(shown) if line], tokens, _next(shown)
    )


def _lines(content: Content) -> Iterator[str]:
    shown = content.shown
    yield f"step: {headline(shown, content.waits, content.steps, content.whole)}"
    yield from map(visible, compared(content))
    yield from growing.sentences(content.growth)
    yield from text.places(content, False)
    yield f"of {visible(text.title(shown))}"
    for name, value in run.with_trace(content.steps, rows(shown, content.top)):
        yield f"{clipped(visible(name), _LONGEST)}: {visible(value)}"
    yield from (f"note: {visible(note)}" for note in content.notes)


def _next(content: Content) -> str:
    """Return the command to run next: the proof of the finding that costs most."""
    costs = content.costs
    each = costs.each if costs is not None else ()
    proofs = (run.proof(cost, content.steps) for cost in each)
    command = next(filter(None, proofs), None)
    if command is None:
        return ""
    verify = "torchlint verify"
    return f"next: {verify} --output-format agent{visible(command).removeprefix(verify)}"
