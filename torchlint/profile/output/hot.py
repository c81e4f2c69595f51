"""What places of the program cost, in words: those that are hot, and have no finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchlint.profile.lines import HOT, LineCost
from torchlint.profile.output.table import share, span
from torchlint.profile.output.waiting import place
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import DASH, size, visible

COSTS = ("host", "backward", "GPU", "waits", "copied", "allocated", "place")
"""What is shown of a place."""


def hot(
    found: Sequence[LineCost], whole: int, top: int, color: bool, *, checked: bool
) -> Iterator[str]:
    """Yield the section on hot places, where there are any.

    Args:
        found: the places.
        whole: the time of the run in nanoseconds.
        top: how many are shown.
        color: whether a terminal takes colours.
        checked: whether the program's files were checked.
    """
    if not found:
        return
    yield ""
    title = "hot, no rule" if checked else "hot places"
    yield paint(
        f"{title}: above {100 * HOT:g} % of {span(whole)} by one of the times, which overlap",
        BOLD,
        color,
    )
    columns: list[tuple[str, ...]] = [COSTS]
    columns += [hot_row(cost, whole) for cost in found[:top]]
    shown = [
        at for at in range(len(COSTS)) if any(row[at] not in (DASH, "0") for row in columns[1:])
    ]
    yield from aligned([tuple(row[at] for at in shown) for row in columns])
    if len(found) > top:
        yield f"and {len(found) - top} more"


def measured(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the places in `COSTS` of what was measured in some row."""
    return [at for at in range(len(COSTS)) if any(row[at] not in (DASH, "0") for row in rows)]


def hot_row(cost: LineCost, whole: int) -> tuple[str, ...]:
    """Return what a place cost, one cell for each of `COSTS`.

    Args:
        cost: of the place.
        whole: the time of the run in nanoseconds.
    """
    times = (cost.host_ns, cost.backward_ns, cost.gpu_ns, cost.wait_ns)
    sizes = (cost.copied_bytes, cost.alloc_bytes)
    return (
        *(f"{span(time)} ({share(time, whole)})" if time else span(time) for time in times),
        *(DASH if nbytes is None else size(nbytes) if nbytes else "0" for nbytes in sizes),
        visible(place(cost.site)),
    )
