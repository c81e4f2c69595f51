"""What the workers of a program's DataLoaders did, in words: their lines are in no trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from torchlint.profile.output.table import Row, share, span
from torchlint.profile.workers import Workers


def rows(of: Workers) -> Iterator[Row]:
    """Yield what a report says of workers among the rows of a run."""
    busy = "" if of.busy is None else f", busy for {share(of.busy, 1)} of the time"
    yield (
        "workers of a DataLoader",
        f"{of.processes}{busy}; a batch takes one {span(of.batch)}, at most {span(of.longest)}",
    )


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
