"""What the workers of a program's DataLoaders did, in words: their lines are in no trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from torchlint.profile.lines import HOT
from torchlint.profile.output.content import Content
from torchlint.profile.output.table import Row, share, span
from torchlint.profile.workers import Workers
from torchlint.report.kit.terminal import BOLD, aligned, paint
from torchlint.report.kit.words import digits, visible

_DEAR = 1.5
"""From which ratio on it is told that timing lines makes batches longer."""
HEAD = ("a batch", "times", "place")


def rows(of: Workers) -> Iterator[Row]:
    """Yield what a report says of workers among the rows of a run."""
    busy = "" if of.busy is None else f", busy for {share(of.busy, 1)} of the time"
    yield (
        "workers of a DataLoader",
        f"{of.processes}{busy}; a batch takes one {span(of.batch)}, at most {span(of.longest)}",
    )


def title(of: Workers) -> str:
    """Return what stands above the lines."""
    batches = f"{of.timed} batch{'es' * (of.timed != 1)}"
    dear = f", which timing them makes {of.slower:.1f} x as long" if of.slower > _DEAR else ""
    return f"in the workers: lines above 3 % of a batch, {span(of.timed_batch)} in {batches}{dear}"


def lines(content: Content) -> list[tuple[str, str, str]]:
    """Return the costly lines as cells below `HEAD`, with the rules that found something there."""
    of, found = content.workers, []
    for line in of.lines[: content.top] if of is not None else ():
        if of is None or line.ns < HOT * of.timed_batch:
            break
        codes = sorted({one.code for one in content.findings if of.holds(one, line)})
        place = " ".join((f"{line.file}:{line.line}, in {line.function}", *codes))
        cost = f"{span(line.ns)} ({share(line.ns, of.timed_batch)})"
        times = digits(line.calls) if line.calls < 1000 else f"{line.calls:,.0f}"
        found.append((cost, times, visible(place)))
    return found


def loading(content: Content, color: bool) -> Iterator[str]:
    """Yield the section on the lines of workers, where there are any."""
    of, shown = content.workers, lines(content)
    if of is None or not shown:
        return
    yield ""
    yield paint(title(of), BOLD, color)
    yield from aligned([HEAD, *shown])


def document(of: Workers | None) -> dict[str, Any] | None:
    """Return the same as plain values."""
    if of is None:
        return None
    return {
        "processes": of.processes,
        "batches": of.batches,
        "batch_ns": of.batch,
        "longest_ns": of.longest,
        "busy": of.busy,
        "timed_batches": of.timed,
        "timed_batch_ns": of.timed_batch,
        "lines": [dataclasses.asdict(line) for line in of.lines],
    }
