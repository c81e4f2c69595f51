"""Waits in words."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.profile.output.table import part_of, span
from torchlint.profile.sites import Site
from torchlint.profile.waits import Wait, Waits
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import visible


def waiting(found: Waits, top: int, color: bool) -> Iterator[str]:
    """Yield the section on waits, where there are any.

    Args:
        found: the waits.
        top: how many are shown.
        color: whether a terminal takes colours.
    """
    if found.each:
        yield ""
        yield paint(
            f"waits for the device: without all of them {span(found.span)} would be shorter by at "
            f"most {part_of(found.joint, found.span)}",
            BOLD,
            color,
        )
        rows = [("saves at most", "waits", "calls", "place")]
        rows += [_row(wait, found.span) for wait in found.each[:top]]
        yield from aligned(rows)


def _row(wait: Wait, whole: int) -> tuple[str, str, str, str]:
    times = part_of(wait.alone, whole), part_of(wait.waited, whole)
    return *times, f"{wait.calls:,}", visible(place(wait.site))


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
