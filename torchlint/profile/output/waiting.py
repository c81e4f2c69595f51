"""Waits and findings in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchlint.profile.join import FindingCost
from torchlint.profile.output.table import share, span
from torchlint.profile.sites import Site
from torchlint.profile.waits import Wait, Waits
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import DASH, clipped, pluralise, visible

_LONGEST = 100
"""Characters of a finding's message that are shown."""


def waits_and_findings(
    found: Waits, costs: Sequence[FindingCost], top: int, color: bool
) -> Iterator[str]:
    """Yield the section on waits, and that on findings where there are any.

    Args:
        found: the waits.
        costs: findings, with what was measured at their places.
        top: how many waits, and how many findings that were not measured, are shown.
        color: whether a terminal takes colours.
    """
    if found.each:
        yield ""
        yield paint(
            f"waits for the device: without all of them {span(found.span)} would be shorter by at "
            f"most {span(found.joint)} ({share(found.joint, found.span)})",
            BOLD,
            color,
        )
        rows = [("saves at most", "waits", "calls", "place")]
        rows += [_row(wait, found.span) for wait in found.each[:top]]
        yield from aligned(rows)
    if costs:
        yield from _findings(found, costs, top, color)
        if not found.frames:
            yield "the trace has no Python frames; record with with_stack=True to join them"


def _row(wait: Wait, whole: int) -> tuple[str, str, str, str]:
    saved = DASH if wait.alone is None else f"{span(wait.alone)} ({share(wait.alone, whole)})"
    waited = f"{span(wait.waited)} ({share(wait.waited, whole)})"
    return saved, waited, f"{wait.calls:,}", visible(place(wait.site))


def place(site: Site) -> str:
    """Return where a call came from, as surely as that is known."""
    if site.certainty == "call":
        return site.function
    if site.has_line:
        probably = "probably " if site.certainty == "aligned" else ""
        return f"{probably}{site.file}:{site.line}, in {site.function}"
    if site.differs:
        return f"{site.file}, in {site.function} (source differs from the trace)"
    return f"{site.file}, in {site.function} (from line {site.line} on)"


def _findings(found: Waits, costs: Sequence[FindingCost], top: int, color: bool) -> Iterator[str]:
    measured = [cost for cost in costs if cost.wait is not None]
    others = [cost for cost in costs if cost.wait is None]
    yield ""
    for cost in measured:
        assert cost.wait is not None
        saved = DASH if cost.wait.alone is None else span(cost.wait.alone)
        yield paint(_finding(cost), BOLD, color)
        yield (
            f"  waits {span(cost.wait.waited)}; without it at most {saved} "
            f"({share(cost.wait.alone, found.span)}) less, {span(found.joint)} with all other waits"
        )
    if others:
        yield f"{pluralise(len(others), 'finding')} at which no wait was measured:"
        yield from (f"  {_finding(cost)}" for cost in others[:top])
        if len(others) > top:
            yield f"  and {len(others) - top} more"


def _finding(cost: FindingCost) -> str:
    one = cost.finding
    at = f"{one.filename}:{one.start.row}"
    return visible(f"{at}: {one.code} {clipped(one.message, _LONGEST)}")
