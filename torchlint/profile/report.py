"""What traces say, put together: one rank or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from torchlint.base.errors import TraceError
from torchlint.base.records import frozen
from torchlint.trace.columns import Trace
from torchlint.trace.figures import Figures, counted, figures
from torchlint.trace.marks import queued, recorded
from torchlint.trace.modules import apart
from torchlint.trace.ranks import Collectives, Waiting, collectives, waiting
from torchlint.trace.stream import read
from torchlint.trace.window import window


@frozen
class Rank:
    """One rank's trace, counted.

    `number` is what the trace says; where it says nothing `numbered` is false, and it is the
    trace's place among those that are read together. `queued` is for how many
    nanoseconds of each step, by number, the training thread was ready to run and had no core; empty
    where the trace does not say it.
    """

    number: int
    numbered: bool
    path: str
    world: int | None
    device: str
    figures: Figures
    collectives: tuple[Collectives, ...]
    queued: Mapping[int, int] = field(default_factory=dict)


@frozen
class Summary:
    """What is left of traces once they are counted, and what is to be known about them; several
    make one."""

    ranks: tuple[Rank, ...]
    notes: tuple[str, ...]


@frozen
class Report:
    """All ranks by number, what collectives show, and what is to be known about the traces."""

    command: tuple[str, ...]
    version: str
    ranks: tuple[Rank, ...]
    waiting: Waiting
    notes: tuple[str, ...]

    def rank(self, number: int | None) -> Rank:
        """Return the rank of this number, the lowest where None.

        Raises:
            TraceError: there is none of this number.
        """
        if number is None:
            return self.ranks[0]
        for rank in self.ranks:
            if rank.number == number:
                return rank
        known = ", ".join(str(rank.number) for rank in self.ranks)
        raise TraceError(f"--rank {number}: the traces are of {known}")


def files_of(named: Iterable[str], endings: tuple[str, ...] = (".json", ".json.gz")) -> list[str]:
    """Return the files to read: folders stand for the files in them that end so.

    Raises:
        TraceError: a folder has none, or there is no such file.
    """
    found = []
    for name in named:
        path = Path(name)
        if not path.is_dir():
            found.append(name)
            continue
        inside = sorted(each for each in path.iterdir() if each.name.endswith(endings))
        if not inside:
            raise TraceError(f"{name}: holds no {' and no '.join(endings)} file")
        found += map(str, inside)
    return found


def summarised(
    named: Sequence[str],
    tell: Callable[[str], None] = lambda words: None,
    keep: Callable[[int], bool] = lambda number: False,
    all_steps: bool = False,
) -> tuple[Summary, Trace | None]:
    """Read traces one after the other and count each.

    Args:
        named: files and folders, as the user named them.
        tell: is told which file is read.
        keep: says whether the trace of a rank is kept; of those the one of the lowest rank is.
        all_steps: whether the last step counts too.

    Returns:
        What was counted, and the window of the trace that was kept.

    Raises:
        TraceError: a file that was named cannot be read, or no file of a folder can be.
    """
    ranks: list[Rank] = []
    notes: list[str] = []
    kept: tuple[int, Trace] | None = None
    for at, path in enumerate(files_of(named)):
        tell(f"reading {path}")
        try:
            whole = read(path)
            trace = apart(window(whole, all_steps))
        except TraceError as error:
            if path in named:
                raise
            notes.append(f"left out: {error}")
            continue
        events = len((trace if recorded(whole) else whole).columns.ts)
        rank = _rank(trace, at, events)
        notes += _notes(trace, rank)
        ranks.append(rank)
        if keep(rank.number) and (kept is None or rank.number < kept[0]):
            kept = rank.number, trace
        del trace, whole  # before the next one is read
    if not ranks:
        raise TraceError("; ".join(notes) or "no trace was named")
    return Summary(tuple(ranks), tuple(notes)), kept[1] if kept is not None else None


def report(summary: Summary, command: tuple[str, ...], version: str) -> Report:
    """Put ranks beside each other.

    Args:
        summary: what was counted of each.
        command: what the user typed.
        version: torchlint's.
    """
    ranks: dict[int, Rank] = {}
    notes = list(summary.notes)
    for at, each in enumerate(summary.ranks):
        rank = each if each.numbered else replace(each, number=at)
        twin = ranks.setdefault(rank.number, rank)
        if twin is not rank:
            notes.append(f"{rank.path}: is of rank {rank.number} as {twin.path} is; left out")
    found = [ranks[number] for number in sorted(ranks)]
    notes += _notes_on_ranks(found)
    together = waiting({rank.number: rank.collectives for rank in found})
    return Report(command, version, tuple(found), together, tuple(notes))


def _rank(trace: Trace, at: int, events: int) -> Rank:
    number, part = trace.rank(), counted(trace)
    info = trace.meta.get("distributedInfo")
    world = info.get("world_size") if isinstance(info, dict) else None
    return Rank(
        at if number is None else number,
        number is not None,
        trace.path,
        world if isinstance(world, int) else None,
        _device(trace.meta.get("deviceProperties")),
        figures(trace, part, events),
        collectives(trace, part.work, part.kind),
        queued(trace),
    )


def _device(properties: Any) -> str:
    """Return what the first device is called; empty where the trace does not say it."""
    first = properties[0] if isinstance(properties, list) and properties else None
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) else ""


def _notes(trace: Trace, rank: Rank) -> list[str]:
    """Return what a reader of one trace's figures has to know."""
    found, of = [], rank.figures
    if trace.cut_off:
        found.append(f"{trace.cut_off}; every whole event is used")
    if trace.lost:
        found.append(f"{trace.lost} events could not be read")
    if trace.repaired:
        found.append(f"{trace.repaired} events are no JSON, and were read all the same")
    if not of.events:
        found.append("it holds no events that took time")
    elif of.temporal is None:
        found.append("no device worked: figures of a GPU are not known")
    if of.counted < of.events:
        found.append(
            "all is told without the last step, as its work may not be all there; --all-steps "
            "counts it too"
        )
    return [f"{trace.path}: {words}" for words in found]


def _notes_on_ranks(ranks: Sequence[Rank]) -> list[str]:
    """Return what a reader of several ranks has to know."""
    found = []
    world = max((rank.world or 0 for rank in ranks), default=0)
    missing = sorted(set(range(world)) - {rank.number for rank in ranks})
    if missing and len(ranks) > 1:
        listed = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        found.append(f"{len(missing)} of {world} ranks have no trace: {listed}")
    counts = {rank.number: len(rank.figures.steps.each) for rank in ranks}
    if len(set(counts.values())) > 1:
        words = ", ".join(f"rank {number}: {count}" for number, count in counts.items())
        found.append(f"ranks have unequal numbers of steps ({words}); common ones are compared")
    return found


def common_steps(ranks: Sequence[Rank]) -> dict[int, dict[int, int]]:
    """Return nanoseconds of each step that all ranks have, by step and rank."""
    times = {
        rank.number: {step.number: step.time for step in rank.figures.steps.each} for rank in ranks
    }
    shared = set.intersection(*(set(steps) for steps in times.values())) if times else set()
    return {step: {rank: of[step] for rank, of in times.items()} for step in sorted(shared)}
