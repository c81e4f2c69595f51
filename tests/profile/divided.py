"""Steps of a run, for tests of what is said of them."""

from __future__ import annotations

from collections.abc import Mapping

from torchlint.trace.division import LOADING, REST, Division, Part


def divided(
    steps: int,
    time: int,
    host: Mapping[str, int],
    device: Mapping[str, int] | None = None,
    events: Mapping[str, int] | None = None,
) -> Division:
    """Return so many steps that are alike: the time of one, and what it went into."""
    each = {LOADING: 0, **host}
    each = {**each, REST: time - sum(of for name, of in each.items() if name != REST)}
    counts = {name: (events or {}).get(name, 0) for name in each}
    return Division(tuple(Part(at, at * time, time, each, counts, device) for at in range(steps)))
