"""What a step goes into as the program runs, from what was measured under the profiler.

A device works as long for a step with the profiler as without: its time is told as it is. The host
takes longer for being recorded. So what recording its events took is taken off again, but of
waiting; it waits for data as long as in the steps without the profiler, and for the device in what
is left of the step.
"""

from __future__ import annotations

from torchlint.base.records import frozen
from torchlint.trace.division import LOADING, REST, WAITING, Division

EVENT = 1_000.0
"""Nanoseconds that recording an event takes at most: what steps became longer by beyond that was
other work of the machine."""


@frozen
class Account:
    """A step without the profiler; times in nanoseconds, and each side adds up to the step.

    Args:
        step: the time of one.
        host: what the training thread and autograd's do, by name.
        device: what the device does, by name, ``"idle"`` last; None where there is none.
        busy: how long the device works for a step; more than the step where it is never idle, and
            its work of one step ends in the next.
    """

    step: float
    host: dict[str, float]
    device: dict[str, float] | None
    busy: float | None


def account(parts: Division, step: float, loading: float | None, event: float) -> Account:
    """Return what a step without the profiler goes into.

    Args:
        parts: the profiled steps.
        step: nanoseconds of one without the profiler.
        loading: of it, waiting for data; None where that is not known.
        event: nanoseconds that recording an event takes.
    """
    seen, events = parts.host, parts.events
    found = {
        name: max(0.0, time - event * events[name])
        for name, time in seen.items()
        if name not in (LOADING, WAITING)
    }
    waits = {LOADING: min(step, seen[LOADING] if loading is None else loading)}
    own, room = sum(found.values()), step - waits[LOADING]
    if WAITING in seen:
        most = seen[WAITING] + max(0.0, parts.step - step)
        waits[WAITING] = min(max(0.0, room - own), most)
    left = room - own - waits.get(WAITING, 0.0)
    if left < 0:
        found = {name: time * room / own for name, time in found.items()}
    else:
        found[REST] += left
    host = {**waits, **found}
    if parts.device is None:
        return Account(step, host, None, None)
    busy = sum(parts.device.values())
    shorter = min(1.0, step / busy) if busy else 1.0
    device = {name: time * shorter for name, time in parts.device.items()}
    return Account(step, host, {**device, "idle": max(0.0, step - busy)}, busy)
