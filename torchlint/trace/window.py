"""The part of a trace that figures are of: all steps but the last, whose work may not be all
there."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from torchlint.trace.columns import DEVICE_ANNOTATION, DEVICE_CATS, Mask, Trace
from torchlint.trace.marks import recorded

STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
"""What ``profiler.step()`` calls a step in a trace."""


def step_marks(trace: Trace) -> list[tuple[int, int, int]]:
    """Return (number, start, end) of the steps that the program marked, by start."""
    numbers = {
        at: int(found[1]) for at, name in enumerate(trace.names) if (found := STEP.match(name))
    }
    columns = trace.columns
    marked = np.isin(columns.name, list(numbers)) & ~trace.of_cat(DEVICE_ANNOTATION)
    marks = columns.where(marked)
    rows = zip(marks.name.tolist(), marks.ts.tolist(), marks.end.tolist(), strict=True)
    return sorted(
        ((numbers[name], start, end) for name, start, end in rows), key=lambda row: row[1]
    )


def window(trace: Trace) -> Mask:
    """Return which events count: of two marked steps or more, what the host began before the last
    of them, and what that started on the device; else all.

    This is what Holistic Trace Analysis counts, so that its figures and ours can be compared.
    """
    marks = step_marks(trace)
    if len({number for number, *_ in marks}) < 2:
        return np.ones(len(trace.columns.ts), dtype=np.bool_)
    return before(trace, marks[-1][1])


def before(trace: Trace, time: int) -> Mask:
    """Return the host's events that began before a time, and what those started on the device."""
    columns = trace.columns
    device = trace.device()
    on_device = trace.of_cat(*DEVICE_CATS, DEVICE_ANNOTATION)
    host = ~on_device & (columns.ts < time)
    started = columns.corr[host & (columns.corr >= 0)]
    return host | (device & np.isin(columns.corr, started))


def ended_with_its_steps(trace: Trace) -> Trace:
    """Return a trace that torchlint recorded without what its recorder did at the end.

    It stops the profiler inside of the statement that ends the last step, which seems to last until
    then.
    """
    marks = step_marks(trace)
    if not recorded(trace) or not marks:
        return trace
    columns, end = trace.columns, max(end for *_, end in marks)
    device = trace.of_cat(*DEVICE_CATS, DEVICE_ANNOTATION)
    kept = columns.where(device | (columns.ts < end))
    host = ~device[device | (columns.ts < end)]
    dur = np.where(host, np.minimum(kept.dur, end - kept.ts), kept.dur)
    return trace.with_columns(replace(kept, dur=dur))
