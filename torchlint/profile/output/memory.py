"""Snapshots of memory, in words and as JSON; ``snapshot-report.schema.json`` beside this file
describes the latter."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from torchlint.profile.output.table import share
from torchlint.profile.snapshot import Held, Snapshot
from torchlint.report.kit import ascii_json
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import pluralise, size, visible

SCHEMA_VERSION = 1


def render(found: Sequence[Snapshot], top: int, color: bool) -> str:
    """Return the report for people: of each device what it held at its peak, and what was reserved.

    Args:
        found: the snapshots.
        top: how many lines are shown.
        color: whether a terminal takes colours.
    """
    lines: list[str] = []
    for each in found:
        lines += ["", *_device(each, top, color)] if lines else _device(each, top, color)
    return "\n".join(lines) + "\n"


def _device(found: Snapshot, top: int, color: bool) -> Iterator[str]:
    yield paint(visible(f"{found.path}: GPU {found.device}"), BOLD, color)
    yield from aligned(list(_rows(found)))
    if not found.events:
        yield "no history was recorded: torch.cuda.memory._record_memory_history() starts one"
    if not found.held:
        return
    yield paint(f"at the peak, {size(found.allocated_most)} by line", BOLD, color)
    held = [_row_of_held(each, found.allocated_most) for each in found.held[:top]]
    yield from aligned([("bytes", "pieces", "line"), *held])
    if len(found.held) > top:
        yield f"and {len(found.held) - top} more"


def _rows(found: Snapshot) -> Iterator[tuple[str, str]]:
    yield "most allocated at once", size(found.allocated_most)
    reserved = f"{size(found.reserved)} in {pluralise(found.segments, 'segment')}"
    yield "reserved", f"{reserved}; most at once {size(found.reserved_most)}"
    yield "  used", f"{size(found.used)} ({share(found.used, found.reserved)})"
    yield "  free, cannot be given back", _size_and_share(found.free_in_use, found.reserved)
    yield "  free, can be given back", _size_and_share(found.free_whole, found.reserved)
    if found.free_in_use or found.free_whole:
        apart = f"{100 * found.fragmented:.1f} % of what is free lies apart"
        yield "  largest free piece", f"{size(found.largest_free)}; {apart}"
    if found.events:
        yield (
            "taken from the driver",
            f"{size(found.up)} in {pluralise(found.driver_allocs, 'call')}",
        )
        yield "given back to it", f"{size(found.down)} in {pluralise(found.driver_frees, 'call')}"
        yield "given back to take other memory", pluralise(found.retries, "time")
    if found.failures:
        sizes = ", ".join(map(size, found.failed))
        yield "failed", f"{pluralise(found.failures, 'allocation')} (the last of {sizes})"


def _size_and_share(nbytes: int, whole: int) -> str:
    return f"{size(nbytes)} ({share(nbytes, whole)})" if nbytes else "0"


def _row_of_held(held: Held, whole: int) -> tuple[str, str, str]:
    place = f"{held.file}:{held.line}, in {held.function}" if held.file else held.function
    pieces = f"{held.pieces:,}" if held.pieces else ""
    return f"{size(held.nbytes)} ({share(held.nbytes, whole)})", pieces, visible(place)


def document(found: Sequence[Snapshot], command: Sequence[str], version: str) -> str:
    """Return the report as JSON, ASCII only, with a final newline."""
    devices = [dataclasses.asdict(each) | {"fragmented": each.fragmented} for each in found]
    return ascii_json.dump(
        {
            "schema_version": SCHEMA_VERSION,
            "command": list(command),
            "environment": {"torchlint": version},
            "devices": devices,
        }
    )
