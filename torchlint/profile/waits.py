"""Where a program waits for a device, and what it would save at most not to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchlint.profile.replay import Dropped, Replay
from torchlint.profile.sites import FRAME, Site, Sources
from torchlint.trace.columns import NONE, OPERATOR, PYTHON, Ints, Trace
from torchlint.trace.nest import parents

_LIBRARY = ("torch/", "<", "threading.py", "contextlib.py", "runpy.py")
"""How paths begin of frames that are nobody's code to change."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A place that waits; times in nanoseconds.

    `alone` is what taking out this wait saves at most; None where it was not played.
    """

    site: Site
    calls: int
    waited: int
    alone: int | None


@dataclass(frozen=True, slots=True)
class Waits:
    """All places that wait, the most saving first, then the longest.

    `joint` is what taking out all waits saves at most, `span` the time from the first event to the
    last; `frames` says whether the trace has Python frames, `rows` which of its events wait.
    """

    each: tuple[Wait, ...]
    joint: int
    span: int
    frames: bool
    rows: Ints


def waits(trace: Trace, sources: Sources, played: int) -> Waits:
    """Find the places that wait, and play the trace without each.

    Args:
        trace: one rank's.
        sources: the files of the program.
        played: how many of those that wait longest are played.
    """
    replay = Replay(trace)
    frames = bool(trace.of_cat(PYTHON).any())
    by_site: dict[Site, list[int]] = {}
    where = Places(trace, sources)
    for call in replay.blocking.tolist():
        by_site.setdefault(where.of(int(replay.calls[call])), []).append(call)
    found = [(int(replay.waited[calls].sum()), site, calls) for site, calls in by_site.items()]
    found.sort(key=lambda row: -row[0])
    each = [
        Wait(site, len(calls), waited, _saved(replay, calls) if at < played else None)
        for at, (waited, site, calls) in enumerate(found)
        if waited
    ]
    each.sort(key=lambda wait: (-(wait.alone or 0), -wait.waited))
    joint = _saved(replay, replay.blocking.tolist()) if each else 0
    rows = replay.calls[replay.blocking[replay.waited[replay.blocking] > 0]]
    return Waits(tuple(each), joint, replay.span, frames, rows)


def _saved(replay: Replay, calls: Sequence[int]) -> int:
    """Return how much shorter the run would be at most without these waits, in nanoseconds."""
    return replay.span - replay.play(Dropped(waits=calls))


class Places:
    """Finds the place in the program of a call of a driver."""

    def __init__(self, trace: Trace, sources: Sources) -> None:
        self.trace = trace
        self.sources = sources
        self.around = parents(trace, ~trace.device() & ~trace.of_cat("gpu_user_annotation"))
        self.python = trace.of_cat(PYTHON)
        self.operator = trace.of_cat(OPERATOR)
        self.memory: dict[tuple[int, int], Site] = {}

    def of(self, row: int) -> Site:
        """Return the innermost place that is the program's own."""
        names = self.trace.columns.name
        inner, operator = row, NONE
        outer = int(self.around[row])
        while outer != NONE:
            if self.operator[outer]:
                operator = outer
            if self.python[outer]:
                key = int(names[outer]), int(names[inner])
                site = self.memory.get(key) or self._site(*key)
                if site is not None:
                    self.memory[key] = site
                    return site
            if self.python[outer] or self.operator[outer]:  # annotations call nothing
                inner = outer
            outer = int(self.around[outer])
        called = self.trace.names[int(names[operator if operator != NONE else row])]
        return Site("", 0, called, "call")

    def _site(self, frame: int, called: int) -> Site | None:
        """Return the place of a call in a frame; None where the frame is a library's."""
        found = FRAME.fullmatch(self.trace.names[frame])
        if found is None or _of_library(found[1]):
            return None
        path, first, function = found[1], int(found[2]), found[3]
        source = self.sources.of(path)
        if source is None:
            return Site(path, first, function, "function")
        line = source.line(function, first, self.trace.names[called])
        if line is None:
            return Site(path, 0, function, "function", differs=True)
        return Site(source.name, line or first, function, "unique" if line else "function")


def _of_library(path: str) -> bool:
    """Say whether a file is torch's or Python's own."""
    standard = "/lib/python3" in path and "-packages/" not in path
    return path.startswith(_LIBRARY) or "/torch/" in path or standard
