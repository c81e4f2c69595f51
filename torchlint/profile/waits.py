"""Where a program waits for a device, and what it would save at most not to."""

from __future__ import annotations

from torchlint.base.records import frozen
from torchlint.profile.bounds import saved
from torchlint.profile.places import Places
from torchlint.profile.replay import Dropped, Replay
from torchlint.profile.sites import Site
from torchlint.trace.columns import PYTHON, Ints
from torchlint.trace.marks import recorded


@frozen
class Wait:
    """A place that waits; times in nanoseconds.

    `alone` is what taking out this wait saves at most; None where it was not played.
    """

    site: Site
    calls: int
    waited: int
    alone: int | None


@frozen
class Waits:
    """All places that wait, the most saving first, then the longest.

    `joint` is what taking out all waits saves at most, `span` the time from the first event to the
    last; `frames` says whether the trace has Python frames or marks, `rows` which of its events
    wait.
    """

    each: tuple[Wait, ...]
    joint: int
    span: int
    frames: bool
    rows: Ints


def waits(replay: Replay, places: Places, played: int, span: int | None = None) -> Waits:
    """Find the places that wait, and play the trace without each.

    Args:
        replay: one rank's trace.
        places: its events' places.
        played: how many of those that wait longest are played.
        span: the time that is looked at, in nanoseconds; all of it where it is not said.
    """
    frames = bool(places.trace.of_cat(PYTHON).any()) or recorded(places.trace)
    by_site: dict[Site, list[int]] = {}
    blocking = replay.blocking[places.looked_at(replay.calls[replay.blocking])]
    for call in blocking.tolist():
        by_site.setdefault(places.of(int(replay.calls[call])), []).append(call)
    found = [(int(replay.waited[calls].sum()), site, calls) for site, calls in by_site.items()]
    found.sort(key=lambda row: -row[0])
    each = [
        Wait(site, len(calls), waited, saved(replay, Dropped(waits=calls)) if at < played else None)
        for at, (waited, site, calls) in enumerate(found)
        if waited
    ]
    each.sort(key=lambda wait: (-(wait.alone or 0), -wait.waited))
    joint = saved(replay, Dropped(waits=blocking.tolist())) if each else 0
    rows = replay.calls[blocking[replay.waited[blocking] > 0]]
    return Waits(tuple(each), joint, replay.span if span is None else span, frames, rows)
