"""Waits in words."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.profile.bounds import Whole
from torchlint.profile.output.table import measure, part
from torchlint.profile.sites import Site
from torchlint.profile.waits import Wait, Waits
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import digits, visible

HEAD = ("saves at most", "waits", "calls", "place")


def waiting(found: Waits, whole: Whole, top: int, color: bool) -> Iterator[str]:
    """Yield the section on waits, where there are any.

    Args:
        found: the waits.
        whole: of which what they save is told as a part.
        top: how many are shown.
        color: whether a terminal takes colours.
    """
    if found.each:
        yield ""
        yield paint(
            f"waits for the device: without all of them {measure(whole)} would be shorter by at "
            f"most {part(found.joint, whole)}",
            BOLD,
            color,
        )
        rows = [HEAD, *(wait_row(wait, found, whole) for wait in found.each[:top])]
        yield from aligned([(*cells, visible(at)) for *cells, at in rows])


def wait_row(wait: Wait, found: Waits, whole: Whole) -> tuple[str, str, str, str]:
    """Return the cells of a wait below `HEAD`: of a run, what it is in one step."""
    within = Whole(found.span, whole.steps)
    calls = f"{wait.calls:,}" if whole.steps is None else digits(wait.calls / whole.steps)
    return part(wait.alone, whole), part(wait.waited, within), calls, place(wait.site)


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
