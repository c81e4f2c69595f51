"""What the time of a step went into: once as the host saw it, once as the device did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from torchlint.trace.columns import OPERATOR, Mask, Trace
from torchlint.trace.intervals import length, union
from torchlint.trace.kinds import COMMUNICATION, COMPUTE, MEMORY, kinds
from torchlint.trace.loader import of_loaders
from torchlint.trace.marks import of_marks
from torchlint.trace.threads import together
from torchlint.trace.window import step_marks

REST = "other work of the host"
"""What is left of the host's side of a step: mostly Python."""


@dataclass(frozen=True, slots=True)
class Division:
    """The mean of all marked steps; times in nanoseconds, and each side adds up to the step.

    Args:
        steps: how many are marked.
        step: the time of one.
        host: what the training thread and autograd's did, by name.
        device: what the device did, by name; None where there is none.
    """

    steps: int
    step: float
    host: dict[str, float]
    device: dict[str, float] | None


def division(trace: Trace, waiting: Mask) -> Division | None:
    """Divide the steps of a trace; None where none is marked.

    Args:
        trace: one rank's.
        waiting: which events are calls that wait for the device.
    """
    marks = step_marks(trace)
    if not marks:
        return None
    begin, end = marks[0][1], max(end for *_, end in marks)
    columns = trace.columns
    inside = (columns.end > begin) & (columns.ts < end)
    ours = inside & np.isin(columns.thread, together(trace))
    device = trace.device()
    operators = trace.of_cat(OPERATOR) & ~of_marks(trace)
    host = {"waiting for data": ours & of_loaders(trace)}
    if device.any():
        host["waiting for the device"] = ours & waiting
        host["calls of the driver"] = ours & trace.calls()
    host["operators"] = ours & operators
    of = kinds(trace)[columns.name]
    work = {
        name: inside & device & (of == kind)
        for name, kind in (
            ("computing", COMPUTE),
            ("copying alone", MEMORY),
            ("communicating alone", COMMUNICATION),
        )
    }
    span = (begin, end, len(marks))
    return Division(
        len(marks),
        (end - begin) / len(marks),
        _divided(trace, host.items(), span, REST),
        _divided(trace, work.items(), span, "idle") if device.any() else None,
    )


def _divided(
    trace: Trace, layers: Iterable[tuple[str, Mask]], span: tuple[int, int, int], rest: str
) -> dict[str, float]:
    """Return how much of a step each layer covers that none before it does, and what none does."""
    begin, end, steps = span
    columns = trace.columns
    found: dict[str, float] = {}
    so_far = np.zeros(len(columns.ts), dtype=np.bool_)
    covered = 0
    for name, layer in layers:
        so_far |= layer
        rows = columns.where(so_far)
        now = length(union(np.maximum(rows.ts, begin), np.minimum(rows.end, end)))
        found[name] = (now - covered) / steps
        covered = now
    found[rest] = (end - begin - covered) / steps
    return found
