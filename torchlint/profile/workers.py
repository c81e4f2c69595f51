"""What the worker processes of a program's DataLoaders did: how busy they were, how long a batch
took them, and which of the program's lines."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchlint.base.finding import Finding
from torchlint.base.records import frozen
from torchlint.profile.lines import extent
from torchlint.profile.sites import Sources


@frozen
class WorkerLine:
    """What a statement took of a batch, on the mean of the batches whose lines were timed.

    Args:
        file, line, last: where it stands; the file as the user named it, once that is known.
        function: around it.
        ns: nanoseconds a batch, without those of marked statements in it.
        total_ns: nanoseconds a batch, with them.
        calls: how often it ran for a batch.
    """

    file: str
    line: int
    last: int
    function: str
    ns: float
    total_ns: float
    calls: float


@frozen
class Batch:
    """A batch that a worker made.

    Args:
        loader: names the loader's pass over its data, of which workers take turns.
        workers: how many it has.
        worker: which of them made it.
        took: nanoseconds.
        lines: nanoseconds of the statements that ran for it, with those of statements in them, by
            file and first line; None where they were not timed.
    """

    loader: int
    workers: int
    worker: int
    took: int
    lines: Mapping[tuple[str, int], int] | None


@frozen
class Workers:
    """What the workers of one process' DataLoaders did; times in nanoseconds.

    Args:
        processes: how many worked at the same time.
        batches: how many batches are counted: those that were made while steps were timed without
            the profiler, or all where none was.
        batch: what one took, the median: reading its items and putting them together, without
            handing it over.
        longest: what the longest took.
        busy: the share of the workers' time that this was; None where no step was timed.
        timed: of how many further batches the lines were timed.
        timed_batch: what one of these took, on the mean: timing lines costs time.
        lines: the most costly first.
        single: the batches that are counted, and those whose lines were timed.
    """

    processes: int
    batches: int
    batch: float
    longest: int
    busy: float | None
    timed: int
    timed_batch: float
    lines: tuple[WorkerLine, ...]
    single: tuple[Batch, ...] = ()

    @property
    def slower(self) -> float:
        """Return how many times as long a batch took whose lines were timed; 0 where none was."""
        untimed = [each.took for each in self.single if each.lines is None]
        return self.timed_batch / statistics.mean(untimed) if untimed else 0.0

    def named(self, sources: Sources) -> Workers:
        """Return the same with files as the user named them; others keep their path."""
        names: dict[str, str] = {}

        def named(path: str) -> str:
            if path not in names:
                source = sources.of(path)
                names[path] = source.name if source is not None else path
            return names[path]

        lines = tuple(replace(line, file=named(line.file)) for line in self.lines)
        single = tuple(
            batch
            if batch.lines is None
            else replace(
                batch, lines={(named(file), at): took for (file, at), took in batch.lines.items()}
            )
            for batch in self.single
        )
        return replace(self, lines=lines, single=single)

    def of(self, finding: Finding) -> float:
        """Return what the lines of a finding's statement took of a batch, with what they called, in
        nanoseconds."""
        total = sum(line.total_ns for line in self.lines if self.holds(finding, line))
        return min(total, self.timed_batch)

    @staticmethod
    def holds(finding: Finding, line: WorkerLine) -> bool:
        """Say whether a line is of what a finding is about."""
        return at_line(finding, line.file, line.line)


def at_line(finding: Finding, file: str, line: int) -> bool:
    """Say whether a line is of what a finding is about."""
    first, last = extent(finding)
    return finding.cell is None and file == finding.filename and first <= line <= last


def read(folder: Path, root: Path, parent: int, window: tuple[int, int] | None) -> Workers | None:
    """Return what the workers of a process did; None where it had none, or they made no batch.

    Args:
        folder: the run's, where workers leave their lines.
        root: the project.
        parent: the process' number.
        window: when steps were timed without the profiler, in nanoseconds of the run's clock.
    """
    rows = [row for row in _rows(folder) if row["parent"] == parent]
    if not rows:
        return None
    untimed = [row for row in rows if row["lines"] is None] or rows
    inside = untimed
    if window is not None:
        low, high = window
        inside = [row for row in untimed if row["end"] > low and row["start"] < high]
    counted = inside or untimed
    took = [row["end"] - row["start"] for row in counted]
    timed = [row for row in rows if row["lines"] is not None]
    mean = sum(row["end"] - row["start"] for row in timed) / len(timed) if timed else 0.0
    return Workers(
        max(row["workers"] for row in counted),
        len(counted),
        statistics.median(took),
        max(took),
        _busy(rows, window) if window is not None and inside else None,
        len(timed),
        mean,
        tuple(_lines(timed, root)),
        tuple(_batch(row, root) for row in (*counted, *timed)),
    )


def _batch(row: Mapping[str, Any], root: Path) -> Batch:
    lines: dict[tuple[str, int], int] | None = None
    if row["lines"] is not None:
        lines = {}
        for file, first, _, _, _, total, _ in row["lines"]:
            at = str(root / file), first
            lines[at] = lines.get(at, 0) + total
    took = row["end"] - row["start"]
    return Batch(row["loader"], row["workers"], row["worker"], took, lines)


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the batches of all workers; one that was killed may have left half a line."""
    for path in sorted(folder.glob("worker-*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield json.loads(line)


def _busy(rows: Iterable[Mapping[str, Any]], window: tuple[int, int]) -> float | None:
    """Return the share of a window in which workers were making batches, while their loader's were
    at work at all."""
    loaders: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        loaders.setdefault(row["loader"], []).append(row)
    worked = there = 0
    for of in loaders.values():
        low = max(window[0], min(row["start"] for row in of))
        high = min(window[1], max(row["end"] for row in of))
        if high <= low:
            continue
        there += (high - low) * of[0]["workers"]
        worked += sum(max(0, min(row["end"], high) - max(row["start"], low)) for row in of)
    return worked / there if there else None


def _lines(timed: Sequence[Mapping[str, Any]], root: Path) -> list[WorkerLine]:
    sums: dict[tuple[str, int, int, str], list[int]] = {}
    for row in timed:
        for file, first, last, function, *values in row["lines"]:
            known = sums.setdefault((str(root / file), first, last, function), [0, 0, 0])
            for at, value in enumerate(values):  # by itself, with what it called, times
                known[at] += value
    count = len(timed)
    found = [
        WorkerLine(*at, spent / count, total / count, calls / count)
        for at, (spent, total, calls) in sums.items()
    ]
    return sorted(found, key=lambda line: -line.ns)
